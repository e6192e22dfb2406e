/*
 * jsonb_image.c
 *		Converts DAG-CBOR to the bytes of a jsonb value: see jsonb_image.h.
 *
 * The layout is exactly that of convertJsonbValue() and its subroutines in the
 * server's jsonb_util.c: a value made here must be identical to the value read
 * from JSON text, since the server compares and hashes such values.
 */
#include "core/codec/cid.h"
#include "core/codec/dagcbor_next.h"
#include "core/repo/record_check.h"
#include "data/jsonb_image.h"

#define PAD_MAX			3
#define HEAD			4		/* bytes of the head of a varlena, a container or an entry */
#define NUMERIC_DIGITS	5		/* digits of base 10000 in a 64-bit number */
#define PAUSE_STRIDE	4096	/* tokens read between two calls of pause() */

/* from utils/adt/numeric.c: the short form, with no decimals; the weight is added */
#define NUMERIC_SHORT		0x8000
#define NUMERIC_SHORT_SIGN	0x2000

#define BASE64_LEN(n)	((n) / 3 * 4 + ((n) % 3 > 0 ? (n) % 3 + 1 : 0))
#define BASE32_LEN(n)	(((n) * 8 + 4) / 5)

/* The most bytes that one value adds to the result, including its own entry. */
#define CONTAINER_ROOM	(HEAD + PAD_MAX + HEAD)
#define INTEGER_ROOM	(HEAD + PAD_MAX + HEAD + 2 + 2 * NUMERIC_DIGITS)
#define SPECIAL_ROOM	(CONTAINER_ROOM + 2 * HEAD) /* with the key and the text to be added */

/* D28: valid DAG-CBOR that jsonb cannot hold. */
static inline AtpErr
check_item(const AtpCborItem *item)
{
	if (item->kind == ATP_CBOR_FLOAT)
		return ATP_E_DATA_FLOAT;
	if (item->kind != ATP_CBOR_TEXT)
		return ATP_OK;
	if (item->has_nul)
		return ATP_E_JSON_NUL;	/* B-30, D28 */
	if (item->is_key && item->str.len >= 5 && item->str.ptr[0] == '$' &&
		(atp_span_is(atp_cbor_span(item), "$link") ||
		 atp_span_is(atp_cbor_span(item), "$bytes")))
		return ATP_E_JSON_AMBIGUOUS;
	return ATP_OK;
}

/* Sets the token of an item; returns the item's room. */
static inline uint64_t
set_token(AtpJsonbToken *token, const AtpCborItem *item)
{
	const uint64_t len = item->u;	/* length of a string */

	token->kind = item->kind;
	if (item->kind == ATP_CBOR_TEXT)	/* most items are texts: this branch is well predicted */
	{
		token->ptr = item->str.ptr;
		token->len = (uint32_t) len;
		return HEAD + len;
	}
	switch (item->kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			token->u = item->u;
			return INTEGER_ROOM;
		case ATP_CBOR_BYTES:
			token->ptr = item->str.ptr;
			token->len = (uint32_t) len;
			return SPECIAL_ROOM + strlen("$bytes") + BASE64_LEN(len);
		case ATP_CBOR_LINK:
			token->ptr = item->str.ptr;
			token->len = (uint32_t) len;
			return SPECIAL_ROOM + strlen("$link") + 1 + BASE32_LEN(len);
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			token->u = 0;		/* length of the map's keys, to be added up */
			token->len = (uint32_t) item->u;
			return CONTAINER_ROOM;
		default:
			return HEAD;
	}
}

/*
 * Is the value too large for jsonb?  The limits also keep lengths and counts within the 32 bits of a token's
 * fields.
 */
static inline bool
is_too_large(size_t count, uint64_t room)
{
	return count > ATP_JSONB_TOKENS_MAX || room > ATP_JE_LEN_MASK;
}

static inline __attribute__((always_inline))
AtpErr
read_tokens(const uint8_t *buf, size_t len, bool is_record, bool is_plain, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
			size_t *n, size_t *room, size_t *at)
{
	AtpCborReader r;
	AtpRecordView view;
	size_t		count = 0;
	uint64_t	sum = HEAD + 2 * HEAD;	/* the varlena, and the array around a scalar root */
	AtpErr		err;
	AtpErr		unfit = ATP_OK; /* the first fault that only jsonb has */
	size_t		unfit_at = 0;
	AtpJsonbToken *open[ATP_CBOR_DEPTH_DEFAULT + 1];	/* the open containers, by depth */
	AtpJsonbToken unkept;		/* tokens beyond cap are only counted */

	if (is_record && (err = atp_record_view(&view, len)) != ATP_OK)
		return err;
	atp_cbor_begin(&r, buf, len, ATP_CBOR_DEPTH_DEFAULT);
	do
	{
		AtpJsonbToken *t = count < cap ? &token[count] : &unkept;
		unsigned	before = r.depth;
		AtpCborItem item;

		if ((err = atp_cbor_read_next(&r, &item, at)) != ATP_OK)
			return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
		if (is_record && (err = atp_record_see(&view, &item, before, r.depth, at)) != ATP_OK)
			return err;
		if ((err = check_item(&item)) != ATP_OK && unfit == ATP_OK && !(is_plain && err == ATP_E_JSON_AMBIGUOUS))
		{
			unfit = err;
			unfit_at = item.at;
		}
		sum += set_token(t, &item);
		count++;
		if (item.is_key)
			open[before]->u += item.str.len;
		if (r.depth > before)
			open[r.depth] = t;
		if (count % PAUSE_STRIDE == 0)
		{
			if (is_too_large(count, sum))
				return ATP_E_JSON_SIZE;
			pause();
		}
	} while (r.depth > 0);

	*at = r.pos;
	if (r.pos != len)			/* B-09 */
		return ATP_E_CBOR_TRAILING;
	if (is_record && (err = atp_record_seen(&view, at)) != ATP_OK)
		return err;
	*at = unfit_at;
	if (unfit != ATP_OK)
		return unfit;
	if (is_too_large(count, sum))
		return ATP_E_JSON_SIZE;
	*n = count;
	*room = (size_t) sum;
	return count <= cap ? ATP_OK : ATP_E_JSON_TOKENS;
}

AtpErr
atp_jsonb_scan(const uint8_t *buf, size_t len, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
			   size_t *n, size_t *room, size_t *at)
{
	size_t		here = 0;		/* a local variable: the loop can keep it in a register, unlike *at */
	AtpErr		err = read_tokens(buf, len, false, false, token, cap, pause, n, room, &here);

	*at = here;
	return err;
}

AtpErr
atp_jsonb_scan_record(const uint8_t *buf, size_t len, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
					  size_t *n, size_t *room, size_t *at)
{
	size_t		here = 0;		/* a local variable: the loop can keep it in a register, unlike *at */
	AtpErr		err = read_tokens(buf, len, true, false, token, cap, pause, n, room, &here);

	*at = here;
	return err;
}

AtpErr
atp_jsonb_scan_plain(const uint8_t *buf, size_t len, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
					 size_t *n, size_t *room, size_t *at)
{
	return read_tokens(buf, len, false, true, token, cap, pause, n, room, at);
}

/* --- writing: each function returns the end of its output --- */

static inline uint8_t *
put_u32(uint8_t *out, uint32_t value)
{
	memcpy(out, &value, sizeof(value));
	return out + sizeof(value);
}

/* Most texts are short: two copies that may overlap, without a call. */
static inline uint8_t *
put_text(uint8_t *out, const void *src, size_t n)
{
	const uint8_t *s = src;

	if (n > 16)
		memcpy(out, s, n);
	else if (n >= 8)
	{
		memcpy(out, s, 8);
		memcpy(out + n - 8, s + n - 8, 8);
	}
	else if (n >= 4)
	{
		memcpy(out, s, 4);
		memcpy(out + n - 4, s + n - 4, 4);
	}
	else if (n > 0)
	{
		out[0] = s[0];
		out[n / 2] = s[n / 2];
		out[n - 1] = s[n - 1];
	}
	return out + n;
}

/* Pads to a multiple of 4 by writing four zero bytes: the next value has at least that many. */
static inline uint8_t *
pad_to_4(uint8_t *out)
{
	(void) put_u32(out, 0);
	return out + (-(uintptr_t) out & 3);
}

/* A varlena's header of 4 bytes. */
static inline void
put_varsize(uint8_t *out, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	(void) put_u32(out, (uint32_t) size);
#else
	(void) put_u32(out, (uint32_t) size << 2);
#endif
}

/* The entries of a container, and the values behind them. */
typedef struct Entries
{
	uint8_t    *first;
	uint8_t    *values;
} Entries;

/* Writes entry i, whose value lies between start, including padding, and end. */
static inline void
put_entry(const Entries *entries, uint32_t i, uint32_t type, const uint8_t *start, const uint8_t *end)
{
	if (i % ATP_JB_STRIDE == 0)
		type |= (uint32_t) (end - entries->values) | ATP_JE_HAS_OFF;
	else
		type |= (uint32_t) (end - start);
	(void) put_u32(entries->first + HEAD * (size_t) i, type);
}

/* Writes the header of a container, and leaves room for its entries. */
static inline Entries
begin_container(uint8_t *out, uint32_t header, uint32_t nentries)
{
	Entries		entries;

	entries.first = put_u32(pad_to_4(out), header);
	entries.values = entries.first + HEAD * (size_t) nentries;
	return entries;
}

/* Writes the numeric u or -1 - u, in the short form of numeric.c. */
static uint8_t *
put_large_integer(uint8_t *out, bool negative, uint64_t u)
{
	uint16_t	digits[NUMERIC_DIGITS + 1] = {0};	/* least significant first */
	unsigned	ndigits = 0;
	unsigned	low = 0;
	uint16_t	header = NUMERIC_SHORT;
	uint8_t    *start = out;

	for (; u > 0; u /= 10000)
		digits[ndigits++] = (uint16_t) (u % 10000);
	if (negative)
	{
		unsigned	i = 0;

		header |= NUMERIC_SHORT_SIGN;
		while (++digits[i] == 10000)
			digits[i++] = 0;
		if (i >= ndigits)
			ndigits = i + 1;
	}
	if (ndigits > 0)
		header |= (uint16_t) (ndigits - 1); /* weight */
	while (low < ndigits && digits[low] == 0)
		low++;					/* trailing zeros are not stored */
	out += HEAD;
	memcpy(out, &header, sizeof(header));
	out += sizeof(header);
	for (unsigned i = ndigits; i > low; i--, out += sizeof(digits[0]))
		memcpy(out, &digits[i - 1], sizeof(digits[0]));
	put_varsize(start, (size_t) (out - start));
	return out;
}

static inline uint8_t *
put_integer(uint8_t *out, const AtpJsonbToken *token)
{
	const uint16_t number[2] = {NUMERIC_SHORT, (uint16_t) token->u};

	out = pad_to_4(out);
	if (token->kind == ATP_CBOR_NINT || token->u - 1 >= 9999)
		return put_large_integer(out, token->kind == ATP_CBOR_NINT, token->u);
	put_varsize(out, HEAD + sizeof(number));
	memcpy(out + HEAD, number, sizeof(number));
	return out + HEAD + sizeof(number);
}

static uint8_t *
put_base64(uint8_t *out, const uint8_t *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (; n >= 3; n -= 3, p += 3)
	{
		*out++ = digits[p[0] >> 2];
		*out++ = digits[(p[0] & 3) << 4 | p[1] >> 4];
		*out++ = digits[(p[1] & 15) << 2 | p[2] >> 6];
		*out++ = digits[p[2] & 63];
	}
	if (n > 0)
	{
		*out++ = digits[p[0] >> 2];
		if (n == 1)
			*out++ = digits[(p[0] & 3) << 4];
		else
		{
			*out++ = digits[(p[0] & 3) << 4 | p[1] >> 4];
			*out++ = digits[(p[1] & 15) << 2];
		}
	}
	return out;
}

/* {"$link": "b..."} or {"$bytes": "..."} (B-25) */
static uint8_t *
put_special(uint8_t *out, const AtpJsonbToken *token)
{
	const bool	is_link = token->kind == ATP_CBOR_LINK;
	Entries		entries = begin_container(out, ATP_JB_OBJECT | 1, 2);
	uint8_t    *value = put_text(entries.values, is_link ? "$link" : "$bytes", is_link ? 5 : 6);
	uint8_t    *end = is_link ? value + atp_cid_format(token->ptr, token->len, (char *) value) :
		put_base64(value, token->ptr, token->len);

	put_entry(&entries, 0, ATP_JE_STRING, entries.values, value);
	put_entry(&entries, 1, ATP_JE_STRING, value, end);
	return end;
}

static uint8_t *put_container(uint8_t *out, const AtpJsonbToken **token);

/* Writes one value, with entry number i. */
static ATP_INTO_THE_LOOP uint8_t *
put_value(uint8_t *out, const Entries *entries, uint32_t i, const AtpJsonbToken **next)
{
	const AtpJsonbToken *token = *next;
	uint8_t    *start = out;	/* an entry's length includes the padding */
	uint32_t	type;

	*next = token + 1;
	switch ((AtpCborKind) token->kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			out = put_integer(out, token);
			type = ATP_JE_NUMERIC;
			break;
		case ATP_CBOR_TEXT:
			out = put_text(out, token->ptr, token->len);
			type = ATP_JE_STRING;
			break;
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			out = put_special(out, token);
			type = ATP_JE_CONTAINER;
			break;
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			*next = token;
			out = put_container(out, next);
			type = ATP_JE_CONTAINER;
			break;
		case ATP_CBOR_FALSE:
			type = ATP_JE_FALSE;
			break;
		case ATP_CBOR_TRUE:
			type = ATP_JE_TRUE;
			break;
		default:
			type = ATP_JE_NULL;
			break;
	}
	put_entry(entries, i, type, start, out);
	return out;
}

/*
 * Writes a map or list; *next becomes the token behind it.  The recursion is at
 * most as deep as the reader lets the input nest, ATP_CBOR_DEPTH_DEFAULT.
 */
static uint8_t *
put_container(uint8_t *out, const AtpJsonbToken **next)
{
	const AtpJsonbToken *token = (*next)++;
	const uint32_t n = token->len;

	if (token->kind == ATP_CBOR_ARRAY)
	{
		Entries		entries = begin_container(out, ATP_JB_ARRAY | n, n);

		out = entries.values;
		for (uint32_t i = 0; i < n; i++)
			out = put_value(out, &entries, i, next);
	}
	else
	{
		Entries		entries = begin_container(out, ATP_JB_OBJECT | n, 2 * n);
		uint8_t    *key = entries.values;	/* all keys come before all values */

		out = key + token->u;
		for (uint32_t i = 0; i < n; i++)
		{
			const AtpJsonbToken *text = (*next)++;
			uint8_t    *end = put_text(key, text->ptr, text->len);

			put_entry(&entries, i, ATP_JE_STRING, key, end);
			key = end;
			out = put_value(out, &entries, n + i, next);
		}
	}
	return out;
}

size_t
atp_jsonb_build(const AtpJsonbToken *token, uint8_t *out)
{
	const AtpJsonbToken *next = token;
	uint8_t    *end;

	switch ((AtpCborKind) token->kind)
	{
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			end = put_container(out + HEAD, &next);
			break;
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			end = put_special(out + HEAD, token);
			break;
		default:
			{
				Entries		entries = begin_container(out + HEAD, ATP_JB_ARRAY | ATP_JB_SCALAR | 1, 1);

				end = put_value(entries.values, &entries, 0, &next);
				break;
			}
	}
	put_varsize(out, (size_t) (end - out));
	return (size_t) (end - out);
}
