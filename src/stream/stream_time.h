/*
 * stream_time.h
 *		The times that messages say, and this machine's clock (F-03).  Private to
 *		src/stream, but for what a batch keeps.
 *
 * A revision that lies ahead of the clock makes its commit a dead letter: but only
 * if it is the commit that is wrong, and not the clock, which would condemn every
 * commit.  The other messages of the stream tell: that of one other repository is
 * enough, if it is not ahead.
 */
#ifndef ATP_STREAM_TIME_H
#define ATP_STREAM_TIME_H

#include "postgres.h"

#include "core/atp.h"

struct AtpBatch;
struct AtpDecoder;
struct AtpHead;

/*
 * Which of a batch's messages are not ahead.  Two are enough to know of one after
 * any message, and of another repository than its own.
 */
typedef struct AtpOnTime
{
	int			nlooked;		/* messages that were looked at */
	int			message[2];		/* the last one that is not ahead, and the last one of another repository; -1: none */
	AtpSpan		repo[2];		/* of which repositories */
} AtpOnTime;

/* No message was looked at. */
extern void atp_on_time_reset(AtpOnTime *on_time);

/* Is a time, in microseconds since the Unix epoch, later than anybody's may be? */
extern bool atp_is_ahead(uint64 micros);

/* The time that a message says, likewise; 0: none. */
extern int64 atp_head_time(const struct AtpHead *head);

/*
 * The revision of the message that is being decoded is ahead: is the stream so, too?
 * A message may say any time.  It may tell of the stream's unless an event of another
 * repository after it knows better; with none after it, more have to come first.
 * head, and what the decoder knows of the message, are as before.
 */
extern bool atp_stream_may_be_ahead(struct AtpDecoder *decoder, struct AtpBatch *batch, struct AtpHead *head);

#endif							/* ATP_STREAM_TIME_H */
