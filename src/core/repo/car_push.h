/*
 * car_push.h
 *		CAR version 1 files that arrive in pieces, as a download does: rules
 *		Each block is hashed when it is complete, and the first
 *		fault ends the file.
 *
 * Memory comes from the caller: none for a block that lies whole in a piece,
 * else one section of at most ATP_CAR_PUSH_ROOM bytes.
 */
#ifndef ATP_CAR_PUSH_H
#define ATP_CAR_PUSH_H

#include "core/repo/car.h"
#include "core/codec/varint.h"

#define ATP_CAR_BLOCK_MAX	2000000 /* bytes of one block */
#define ATP_CAR_PUSH_ROOM	(ATP_CAR_BLOCK_MAX + ATP_CID_MAX)

/* The caller's functions: memory for sections, and a receiver of blocks. */
typedef struct AtpCarTaker
{
	/*
	 * Memory for a section of n bytes, in use until the next call of room; its
	 * contents need not be preserved.  NULL: no memory, the error is
	 * ATP_E_CAR_ROOM.
	 */
	uint8_t    *(*room) (void *ctx, size_t n);

	/*
	 * Receives a block whose CID has a form that atproto allows (B-42) and
	 * whose hash is right.  The block lies in the piece or in the memory
	 * from room: the receiver must copy what it keeps.  A result other than
	 * ATP_OK ends the file.
	 */
	AtpErr		(*block) (void *ctx, const AtpCarBlock *block);
	void	   *ctx;
	AtpSha256Fn sha256;
	void	   *sha_ctx;
} AtpCarTaker;

typedef struct AtpCarPush
{
	AtpCarTaker taker;
	AtpErr		err;			/* the first error; nothing is read after it */
	uint64_t	bytes;			/* bytes read */
	uint64_t	blocks;			/* blocks handed over */
	uint64_t	nroots;			/* 0 until the header has been read */
	uint8_t		root[ATP_CID_BLESSED_LEN];	/* roots[0]: the commit */

	/* the section being read */
	uint64_t	at;				/* offset of the section in the file */
	unsigned	nvarint;
	uint8_t		varint[ATP_VARINT_MAX];
	bool		counted;		/* the varint is complete ... */
	size_t		len;			/* ... and says that the section has so many bytes ... */
	size_t		have;			/* ... of which so many are in buf */
	uint8_t    *buf;
} AtpCarPush;

extern void atp_car_push_begin(AtpCarPush *push, const AtpCarTaker *taker);

/* The next piece of the file.  *at is the offset of a fault, counted in the file. */
extern AtpErr atp_car_push(AtpCarPush *push, const uint8_t *data, size_t n, size_t *at);

/* After the last piece: an error if the file ends within a section or has no header. */
extern AtpErr atp_car_push_end(AtpCarPush *push, size_t *at);

#endif							/* ATP_CAR_PUSH_H */
