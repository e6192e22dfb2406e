/*
 * car_push.h
 *		CAR version 1 files that come in pieces, as a download does: rules R-40 and
 *		Each block is hashed as it comes, and the first fault is the end.
 *
 * Memory is the caller's: none for a block that lies whole in a piece, else one
 * section, which has at most ATP_CAR_PUSH_ROOM bytes.
 */
#ifndef ATP_CAR_PUSH_H
#define ATP_CAR_PUSH_H

#include "core/repo/car.h"
#include "core/codec/varint.h"

#define ATP_CAR_BLOCK_MAX	2000000 /* bytes of one block */
#define ATP_CAR_PUSH_ROOM	(ATP_CAR_BLOCK_MAX + ATP_CID_MAX)

/* Who takes the blocks. */
typedef struct AtpCarTaker
{
	/*
	 * Memory for a section of n bytes, until the next call; what is in it need not
	 * be kept.  NULL: there is none, ATP_E_CAR_ROOM.
	 */
	uint8_t    *(*room) (void *ctx, size_t n);

	/*
	 * A block whose CID is one of atproto's, and right (R-41, B-42); it lies in
	 * memory of others.  Anything but ATP_OK is the end.
	 */
	AtpErr		(*block) (void *ctx, const AtpCarBlock *block);
	void	   *ctx;
	AtpSha256Fn sha256;
	void	   *sha_ctx;
} AtpCarTaker;

typedef struct AtpCarPush
{
	AtpCarTaker taker;
	AtpErr		err;			/* the first: nothing is done after it */
	uint64_t	bytes;			/* taken */
	uint64_t	blocks;			/* handed over */
	uint64_t	nroots;			/* 0 until the header has been read */
	uint8_t		root[ATP_CID_BLESSED_LEN];	/* roots[0]: the commit */

	/* the section that is being read */
	uint64_t	at;				/* where it begins */
	unsigned	nvarint;
	uint8_t		varint[ATP_VARINT_MAX];
	bool		counted;		/* its varint is complete ... */
	size_t		len;			/* ... and says so many bytes */
	size_t		have;			/* of them are in buf */
	uint8_t    *buf;
} AtpCarPush;

extern void atp_car_push_begin(AtpCarPush *push, const AtpCarTaker *taker);

/*
 * The next bytes of the file.  *at is the offset in the file of a fault.
 */
extern AtpErr atp_car_push(AtpCarPush *push, const uint8_t *data, size_t n, size_t *at);

/* No more will come: is the file whole, as far as its sections tell? */
extern AtpErr atp_car_push_end(AtpCarPush *push, size_t *at);

#endif							/* ATP_CAR_PUSH_H */
