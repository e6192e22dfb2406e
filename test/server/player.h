/*
 * player.h
 *		Decides what a connection sends next: the messages of the capture, with
 *		the faults that were asked for.
 */
#ifndef SRV_PLAYER_H
#define SRV_PLAYER_H

#include "filter.h"

typedef enum StepKind
{
	STEP_MESSAGE,				/* send as the capture's wire has it */
	STEP_TEXT,					/* send as a text message */
	STEP_BINARY,				/* send as a binary message */
	STEP_PING,
	STEP_RAW,					/* write as it stands */
	STEP_IDLE,					/* nothing to send now */
	STEP_CLOSE,					/* send a close frame */
	STEP_CUT					/* end without one; bytes: the message that comes next */
} StepKind;

typedef struct Step
{
	StepKind	kind;
	const uint8_t *data;
	size_t		len;
	int			code;			/* of STEP_CLOSE */
} Step;

typedef struct Player
{
	const Options *options;
	Filter		filter;			/* what is not wanted is passed over */
	bool		faults;			/* do they apply to this connection? */
	bool		cut;
	size_t		pos;			/* next message of the capture */
	size_t		queue[2];		/* messages of the capture, sent before message pos ... */
	unsigned	nqueue;
	const Capture *extra;		/* ... and messages of a fault, sent before queue */
	size_t		extra_pos;
	bool		closing;		/* after an error message */
	uint64_t	fired;			/* a bit for each fault of options that has happened */
	int64_t		sent;			/* messages sent */
	int64_t		first_seq;		/* of the capture's messages sent */
	int64_t		last_seq;
} Player;

/* Send (of what the filter, which is the player's now, lets pass) what comes after the seq `after`; connection counts from 1. */
extern void player_start(Player *p, const Options *o, Filter filter, int64_t after, int64_t connection);

/* held: messages with this seq and above must wait (INT64_MAX: none). */
extern Step player_next(Player *p, int64_t held);

#endif							/* SRV_PLAYER_H */
