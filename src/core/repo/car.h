/*
 * car.h
 *		CAR version 1 files, rules B-50 to B-53: a reader that walks the
 *		sections in place, and an index from CID to block in memory of the
 *		caller's.
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

#define ATP_CAR_HEADER_MAX	1000000 /* bytes; one root takes 60 */

/*
 * A header alone, without the varint before it: root, nroots and roots_at are set.
 * header_at is where it lies in the file, from whose start *at counts.
 */
extern AtpErr atp_car_header(AtpCar *car, AtpBytes header, size_t header_at, size_t *at);

/* Reads the header. */
extern AtpErr atp_car_open(AtpCar *car, const uint8_t *buf, size_t len, size_t *at);

/*
 * Next section; ATP_E_CAR_END after the last.  Does not hash.  *at is where the
 * section begins when there is nothing wrong with it, too.
 */
extern AtpErr atp_car_next(AtpCar *car, AtpCarBlock *block, size_t *at);

/*
 * Can the block's CID be checked?  Other hash functions than sha2-256 are refused
 * (B-53), which a caller should know before it takes memory for the block: a
 * section with the identity "hash" may have 5 bytes.
 */
#define ATP_CAR_SECTION_MIN		(1 + ATP_CID_BLESSED_LEN)	/* bytes, of one that can */

extern bool atp_car_can_verify(const AtpCarBlock *block);

/* B-53: the block's bytes give its CID. */
extern AtpErr atp_car_verify(const AtpCarBlock *block, AtpSha256Fn sha256, void *ctx);

/*
 * An index over blocks: open addressing on the CID.  slots has nslots
 * entries, a power of two up to 2^32, all zero at the start; blocks holds up to cap
 * entries.  A CID that comes twice is kept once.
 */
typedef struct AtpCarIndex
{
	AtpCarBlock *blocks;
	size_t		cap;
	size_t		n;
	uint32_t   *slots;
	size_t		nslots;			/* at least 2 * cap */
	uint64_t	seed;			/* a random number, where blocks come from a stranger */
} AtpCarIndex;

/*
 * Reads the file's next block into the index, once its hash is right; ATP_E_CAR_END
 * after the last.
 */
extern AtpErr atp_car_index_next(AtpCarIndex *index, AtpCar *car, AtpSha256Fn sha256, void *ctx, size_t *at);

extern bool atp_car_index_add(AtpCarIndex *index, const AtpCarBlock *block);	/* false: full */
extern const AtpCarBlock *atp_car_index_find(const AtpCarIndex *index, AtpBytes cid);

#endif							/* ATP_CAR_H */
