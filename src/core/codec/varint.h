/*
 * varint.h
 *		Unsigned varints, as in CIDs and CAR files: seven bits a byte, least
 *		significant first, at most nine bytes, only in the shortest form.
 */
#ifndef ATP_VARINT_H
#define ATP_VARINT_H

#include "core/atp.h"

#define ATP_VARINT_MAX	9

/* Reads at *pos and advances it; after an error *pos is unchanged. */
static inline AtpErr
atp_varint_read(const uint8_t *buf, size_t n, size_t *pos, uint64_t *value)
{
	uint64_t	v = 0;

	for (unsigned i = 0; i < ATP_VARINT_MAX; i++)
	{
		uint8_t		b;

		if (*pos + i >= n)
			return ATP_E_VARINT_TRUNCATED;
		b = buf[*pos + i];
		v |= (uint64_t) (b & 0x7f) << (7 * i);
		if (b < 0x80)
		{
			if (b == 0 && i > 0)
				return ATP_E_VARINT_LONG;
			*pos += i + 1;
			*value = v;
			return ATP_OK;
		}
	}
	return ATP_E_VARINT_LONG;
}

/* Writes at most ATP_VARINT_MAX bytes (value < 2^63); returns their number. */
static inline size_t
atp_varint_write(uint64_t value, uint8_t *out)
{
	size_t		n = 0;

	while (value >= 0x80)
	{
		out[n++] = (uint8_t) (value | 0x80);
		value >>= 7;
	}
	out[n++] = (uint8_t) value;
	return n;
}

#endif							/* ATP_VARINT_H */
