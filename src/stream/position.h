/*
 * position.h
 *		The position in a stream: which sequence numbers may come, and which part was
 *		missed (rules E-40, E-41, E-43, E-44, D13).  Needs no PostgreSQL header.
 */
#ifndef ATP_POSITION_H
#define ATP_POSITION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AtpPosition
{
	int64_t		last;			/* last sequence number taken; -1: none yet */
	int64_t		came;			/* the sequence number received last, taken or not; 0: none */
	bool		overlap;		/* the server may repeat the event last once (D13) */
	int64_t		again;			/* > 0: numbers after this one, up to last, may come again, in their order; 0: none may */
	bool		outdated;		/* #info OutdatedCursor came: a gap begins after last */
	bool		is_covered;		/* ... but an archive has the missed events, so there is no gap */
	int64_t		rewind;			/* > 0: numbers are times, and last is the highest: see AtpStreamKind */
} AtpPosition;

/* A part of the stream which the server no longer had (E-44). */
typedef struct AtpGap
{
	int64_t		after;
	int64_t		before;			/* 0: no gap */
} AtpGap;

/* The place of an event in the stream, by its sequence number. */
typedef enum AtpSeqOrder
{
	ATP_SEQ_NEXT,				/* the event counts */
	ATP_SEQ_REPEATED,			/* a repetition that is allowed: pass over */
	ATP_SEQ_BACK				/* a fault of the stream */
} AtpSeqOrder;

/*
 * The position of a new connection which asked for the events after cursor, and for the interval rewind
 * before it. cursor -1: no cursor was sent.
 */
extern AtpPosition atp_position_after(int64_t cursor, int64_t rewind);

/*
 * Take the sequence number of a received event.  If the event counts, the position moves, and *gap is the
 * part missed before the event.
 */
extern AtpSeqOrder atp_position_take(AtpPosition *position, int64_t seq, AtpGap *gap);

#endif							/* ATP_POSITION_H */
