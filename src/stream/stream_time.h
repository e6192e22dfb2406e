/*
 * stream_time.h
 *		The times in messages, compared with this machine's clock (F-03).  Private to
 *		src/stream, except AtpOnTime, which a batch contains.
 *
 * A commit with a revision ahead of the clock becomes a dead letter.  But if the clock is behind,
 * every commit would become one; then the stream has to wait instead.  Other messages of the stream
 * decide: one message of a different repository that is not ahead shows that the clock is right.
 */
#ifndef ATP_STREAM_TIME_H
#define ATP_STREAM_TIME_H

#include "postgres.h"

#include "core/atp.h"

struct AtpBatch;
struct AtpDecoder;
struct AtpHead;

/*
 * Messages of a batch that are not ahead.  Two are enough to answer, for any message, whether a later one of
 * a different repository is not ahead.
 */
typedef struct AtpOnTime
{
	int			nlooked;		/* number of messages looked at */
	int			message[2];		/* the last message that is not ahead, and the last one of a different repository; -1: none */
	AtpSpan		repo[2];		/* the repositories of these messages */
} AtpOnTime;

/* Reset to: no message was looked at. */
extern void atp_on_time_reset(AtpOnTime *on_time);

/* Is a time, in microseconds since the Unix epoch, further ahead of the clock than allowed? */
extern bool atp_is_ahead(uint64 micros);

/* The time in a message, in microseconds since the Unix epoch; 0: no time. */
extern int64 atp_head_time(const struct AtpHead *head);

/*
 * The revision of the message being decoded is ahead: may the whole stream be ahead, because this machine's
 * clock is behind?
 *
 * A single message may carry any time.  False if a later message of a different repository is not ahead: then
 * the clock is right.  True as long as no such message has come: then more messages have to come before a
 * decision.  *head and the decoder's state of the message are unchanged afterwards.
 */
extern bool atp_stream_may_be_ahead(struct AtpDecoder *decoder, struct AtpBatch *batch, struct AtpHead *head);

#endif							/* ATP_STREAM_TIME_H */
