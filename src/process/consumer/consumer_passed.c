/*
 * consumer_passed.c
 *		The time that the stream has passed (atproto.cursor.passed_at): the stream brings no older event any more.
 *
 * A sweep ends when the other streams of the target have passed the time at which the archive was read (H-43).  There are two signs:
 *
 * The times in the messages.  The time in a message is chosen by the account's server, and a single forged time must not end a
 * sweep.  So the time is the median of the last messages of many accounts.  Messages that the filters leave out count, too.
 *
 * Silence.  The server keeps the order of the messages.  If no message has come for an hour, although other bytes have come at the end
 * of this hour (answers to pings, mostly), then the server has sent all messages that were made before the hour.  Silence is
 * measured by the monotonic clock: a time of day that is set forward meanwhile must not end a sweep.
 *
 * The time is never later than this machine's time of day, and is committed after the messages that came before.
 */
#include "postgres.h"

#include "config/cursor.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "process/consumer/consumer_private.h"
#include "tables/base/sweep.h"
#include "types/foreign_time.h"
#include "utils/timestamp.h"

/* The number of accounts with a time ... */
#define ACCOUNTS	31

/* ... unless the stream has had fewer accounts for so long. */
#define FEW_MS		(60 * 60 * 1000)

/* The last messages of a batch that are looked at. */
#define MESSAGES	128

/* The silence that counts, and how often a longer silence is written. */
#define QUIET_US	(60 * 60 * INT64CONST(1000000))
#define NOTE_MS		60000

typedef struct Last
{
	uint32		key;			/* of the account's events */
	int64		time;
} Last;

static Last lasts[ACCOUNTS];
static int	nlasts;
static int	oldest;				/* index of the account that is replaced next */
static AtpTime began;			/* of the first time in lasts */

static void
note_time(uint32 key, int64 time)
{
	if (nlasts == 0)
		began = atp_now();
	for (int i = 0; i < nlasts; i++)
		if (lasts[i].key == key)
		{
			lasts[i].time = time;
			return;
		}
	if (nlasts < ACCOUNTS)
		lasts[nlasts++] = (Last) {key, time};
	else
	{
		lasts[oldest] = (Last) {key, time};
		oldest = (oldest + 1) % ACCOUNTS;
	}
}

static int
compare_times(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

static int64
find_median(void)
{
	int64		times[ACCOUNTS];

	for (int i = 0; i < nlasts; i++)
		times[i] = lasts[i].time;
	qsort(times, nlasts, sizeof(int64), compare_times);
	return times[(nlasts - 1) / 2];
}

void
atp_consumer_note_times(Consumer *c, int first)
{
	AtpBatch   *batch = c->batch;

	if (!c->source->by_repo)
		return;
	for (int i = Max(first, batch->nevents - MESSAGES); i < batch->nevents; i++)
		if (batch->events[i].key != 0 && batch->events[i].time > 0)
			note_time(batch->events[i].key, batch->events[i].time);
	if (nlasts == ACCOUNTS || (nlasts > 0 && atp_remaining(atp_now(), began, FEW_MS) == 0))
		batch->passed_at = Min(atp_foreign_time(find_median()), atp_time_of_day());
}

void
atp_consumer_heard(Consumer *c, bool messages)
{
	if (messages)
	{
		c->quiet_since = atp_now();
		c->quiet_from = atp_time_of_day();
	}
	/* the bytes were not there when the last wait began, so the server was alive then */
	c->heard = Max(c->heard, c->waited_from);
}

void
atp_consumer_note_quiet(Consumer *c)
{
	int64		silence = c->heard - c->quiet_since;
	TimestampTz passed_at;

	if (!c->source->by_repo || c->state != ATP_STATE_STREAMING || silence <= QUIET_US)
		return;
	/* what has come is committed first */
	if (c->batch->nmessages > 0 || c->batch->nopen > 0 || (c->shards != NULL && !atp_shards_idle(c->shards)) ||
		atp_remaining(atp_now(), c->quiet_noted, NOTE_MS) > 0)
		return;
	c->quiet_noted = atp_now();
	passed_at = Min(c->quiet_from + silence, atp_time_of_day()) - QUIET_US;
	atp_begin("noting that the stream is quiet");
	if (atp_extension_lock() == ATP_EXTENSION_READY && atp_sweep_read(c->sub->target) == ATP_SWEEP_SHARED)
		atp_cursor_passed(c->name, c->sub->ep->scope, passed_at);
	atp_commit();
	atp_consumer_report(c);
}
