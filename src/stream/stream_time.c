/*
 * stream_time.c
 *		The times in messages, compared with this machine's clock.
 */
#include "postgres.h"

#include "common/clock.h"
#include "core/lexicon/datetime.h"
#include "core/wire/frame.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "types/types.h"
#include "utils/timestamp.h"

/* F-03: the largest distance ahead of this machine's clock allowed for a time. */
#define AHEAD_MAX	(5 * USECS_PER_MINUTE)

bool
atp_is_ahead(uint64 micros)
{
	return micros > (uint64) (atp_time_of_day() + ATP_UNIX_TO_POSTGRES + AHEAD_MAX);
}

int64
atp_head_time(const AtpHead *head)
{
	int64		time;
	size_t		at;

	if (head->micros != 0)
		return head->micros;
	if (head->time.ptr == NULL ||
		atp_datetime_parse(head->time.ptr, head->time.len, &time, &at) != ATP_OK)
		return 0;
	return time;
}

void
atp_on_time_reset(AtpOnTime *on_time)
{
	*on_time = (AtpOnTime) {.message = {-1, -1}};
}

/* Messages of labels name no repository: each counts as a message of a different one, or a labeler's stream would never be decided. */
static bool
same_repo(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && a.len > 0 && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* Is the message readable, and its time not ahead? */
static bool
is_on_time(AtpDecoder *decoder, AtpBytes message, AtpHead *head)
{
	size_t		at;
	int64		time;

	if (decoder->format->cut(decoder, message, &at) != ATP_OK ||
		decoder->frame.kind != ATP_FRAME_MESSAGE ||
		atp_parse_head(decoder, head, &at) != ATP_OK)
		return false;
	time = atp_head_time(head);
	return time != 0 && !atp_is_ahead(time);
}

/* Find the messages, from index from on, that are not ahead.  Each message is looked at once. */
static void
look_ahead(AtpDecoder *decoder, AtpBatch *batch, int from)
{
	AtpOnTime  *on_time = &batch->on_time;

	for (int i = Max(on_time->nlooked, from); i < batch->nmessages; i++)
	{
		AtpHead		head;

		CHECK_FOR_INTERRUPTS();
		if (!is_on_time(decoder, batch->messages[i], &head))
			continue;
		if (on_time->message[0] >= 0 && !same_repo(on_time->repo[0], head.repo))
		{
			on_time->message[1] = on_time->message[0];
			on_time->repo[1] = on_time->repo[0];
		}
		on_time->message[0] = i;
		on_time->repo[0] = head.repo;
	}
	on_time->nlooked = batch->nmessages;
}

bool
atp_stream_may_be_ahead(AtpDecoder *decoder, AtpBatch *batch, AtpHead *head)
{
	const AtpOnTime *on_time = &batch->on_time;
	AtpFrame	frame = decoder->frame;
	int			index = batch->ndecoded - 1;
	int64		time = atp_head_time(head);
	size_t		at;

	if (time <= 0 || !atp_is_ahead(time))
		return false;
	look_ahead(decoder, batch, index + 1);
	/* restore the decoder to the message being decoded */
	decoder->frame = frame;
	(void) atp_parse_head(decoder, head, &at);
	for (int i = 0; i < lengthof(on_time->message); i++)
		if (on_time->message[i] > index && !same_repo(on_time->repo[i], head->repo))
			return false;
	return true;
}
