/*
 * tid.h
 *		Timestamp identifiers, rules T-01 to T-12.  A TID is held as the uint64
 *		that its 13 characters spell (D3: all 64 bits, compared unsigned).
 */
#ifndef ATP_TID_H
#define ATP_TID_H

#include "core/atp.h"

#define ATP_TID_TEXT		13
#define ATP_TID_MAX_CANONICAL	UINT64_C(0x7fffffffffffffff)	/* top bit 0 */
#define ATP_TID_MAX_MICROS	((UINT64_C(1) << 53) - 1)
#define ATP_TID_MAX_CLOCK	1023

extern AtpErr atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at);
extern void atp_tid_format(uint64_t tid, char out[ATP_TID_TEXT]);

/*
 * Microseconds since the Unix epoch, as a TID sorts: including the top bit.  A
 * TID with the top bit set is not canonical, but anybody can send one: it lies
 * after the year 2255, not in 1970.  Compare a TID with a clock only by this
 * function (F-03), or such a TID would count as old.
 */
static inline uint64_t
atp_tid_micros(uint64_t tid)
{
	return tid >> 10;
}

static inline unsigned
atp_tid_clock(uint64_t tid)
{
	return (unsigned) (tid & ATP_TID_MAX_CLOCK);
}

static inline uint64_t
atp_tid_make(uint64_t micros, unsigned clock)
{
	return (micros << 10) | clock;
}

#endif							/* ATP_TID_H */
