/*
 * tiny_cbor.h
 *		A second reader of DAG-CBOR, to compare with src/core.  The two readers share no code, and this reader
 *		works in the opposite way: recursive, byte by byte, without libcbor, and slow.  The result is accept or
 *		reject, and a hash of all values in their order.
 */
#ifndef TINY_CBOR_H
#define TINY_CBOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Tiny
{
	const uint8_t *p;
	const uint8_t *end;
	uint64_t	hash;
} Tiny;

static inline uint64_t
tiny_mix(uint64_t hash, const void *data, size_t n)
{
	const uint8_t *b = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* A value as the hash sees it: a letter, a number, some bytes. */
static inline uint64_t
tiny_value(uint64_t hash, char letter, uint64_t number, const void *data, size_t n)
{
	hash = tiny_mix(hash, &letter, 1);
	hash = tiny_mix(hash, &number, sizeof(number));
	return n > 0 ? tiny_mix(hash, data, n) : hash;
}

static inline bool
tiny_head(Tiny *t, unsigned *major, unsigned *info, uint64_t *arg)
{
	unsigned	extra;

	if (t->p == t->end)
		return false;
	*major = *t->p >> 5;
	*info = *t->p & 31;
	t->p++;
	if (*info < 24)
	{
		*arg = *info;
		return true;
	}
	if (*info > 27)
		return false;
	extra = 1u << (*info - 24);
	if ((size_t) (t->end - t->p) < extra)
		return false;
	*arg = 0;
	for (unsigned i = 0; i < extra; i++)
		*arg = *arg << 8 | *t->p++;
	if (*major == 7)
		return *info == 27;
	/* would fewer bytes have done? */
	return extra == 1 ? *arg >= 24 : *arg >> (extra * 4) != 0;
}

/* Decodes to code points and checks these. */
static inline bool
tiny_utf8(const uint8_t *s, size_t n)
{
	for (size_t i = 0; i < n;)
	{
		static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
		unsigned	tails = s[i] < 0x80 ? 0 : s[i] >> 5 == 6 ? 1 : s[i] >> 4 == 14 ? 2 :
			s[i] >> 3 == 30 ? 3 : 9;
		uint32_t	c;

		if (tails == 9 || n - i <= tails)
			return false;
		c = tails == 0 ? s[i] : s[i] & (0x3f >> tails);
		for (unsigned k = 1; k <= tails; k++)
		{
			if (s[i + k] >> 6 != 2)
				return false;
			c = c << 6 | (s[i + k] & 0x3f);
		}
		if (c < least[tails] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
			return false;
		i += tails + 1;
	}
	return true;
}

static inline bool
tiny_cid_number(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
	*v = 0;
	for (unsigned shift = 0; *p < end && shift <= 56; shift += 7)
	{
		uint8_t		b = *(*p)++;

		*v += (uint64_t) (b % 128) << shift;
		if (b < 128)
			return b != 0 || shift == 0;
	}
	return false;
}

static inline bool
tiny_cid(const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;
	uint64_t	version;
	uint64_t	codec;
	uint64_t	function;
	uint64_t	size;

	return tiny_cid_number(&p, end, &version) && version == 1 &&
		tiny_cid_number(&p, end, &codec) &&
		tiny_cid_number(&p, end, &function) &&
		tiny_cid_number(&p, end, &size) &&
		size == (uint64_t) (end - p) && n <= 100 &&
		(function != 0x12 || size == 32);
}

static inline bool
tiny_item(Tiny *t, unsigned depth)
{
	unsigned	major;
	unsigned	info;
	uint64_t	arg;
	const uint8_t *start;

	if (!tiny_head(t, &major, &info, &arg))
		return false;
	start = t->p;
	switch (major)
	{
		case 0:
		case 1:
			t->hash = tiny_value(t->hash, major == 0 ? 'u' : 'n', arg, NULL, 0);
			return true;
		case 2:
		case 3:
			if (arg > (uint64_t) (t->end - t->p))
				return false;
			t->p += arg;
			t->hash = tiny_value(t->hash, major == 2 ? 'b' : 't', arg, start, (size_t) arg);
			return major == 2 || tiny_utf8(start, (size_t) arg);
		case 4:
			t->hash = tiny_value(t->hash, 'a', arg, NULL, 0);
			if (depth == 0)
				return false;
			for (uint64_t i = 0; i < arg; i++)
			{
				if (!tiny_item(t, depth - 1))
					return false;
			}
			return true;
		case 5:
			{
				const uint8_t *last = NULL;
				size_t		last_len = 0;

				t->hash = tiny_value(t->hash, 'm', arg, NULL, 0);
				if (depth == 0)
					return false;
				for (uint64_t i = 0; i < arg; i++)
				{
					const uint8_t *key = t->p;
					size_t		len;
					size_t		least;

					if (t->p == t->end || *t->p >> 5 != 3 || !tiny_item(t, depth - 1))
						return false;
					/* the encoded keys themselves must ascend, bytewise */
					len = (size_t) (t->p - key);
					least = len < last_len ? len : last_len;
					if (last != NULL)
					{
						int			cmp = memcmp(last, key, least);

						if (cmp > 0 || (cmp == 0 && last_len >= len))
							return false;
					}
					last = key;
					last_len = len;
					if (!tiny_item(t, depth - 1))
						return false;
				}
				return true;
			}
		case 6:
			{
				const uint8_t *bytes;

				if (arg != 42 || !tiny_head(t, &major, &info, &arg) || major != 2 ||
					arg > (uint64_t) (t->end - t->p))
					return false;
				bytes = t->p;
				t->p += arg;
				if (arg == 0 || bytes[0] != 0 || !tiny_cid(bytes + 1, (size_t) arg - 1))
					return false;
				t->hash = tiny_value(t->hash, 'l', arg - 1, bytes + 1, (size_t) arg - 1);
				return true;
			}
		default:
			if (info == 27)
			{
				/* exponent all ones: infinite or NaN; sign alone: -0.0 */
				if ((arg >> 52 & 0x7ff) == 0x7ff || arg == UINT64_C(1) << 63)
					return false;
				t->hash = tiny_value(t->hash, 'f', arg, NULL, 0);
				return true;
			}
			if (info < 20 || info > 22)
				return false;
			t->hash = tiny_value(t->hash, 's', arg, NULL, 0);
			return true;
	}
}

/* Reads one value, which must end the data. */
static inline bool
tiny_read(const uint8_t *data, size_t n, unsigned depth, uint64_t *hash)
{
	Tiny		t = {data, data + n, UINT64_C(0xcbf29ce484222325)};
	bool		good = tiny_item(&t, depth) && t.p == t.end;

	*hash = t.hash;
	return good;
}

#endif							/* TINY_CBOR_H */
