/*
 * jsonb_image.c
 *		DAG-CBOR to the bytes of a jsonb value.
 *
 * The layout is that of convertJsonbValue() and its kin in the server's
 * jsonb_util.c, to the byte: a value made here and the same one read from JSON
 * text cannot be told apart.
 */
#include "core/cid.h"
#include "core/dagcbor.h"
#include "data/jsonb_image.h"

#define PAD_MAX			3
#define HEAD			4		/* of a varlena, a container, an entry */
#define NUMERIC_DIGITS	5		/* of base 10000, in a 64-bit number */
#define PAUSE_STRIDE	4096	/* tokens between two pauses */

#define BASE64_LEN(n)	((n) / 3 * 4 + ((n) % 3 > 0 ? (n) % 3 + 1 : 0))
#define BASE32_LEN(n)	(((n) * 8 + 4) / 5)

/* The most that one token adds to the result, its own entry included. */
static uint64_t
token_room(const AtpJsonbToken *token)
{
	const uint64_t object1 = PAD_MAX + HEAD + 2 * HEAD; /* of one pair */

	switch ((AtpCborKind) token->kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			return HEAD + PAD_MAX + HEAD + 2 + 2 * NUMERIC_DIGITS;
		case ATP_CBOR_TEXT:
			return HEAD + token->len;
		case ATP_CBOR_BYTES:
			return HEAD + object1 + strlen("$bytes") + BASE64_LEN((uint64_t) token->len);
		case ATP_CBOR_LINK:
			return HEAD + object1 + strlen("$link") + 1 + BASE32_LEN((uint64_t) token->len);
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			return HEAD + PAD_MAX + HEAD;
		default:
			return HEAD;
	}
}

/* What jsonb cannot hold, though it is DAG-CBOR (D28). */
static AtpErr
check_item(const AtpCborItem *item)
{
	if (item->kind == ATP_CBOR_FLOAT)
		return ATP_E_DATA_FLOAT;
	if (item->kind != ATP_CBOR_TEXT)
		return ATP_OK;
	if (memchr(item->str.ptr, 0, item->str.len) != NULL)
		return ATP_E_JSON_NUL;	/* B-30, D28 */
	if (item->is_key && item->str.len >= 5 && item->str.ptr[0] == '$' &&
		(atp_span_is(atp_cbor_span(item), "$link") ||
		 atp_span_is(atp_cbor_span(item), "$bytes")))
		return ATP_E_JSON_AMBIGUOUS;
	return ATP_OK;
}

/* The token of an item, but for a container's "next". */
static AtpErr
set_token(AtpJsonbToken *token, const AtpCborItem *item)
{
	token->kind = item->kind;
	switch (item->kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			token->u = item->u;
			break;
		case ATP_CBOR_TEXT:
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			if (item->str.len > ATP_JE_LEN_MASK)
				return ATP_E_JSON_SIZE;
			token->ptr = item->str.ptr;
			token->len = (uint32_t) item->str.len;
			break;
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			if (item->u > ATP_JSONB_TOKENS_MAX)
				return ATP_E_JSON_SIZE;
			token->len = (uint32_t) item->u;
			break;
		default:
			break;
	}
	return ATP_OK;
}

AtpErr
atp_jsonb_scan(const uint8_t *buf, size_t len, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
			   size_t *n, size_t *room, size_t *at)
{
	AtpCborReader r;
	size_t		count = 0;
	uint64_t	sum = HEAD + 2 * HEAD;	/* varlena; array around a root scalar */
	uint32_t	open[ATP_CBOR_DEPTH_DEFAULT + 1];	/* container tokens, by depth */

	atp_cbor_init(&r, buf, len, ATP_CBOR_DEPTH_DEFAULT);
	do
	{
		AtpJsonbToken unkept;	/* beyond cap they are only counted */
		AtpJsonbToken *t = count < cap ? &token[count] : &unkept;
		unsigned	before = r.depth;
		AtpCborItem item;
		AtpErr		err;

		if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
			return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
		if ((err = check_item(&item)) != ATP_OK || (err = set_token(t, &item)) != ATP_OK)
			return err;
		sum += token_room(t);
		if (count >= ATP_JSONB_TOKENS_MAX || sum > ATP_JE_LEN_MASK)
			return ATP_E_JSON_SIZE;
		count++;
		if (item.kind == ATP_CBOR_ARRAY || item.kind == ATP_CBOR_MAP)
		{
			t->next = (uint32_t) count;
			if (r.depth > before)
				open[r.depth] = (uint32_t) count - 1;
		}
		for (unsigned depth = before; depth > r.depth; depth--)
		{
			if (open[depth] < cap)
				token[open[depth]].next = (uint32_t) count;
		}
		if (count % PAUSE_STRIDE == 0)
			pause();
	} while (r.depth > 0);

	if (r.pos != len)
	{
		*at = r.pos;
		return ATP_E_CBOR_TRAILING;
	}
	*n = count;
	*room = (size_t) sum;
	return count <= cap ? ATP_OK : ATP_E_JSON_TOKENS;
}

/* --- writing --- */

typedef struct Image
{
	uint8_t    *out;
	size_t		len;
} Image;

/* The entries of one container, and what their values take so far. */
typedef struct Entries
{
	size_t		at;
	uint32_t	n;				/* written so far */
	uint32_t	total;
} Entries;

static inline void
put_u32(Image *im, size_t at, uint32_t value)
{
	memcpy(im->out + at, &value, sizeof(value));
}

static inline void
put_bytes(Image *im, const void *src, size_t n)
{
	memcpy(im->out + im->len, src, n);
	im->len += n;
}

static inline void
pad(Image *im)
{
	while (im->len % 4 != 0)
		im->out[im->len++] = 0;
}

/* A varlena's header of 4 bytes. */
static inline void
put_varsize(Image *im, size_t at, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	put_u32(im, at, (uint32_t) size);
#else
	put_u32(im, at, (uint32_t) size << 2);
#endif
}

static inline void
add_entry(Image *im, Entries *entries, uint32_t type, size_t len)
{
	uint32_t	entry = type | (uint32_t) len;

	entries->total += (uint32_t) len;
	if (entries->n % ATP_JB_STRIDE == 0)
		entry = type | entries->total | ATP_JE_HAS_OFF;
	put_u32(im, entries->at + 4 * (size_t) entries->n++, entry);
}

/* The header of a container, and room for its entries. */
static inline Entries
begin(Image *im, uint32_t header, uint32_t nentries)
{
	Entries		entries = {0};

	pad(im);
	put_u32(im, im->len, header);
	entries.at = im->len + HEAD;
	im->len = entries.at + HEAD * (size_t) nentries;
	return entries;
}

/* The numeric of u, or of -1 - u: the short form of numeric.c. */
static void
put_integer(Image *im, bool negative, uint64_t u)
{
	uint16_t	digits[NUMERIC_DIGITS + 1] = {0};	/* least significant first */
	unsigned	ndigits = 0;
	unsigned	low = 0;
	uint16_t	header = 0x8000;	/* NUMERIC_SHORT, no decimals */
	size_t		at;

	pad(im);
	at = im->len;
	for (; u > 0; u /= 10000)
		digits[ndigits++] = (uint16_t) (u % 10000);
	if (negative)
	{
		unsigned	i = 0;

		header |= 0x2000;
		while (++digits[i] == 10000)
			digits[i++] = 0;
		if (i >= ndigits)
			ndigits = i + 1;
	}
	if (ndigits > 0)
		header |= (uint16_t) (ndigits - 1); /* weight */
	while (low < ndigits && digits[low] == 0)
		low++;					/* trailing zeros are not stored */
	im->len += HEAD;
	put_bytes(im, &header, sizeof(header));
	for (unsigned i = ndigits; i > low; i--)
		put_bytes(im, &digits[i - 1], sizeof(digits[0]));
	put_varsize(im, at, im->len - at);
}

static void
put_base64(Image *im, const uint8_t *p, size_t n)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint8_t    *out = im->out + im->len;

	im->len += BASE64_LEN(n);
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
}

/* {"$link": "b..."} or {"$bytes": "..."} (B-25) */
static void
put_special(Image *im, const AtpJsonbToken *token)
{
	const char *key = token->kind == ATP_CBOR_LINK ? "$link" : "$bytes";
	Entries		entries = begin(im, ATP_JB_OBJECT | 1, 2);
	size_t		at;

	put_bytes(im, key, strlen(key));
	add_entry(im, &entries, ATP_JE_STRING, strlen(key));
	at = im->len;
	if (token->kind == ATP_CBOR_LINK)
		im->len += atp_cid_format(token->ptr, token->len, (char *) im->out + im->len);
	else
		put_base64(im, token->ptr, token->len);
	add_entry(im, &entries, ATP_JE_STRING, im->len - at);
}

static inline const AtpJsonbToken *
after(const AtpJsonbToken *first, const AtpJsonbToken *token)
{
	if (token->kind == ATP_CBOR_ARRAY || token->kind == ATP_CBOR_MAP)
		return first + token->next;
	return token + 1;
}

/*
 * Write one value; first is token 0, to which "next" refers.  Calls itself as
 * deep as the reader let the input nest, ATP_CBOR_DEPTH_DEFAULT.
 */
static void
put_value(Image *im, Entries *entries, const AtpJsonbToken *first, const AtpJsonbToken *token)
{
	size_t		start = im->len;	/* an entry's length includes its padding */
	uint32_t	type;

	switch ((AtpCborKind) token->kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			put_integer(im, token->kind == ATP_CBOR_NINT, token->u);
			type = ATP_JE_NUMERIC;
			break;
		case ATP_CBOR_TEXT:
			put_bytes(im, token->ptr, token->len);
			type = ATP_JE_STRING;
			break;
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			put_special(im, token);
			type = ATP_JE_CONTAINER;
			break;
		case ATP_CBOR_ARRAY:
			{
				Entries		mine = begin(im, ATP_JB_ARRAY | token->len, token->len);
				const AtpJsonbToken *member = token + 1;

				for (uint32_t i = 0; i < token->len; i++)
				{
					put_value(im, &mine, first, member);
					member = after(first, member);
				}
				type = ATP_JE_CONTAINER;
				break;
			}
		case ATP_CBOR_MAP:
			{
				Entries		mine = begin(im, ATP_JB_OBJECT | token->len, 2 * token->len);
				const AtpJsonbToken *key = token + 1;

				for (uint32_t i = 0; i < token->len; i++)
				{
					put_value(im, &mine, first, key);
					key = after(first, key + 1);
				}
				key = token + 1;
				for (uint32_t i = 0; i < token->len; i++)
				{
					put_value(im, &mine, first, key + 1);
					key = after(first, key + 1);
				}
				type = ATP_JE_CONTAINER;
				break;
			}
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
	if (entries != NULL)
		add_entry(im, entries, type, im->len - start);
}

size_t
atp_jsonb_build(const AtpJsonbToken *token, uint8_t *out)
{
	Image		im = {out, HEAD};

	switch ((AtpCborKind) token->kind)
	{
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			put_value(&im, NULL, token, token);
			break;
		default:
			{
				Entries		entries = begin(&im, ATP_JB_ARRAY | ATP_JB_SCALAR | 1, 1);

				put_value(&im, &entries, token, token);
				break;
			}
	}
	put_varsize(&im, 0, im.len);
	return im.len;
}
