/*
 * json.c
 *		A strict pull reader of JSON: see json.h.
 */
#include "core/syntax/chars.h"
#include "core/codec/json.h"
#include "core/syntax/utf8.h"

void
atp_json_init(AtpJsonReader *r, const char *buf, size_t n, unsigned max_depth)
{
	r->buf = buf;
	r->len = n;
	r->pos = 0;
	r->depth = 0;
	r->max_depth = max_depth < ATP_JSON_DEPTH_MAX ? max_depth : ATP_JSON_DEPTH_MAX;
	r->started = false;
	r->first = false;
	r->after_key = false;
	r->others = false;
}

/* J-07: the white space of RFC 8259. */
static void
skip_space(AtpJsonReader *r)
{
	while (r->pos < r->len &&
		   (r->buf[r->pos] == ' ' || r->buf[r->pos] == '\n' || r->buf[r->pos] == '\r' || r->buf[r->pos] == '\t'))
		r->pos++;
}

static bool
take_char(AtpJsonReader *r, char c)
{
	if (r->pos >= r->len || r->buf[r->pos] != c)
		return false;
	r->pos++;
	return true;
}

/* The value of four hexadecimal digits at p, or -1. */
static int
parse_hex4(const char *p, const char *end)
{
	int			value = 0;

	if (end - p < 4)
		return -1;
	for (int i = 0; i < 4; i++)
	{
		if (!atp_char_is(p[i], ATP_C_HEX))
			return -1;
		value = value << 4 | (int) atp_hex_value(p[i]);
	}
	return value;
}

#define EACH(byte)	(UINT64_C(0x0101010101010101) * (byte))

/* Has the word a zero byte? */
static inline bool
has_zero(uint64_t word)
{
	return ((word - EACH(1)) & ~word & EACH(0x80)) != 0;
}

/*
 * Skips characters of a text that need no check, eight at a time: all but quote, backslash and control
 * characters.  May stop before the last of them.  *bits collects the bits of the skipped bytes: the top bits
 * tell whether all are ASCII.
 */
static inline const char *
plain_text(const char *p, const char *end, uint64_t *bits)
{
	uint64_t	word;

	for (; end - p >= 8; p += 8)
	{
		memcpy(&word, p, 8);
		if (((word - EACH(' ')) & ~word & EACH(0x80)) != 0 || has_zero(word ^ EACH('"')) || has_zero(word ^ EACH('\\')))
			break;
		*bits |= word;
	}
	return p;
}

/* Reads a text whose opening quote has been read. */
static AtpErr
read_text(AtpJsonReader *r, AtpJsonItem *item)
{
	const char *start = r->buf + r->pos;
	const char *end = r->buf + r->len;
	uint64_t	bits = 0;
	const char *p = plain_text(start, end, &bits);
	bool		has_nul;		/* never true: U+0000 is refused as a control character */

	item->escaped = false;
	for (; p < end && *p != '"'; p++)
	{
		r->pos = p - r->buf;
		if ((uint8_t) *p < ' ')
			return ATP_E_JSON_SYNTAX;
		bits |= (uint8_t) *p;
		if (*p != '\\')
			continue;
		item->escaped = true;
		if (++p == end)
			return ATP_E_JSON_SYNTAX;
		if (*p == 'u' ? parse_hex4(p + 1, end) < 0 : *p == '\0' || strchr("\"\\/bfnrt", *p) == NULL)
			return ATP_E_JSON_SYNTAX;
		if (*p == 'u')
			p += 4;
		p = plain_text(p + 1, end, &bits) - 1;
	}
	if (p == end)
	{
		r->pos = r->len;
		return ATP_E_JSON_SYNTAX;
	}
	item->raw = (AtpSpan) {start, p - start};
	r->pos = (size_t) (start - r->buf) +
		((bits & EACH(0x80)) == 0 ? (size_t) (p - start) : atp_utf8_valid((const uint8_t *) start, p - start, &has_nul));
	if (r->buf + r->pos != p)
		return ATP_E_JSON_SYNTAX;
	r->pos++;
	return ATP_OK;
}

static size_t
skip_digits(AtpJsonReader *r)
{
	size_t		start = r->pos;

	while (r->pos < r->len && atp_char_is(r->buf[r->pos], ATP_C_DIGIT))
		r->pos++;
	return r->pos - start;
}

static AtpErr
read_number(AtpJsonReader *r, AtpJsonItem *item)
{
	size_t		start = r->pos;

	item->kind = ATP_JSON_NUMBER;
	take_char(r, '-');
	if (!take_char(r, '0') && skip_digits(r) == 0)
		return ATP_E_JSON_SYNTAX;
	if (take_char(r, '.') && skip_digits(r) == 0)
		return ATP_E_JSON_SYNTAX;
	if (take_char(r, 'e') || take_char(r, 'E'))
	{
		if (!take_char(r, '-'))
			take_char(r, '+');
		if (skip_digits(r) == 0)
			return ATP_E_JSON_SYNTAX;
	}
	item->raw = (AtpSpan) {r->buf + start, r->pos - start};
	return ATP_OK;
}

static AtpErr
read_word(AtpJsonReader *r, AtpJsonItem *item, AtpJsonKind kind, const char *word)
{
	size_t		n = strlen(word);

	if (r->len - r->pos < n || memcmp(r->buf + r->pos, word, n) != 0)
		return ATP_E_JSON_SYNTAX;
	item->kind = kind;
	item->raw = (AtpSpan) {r->buf + r->pos, n};
	r->pos += n;
	return ATP_OK;
}

static AtpErr
read_value(AtpJsonReader *r, AtpJsonItem *item)
{
	char		c = r->pos < r->len ? r->buf[r->pos] : '\0';

	switch (c)
	{
		case '{':
		case '[':
			if (r->depth == r->max_depth)
				return ATP_E_JSON_DEPTH;
			item->kind = c == '{' ? ATP_JSON_OBJECT : ATP_JSON_ARRAY;
			r->is_object[r->depth++] = c == '{';
			r->first = true;
			r->pos++;
			return ATP_OK;
		case '"':
			item->kind = ATP_JSON_TEXT;
			r->pos++;
			return read_text(r, item);
		case 't':
			return read_word(r, item, ATP_JSON_TRUE, "true");
		case 'f':
			return read_word(r, item, ATP_JSON_FALSE, "false");
		case 'n':
			return read_word(r, item, ATP_JSON_NULL, "null");
		default:
			return read_number(r, item);
	}
}

/* Reads the next key, value, or end of the innermost container. */
static AtpErr
read_member(AtpJsonReader *r, AtpJsonItem *item)
{
	bool		is_object = r->is_object[r->depth - 1];

	if (take_char(r, is_object ? '}' : ']'))
	{
		item->kind = ATP_JSON_END;
		r->depth--;
		r->first = false;
		return ATP_OK;
	}
	if (!r->first && !take_char(r, ','))
		return ATP_E_JSON_SYNTAX;
	skip_space(r);
	r->first = false;
	if (!is_object)
		return read_value(r, item);
	if (!take_char(r, '"'))
		return ATP_E_JSON_SYNTAX;
	item->kind = ATP_JSON_KEY;
	r->after_key = true;
	return read_text(r, item);
}

AtpErr
atp_json_next(AtpJsonReader *r, AtpJsonItem *item, size_t *at)
{
	AtpErr		err;

	skip_space(r);
	if (r->depth == 0 && r->started)
		err = r->pos == r->len ? ATP_E_JSON_END : ATP_E_JSON_SYNTAX;
	else if (r->depth == 0)
	{
		r->started = true;
		err = read_value(r, item);
	}
	else if (r->after_key)
	{
		r->after_key = false;
		if (!take_char(r, ':'))
			err = ATP_E_JSON_SYNTAX;
		else
		{
			skip_space(r);
			err = read_value(r, item);
		}
	}
	else
		err = read_member(r, item);
	*at = r->pos;
	return err;
}

AtpErr
atp_json_finish(AtpJsonReader *r, const AtpJsonItem *item, size_t *at)
{
	unsigned	depth = r->depth;
	AtpJsonItem next;
	AtpErr		err;

	if (item->kind != ATP_JSON_OBJECT && item->kind != ATP_JSON_ARRAY)
		return ATP_OK;
	do
	{
		if ((err = atp_json_next(r, &next, at)) != ATP_OK)
			return err;
	} while (r->depth >= depth);
	return ATP_OK;
}

/*
 * Returns the place after a text's closing quote, or NULL if the text does not end; p is behind the opening
 * quote.
 */
static const char *
past_text(const char *p, const char *end)
{
	uint64_t	bits = 0;

	for (p = plain_text(p, end, &bits); p < end; p++)
	{
		if (*p == '"')
			return p + 1;
		if (*p == '\\' && ++p < end)
			p = plain_text(p + 1, end, &bits) - 1;
	}
	return NULL;
}

/*
 * J-21: skips the rest of a container whose first item was read, by counting brackets and skipping texts.
 * Anything else between the brackets is not checked here: the reader of the member does this later, and a
 * fault there concerns only this member.
 */
AtpErr
atp_json_measure(AtpJsonReader *r, AtpJsonItem *item, size_t *at)
{
	const char *p = r->buf + r->pos;
	const char *end = r->buf + r->len;
	size_t		depth = 1;

	if (item->kind != ATP_JSON_OBJECT && item->kind != ATP_JSON_ARRAY)
		return ATP_OK;
	item->raw.ptr = p - 1;
	while (depth > 0 && p != NULL)
	{
		if (p == end)
			p = NULL;
		else if (*p == '"')
			p = past_text(p + 1, end);
		else
		{
			depth += *p == '{' || *p == '[';
			depth -= *p == '}' || *p == ']';
			p++;
		}
	}
	if (p == NULL)
	{
		*at = r->len;
		return ATP_E_JSON_SYNTAX;
	}
	item->raw.len = p - item->raw.ptr;
	r->pos = p - r->buf;
	r->depth--;
	r->first = false;
	return ATP_OK;
}

/* The index of the key among names; n: absent. */
static unsigned
which_name(const AtpJsonItem *key, const char *const *names, unsigned n)
{
	unsigned	which = 0;

	if (key->escaped)
		while (which < n && !atp_json_is(key, names[which], strlen(names[which])))
			which++;
	else
		while (which < n && (strncmp(names[which], key->raw.ptr, key->raw.len) != 0 || names[which][key->raw.len] != '\0'))
			which++;
	return which;
}

/*
 * Reads an object, and the values of the members with these names. measured: containers are measured, not
 * parsed.
 */
static AtpErr
read_members(AtpJsonReader *r, const char *const *names, unsigned n,
			 AtpJsonItem *values, bool *repeated, bool measured, size_t *at)
{
	uint32_t	seen = 0;
	AtpJsonItem item;
	AtpErr		err;

	*repeated = false;
	for (unsigned i = 0; i < n; i++)
		values[i] = (AtpJsonItem) {.kind = ATP_JSON_NULL};
	while ((err = atp_json_next(r, &item, at)) == ATP_OK && item.kind != ATP_JSON_END)
	{
		unsigned	which = which_name(&item, names, n);

		if ((err = atp_json_next(r, &item, at)) != ATP_OK)
			return err;
		if ((err = measured ? atp_json_measure(r, &item, at) : atp_json_finish(r, &item, at)) != ATP_OK)
			return err;
		r->others |= which == n;
		if (which < n)
		{
			*repeated = *repeated || (seen >> which & 1);
			seen |= UINT32_C(1) << which;
			values[which] = item;
		}
	}
	return err;
}

AtpErr
atp_json_members(AtpJsonReader *r, const char *const *names, unsigned n,
				 AtpJsonItem *values, bool *repeated, size_t *at)
{
	return read_members(r, names, n, values, repeated, false, at);
}

AtpErr
atp_json_outline(AtpJsonReader *r, const char *const *names, unsigned n,
				 AtpJsonItem *values, bool *repeated, size_t *at)
{
	return read_members(r, names, n, values, repeated, true, at);
}

static size_t
put_utf8(uint32_t c, char out[4])
{
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t		n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = n; i-- > 1; c >>= 6)
		out[i] = (char) (0x80 | (c & 0x3f));
	out[0] = (char) (lead[n] | c);
	return n;
}

/* Decodes the escape at *p, behind its backslash; false: half of a surrogate pair. */
static bool
read_escape(const char **p, const char *end, uint32_t *c)
{
	static const char names[] = "bfnrt";
	static const char meanings[] = "\b\f\n\r\t";
	const char *name;

	if (**p != 'u')
	{
		name = strchr(names, **p);
		*c = name != NULL ? (uint8_t) meanings[name - names] : (uint8_t) **p;
		(*p)++;
		return true;
	}
	*c = (uint32_t) parse_hex4(*p + 1, end);
	*p += 5;
	if (*c >= 0xd800 && *c < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u')
	{
		uint32_t	low = (uint32_t) parse_hex4(*p + 2, end);

		if (low < 0xdc00 || low > 0xdfff)
			return false;
		*c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
		*p += 6;
	}
	return *c < 0xd800 || *c > 0xdfff;
}

bool
atp_json_text(const AtpJsonItem *item, char *out, size_t room, size_t *n)
{
	const char *p = item->raw.ptr;
	const char *end = p + item->raw.len;

	*n = 0;
	while (p < end)
	{
		const char *escape = memchr(p, '\\', end - p);
		size_t		len = (escape != NULL ? escape : end) - p;
		char		bytes[4];
		uint32_t	c;

		if (room - *n < len)
			return false;
		memcpy(out + *n, p, len);
		*n += len;
		if (escape == NULL)
			break;
		p = escape + 1;
		if (!read_escape(&p, end, &c))
			return false;
		len = put_utf8(c, bytes);
		if (room - *n < len)
			return false;
		memcpy(out + *n, bytes, len);
		*n += len;
	}
	return true;
}

bool
atp_json_is(const AtpJsonItem *item, const char *text, size_t n)
{
	char		buf[128];
	size_t		len;

	if (!item->escaped)
		return item->raw.len == n && memcmp(item->raw.ptr, text, n) == 0;
	return n <= sizeof(buf) && atp_json_text(item, buf, sizeof(buf), &len) &&
		len == n && memcmp(buf, text, n) == 0;
}
