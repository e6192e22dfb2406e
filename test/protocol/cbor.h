/*
 * cbor.h
 *		DAG-CBOR that only tests read and write: one value alone, integers of
 *		either sign, and floats, which records cannot have (B-20).
 */
#ifndef ATP_TEST_CBOR_H
#define ATP_TEST_CBOR_H

#include "core/syntax/base32.h"
#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"

/* Read and check one value with all its parts, and keep nothing. */
static inline AtpErr
atp_cbor_skip(AtpCborReader *r, size_t *at)
{
	unsigned	depth = r->depth;
	AtpCborItem item;
	AtpErr		err;

	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err;
	return atp_cbor_finish(r, depth, at);
}

/* One whole value of any kind, and nothing after it (B-09). */
static inline AtpErr
atp_cbor_check(const uint8_t *buf, size_t len, unsigned max_depth, size_t *at)
{
	AtpCborReader r;
	AtpErr		err;

	atp_cbor_init(&r, buf, len, max_depth);
	if ((err = atp_cbor_skip(&r, at)) != ATP_OK)
		return err;
	if (r.pos != len)
	{
		*at = r.pos;
		return ATP_E_CBOR_TRAILING;
	}
	return ATP_OK;
}

static inline void
atp_cbor_put_int(AtpCborWriter *w, int64_t value)
{
	if (value >= 0)
		atp_cbor_put_uint(w, (uint64_t) value);
	else
		atp_cbor_put_nint(w, (uint64_t) (-1 - value));
}

static inline void
atp_cbor_put_float(AtpCborWriter *w, double value)
{
	uint8_t		item[9] = {0xfb};
	uint64_t	bits;

	memcpy(&bits, &value, sizeof(bits));
	atp_put_be64(item + 1, bits);
	atp_cbor_put_raw(w, item, sizeof(item));
}

#endif							/* ATP_TEST_CBOR_H */
