/*
 * car.h
 *		CAR version 1 files, rules B-50 to B-53: a reader that walks the
 *		sections in place, and an index from CID to block, both in the caller's
 *		memory.  For a file that arrives in pieces see car_push.h.
 */
#ifndef ATP_CAR_H
#define ATP_CAR_H

#include "core/atp.h"
#include "core/codec/cid.h"

typedef struct AtpCarBlock
{
	AtpBytes	cid;			/* binary */
	AtpBytes	data;
	size_t		at;				/* offset of the section */
} AtpCarBlock;

typedef struct AtpCar
{
	const uint8_t *buf;
	size_t		len;
	size_t		pos;			/* of the next section */
	AtpBytes	root;			/* roots[0]; ptr NULL when roots is empty */
	uint64_t	nroots;
	size_t		roots_at;		/* where the roots array's first member lies */
} AtpCar;

#define ATP_CAR_HEADER_MAX	1000000 /* bytes; the header of a file with a single root has 60 */

/*
 * Reads a header without the varint before it; sets root, nroots and roots_at.
 * header_at is the offset of the header in the file, from whose start *at
 * counts.
 */
extern AtpErr atp_car_header(AtpCar *car, AtpBytes header, size_t header_at, size_t *at);

/* Reads the header of the file in buf; the blocks come from atp_car_next(). */
extern AtpErr atp_car_open(AtpCar *car, const uint8_t *buf, size_t len, size_t *at);

/*
 * Next section; ATP_E_CAR_END after the last.  The hash is not checked: call
 * atp_car_verify().  After success, *at is the offset of the section.
 */
extern AtpErr atp_car_next(AtpCar *car, AtpCarBlock *block, size_t *at);

/*
 * Can the block's CID be checked?  Hash functions other than sha2-256 are
 * refused (B-53).  A caller should ask this before it takes memory for blocks:
 * a section with the identity "hash" may have only 5 bytes, so that the number
 * of sections in a file could be large.
 */
#define ATP_CAR_SECTION_MIN		(1 + ATP_CID_BLESSED_LEN)	/* least bytes of a checkable section */

extern bool atp_car_can_verify(const AtpCarBlock *block);

/* B-53: does the SHA-256 of the block's bytes agree with the block's CID? */
extern AtpErr atp_car_verify(const AtpCarBlock *block, AtpSha256Fn sha256, void *ctx);

/* Numbers that find a CID's slot: one for the sum, one for the length, and one for each four bytes. */
#define ATP_CAR_SECRETS	(2 + (ATP_CID_MAX + 3) / 4)

/*
 * An index from CID to block: open addressing on the CID. slots has nslots
 * entries, a power of two up to 2^32, all zero at the start; blocks holds up to
 * cap entries.  A repeated CID is stored once.
 */
typedef struct AtpCarIndex
{
	AtpCarBlock *blocks;
	size_t		cap;
	size_t		n;
	uint32_t   *slots;
	size_t		nslots;			/* at least 2 * cap */
	uint64_t	seed;			/* random where a stranger chooses the CIDs: see first_slot() */
	uint64_t	secrets[ATP_CAR_SECRETS];	/* computed from the seed by atp_car_index_add() */
} AtpCarIndex;

/* Reads the file's next block, checks its hash, and adds it to the index; ATP_E_CAR_END after the last. */
extern AtpErr atp_car_index_next(AtpCarIndex *index, AtpCar *car, AtpSha256Fn sha256, void *ctx, size_t *at);

extern bool atp_car_index_add(AtpCarIndex *index, const AtpCarBlock *block);	/* false: the index is full */
extern const AtpCarBlock *atp_car_index_find(const AtpCarIndex *index, AtpBytes cid);

#endif							/* ATP_CAR_H */
