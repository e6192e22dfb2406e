/*
 * position.h
 *		Where a stream is: which sequence number may come, and what was missed
 *		(rules E-40, E-41, E-43, E-44, D13).  Needs no PostgreSQL header.
 */
#ifndef ATP_POSITION_H
#define ATP_POSITION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AtpPosition
{
	int64_t		last;			/* last sequence number taken; -1: none yet */
	int64_t		came;			/* what came last; 0: nothing */
	bool		overlap;		/* the server may send last once more (D13) */
	bool		outdated;		/* #info OutdatedCursor came: a gap begins after last */
	int64_t		rewind;			/* > 0: numbers are times, and last is the highest: see AtpSource */
} AtpPosition;

/* A stretch of the stream that the server no longer had (E-44). */
typedef struct AtpGap
{
	int64_t		after;
	int64_t		before;			/* 0: there is none */
} AtpGap;

/* What an event is, by its sequence number. */
typedef enum AtpPlace
{
	ATP_PLACE_NEXT,				/* it counts */
	ATP_PLACE_REPEATED,			/* the one repetition that is allowed: to be passed over */
	ATP_PLACE_BACK				/* a fault of the stream */
} AtpPlace;

/*
 * Of a connection that asked for what follows the cursor, and for so much before it;
 * cursor -1: it asked for nothing.
 */
extern AtpPosition atp_position_after(int64_t cursor, int64_t rewind);

/* An event has come.  The position is moved when it counts, and *gap is what was missed before it. */
extern AtpPlace atp_position_take(AtpPosition *position, int64_t seq, AtpGap *gap);

#endif							/* ATP_POSITION_H */
