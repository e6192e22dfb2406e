/*
 * json_write.c
 *		DAG-CBOR as JSON.
 */
#include <inttypes.h>
#include <stdio.h>

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "json_write.h"

typedef struct Out
{
	char	   *buf;
	size_t		room;
	size_t		len;
	bool		reversed;
	bool		fits;
} Out;

static void
put(Out *o, const char *s, size_t n)
{
	if (n > o->room - o->len)
		o->fits = false;
	else
	{
		memcpy(o->buf + o->len, s, n);
		o->len += n;
	}
}

#define put_literal(o, s)	put(o, s, strlen(s))

static uint32_t
next_char(const uint8_t **p)
{
	const uint8_t *s = *p;
	unsigned	tails = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
	uint32_t	c = tails == 0 ? s[0] : s[0] & (0x3f >> tails);

	for (unsigned i = 1; i <= tails; i++)
		c = c << 6 | (s[i] & 0x3f);
	*p += tails + 1;
	return c;
}

static void
put_unit(Out *o, unsigned unit)
{
	char		text[12];

	put(o, text, (size_t) sprintf(text, "\\u%04x", unit));
}

static void
put_text(Out *o, AtpBytes s)
{
	const uint8_t *end = s.ptr + s.len;

	put_literal(o, "\"");
	for (const uint8_t *p = s.ptr; p < end;)
	{
		const char *start = (const char *) p;
		uint32_t	c = next_char(&p);

		if (c >= 0x10000 && o->reversed)
		{
			put_unit(o, 0xd800 + ((c - 0x10000) >> 10));
			put_unit(o, 0xdc00 + ((c - 0x10000) & 0x3ff));
		}
		else if (c < ' ' || c == '"' || c == '\\' || (o->reversed && c < 0x10000))
			put_unit(o, c);
		else
			put(o, start, (const char *) p - start);
	}
	put_literal(o, "\"");
}

static void
put_base64(Out *o, AtpBytes s)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < s.len; i += 3)
	{
		size_t		n = s.len - i < 3 ? s.len - i : 3;
		uint32_t	bits = (uint32_t) s.ptr[i] << 16 | (n > 1 ? (uint32_t) s.ptr[i + 1] << 8 : 0) | (n > 2 ? s.ptr[i + 2] : 0);

		for (size_t digit = 0; digit <= n; digit++)
			put(o, &digits[bits >> (18 - 6 * digit) & 63], 1);
	}
}

static bool write_value(Out *o, AtpCborReader *r);

static bool
write_array(Out *o, AtpCborReader *r, uint64_t n)
{
	put_literal(o, "[");
	for (uint64_t i = 0; i < n; i++)
	{
		put_literal(o, i > 0 ? ", " : "");
		if (!write_value(o, r))
			return false;
	}
	put_literal(o, "]");
	return true;
}

static void
reverse(char *s, size_t n)
{
	for (size_t i = 0; i < n / 2; i++)
	{
		char		c = s[i];

		s[i] = s[n - 1 - i];
		s[n - 1 - i] = c;
	}
}

/* The last member, which begins here, goes before the others. */
static void
turn(Out *o, size_t start, size_t member)
{
	reverse(o->buf + start, o->len - start);
	reverse(o->buf + start, o->len - member);
	reverse(o->buf + start + (o->len - member), member - start);
}

static bool
write_map(Out *o, AtpCborReader *r, uint64_t n)
{
	size_t		start;

	put_literal(o, "{");
	start = o->len;
	for (uint64_t i = 0; i < n; i++)
	{
		AtpCborItem key;
		size_t		at;
		size_t		member;

		put_literal(o, i > 0 && !o->reversed ? "," : "");
		member = o->len;
		if (atp_cbor_next(r, &key, &at) != ATP_OK || atp_span_is(atp_cbor_span(&key), "$link") || atp_span_is(atp_cbor_span(&key), "$bytes"))
			return false;
		put_text(o, key.str);
		put_literal(o, ":");
		if (!write_value(o, r))
			return false;
		put_literal(o, i > 0 && o->reversed ? "," : "");
		if (o->reversed)
			turn(o, start, member);
	}
	put_literal(o, "}");
	return true;
}

static bool
write_value(Out *o, AtpCborReader *r)
{
	char		text[ATP_CID_TEXT_MAX + 1];
	AtpCborItem item;
	size_t		at;

	if (atp_cbor_next(r, &item, &at) != ATP_OK || !o->fits)
		return false;
	switch (item.kind)
	{
		case ATP_CBOR_UINT:
			put(o, text, (size_t) sprintf(text, "%" PRIu64, item.u));
			return item.u <= INT64_MAX;
		case ATP_CBOR_NINT:
			put(o, text, (size_t) sprintf(text, "%" PRId64, -1 - (int64_t) (item.u & INT64_MAX)));
			return item.u <= INT64_MAX;
		case ATP_CBOR_BYTES:
			put_literal(o, "{\"$bytes\":\"");
			put_base64(o, item.str);
			put_literal(o, "\"}");
			return true;
		case ATP_CBOR_TEXT:
			put_text(o, item.str);
			return true;
		case ATP_CBOR_ARRAY:
			return write_array(o, r, item.u);
		case ATP_CBOR_MAP:
			return write_map(o, r, item.u);
		case ATP_CBOR_LINK:
			put_literal(o, "{\"$link\":\"");
			put(o, text, atp_cid_format(item.str.ptr, item.str.len, text));
			put_literal(o, "\"}");
			return true;
		case ATP_CBOR_NULL:
			put_literal(o, "null");
			return true;
		case ATP_CBOR_FALSE:
			put_literal(o, "false");
			return true;
		case ATP_CBOR_TRUE:
			put_literal(o, "true");
			return true;
		case ATP_CBOR_FLOAT:
			return false;
	}
	return false;
}

bool
atp_json_write(const uint8_t *cbor, size_t n, bool reversed, char *out, size_t room, size_t *len)
{
	Out			o = {.buf = out, .room = room, .reversed = reversed, .fits = true};
	AtpCborReader r;

	atp_cbor_init(&r, cbor, n, ATP_CBOR_DEPTH_DEFAULT);
	if (!write_value(&o, &r) || !o.fits || r.pos != n)
		return false;
	*len = o.len;
	return true;
}
