/*
 * decode.c
 *		Messages of a stream into events and rows: what all streams share.
 *
 * No table is touched and no transaction is needed: src/core checks, the
 * types' constructors build the values.  What is wrong with one message or one
 * row becomes a dead letter; what is wrong with the stream drops it (E-24,
 * E-40, E-41).
 */
#include "postgres.h"

#include "clock.h"
#include "common/hashfn.h"
#include "core/datetime.h"
#include "core/frame.h"
#include "core/printable.h"
#include "core/tid.h"
#include "data/jsonb_write.h"
#include "miscadmin.h"
#include "stream/decode.h"
#include "stream/format.h"
#include "types/types.h"
#include "utils/memutils.h"

AtpDecoder *
atp_decoder_create(MemoryContext cxt, const AtpFormat *format)
{
	AtpDecoder *decoder = MemoryContextAllocZero(cxt, sizeof(AtpDecoder));

	decoder->cxt = cxt;
	decoder->format = format;
	return decoder;
}

void
atp_decoder_settings(AtpDecoder *decoder, const AtpSettings *settings)
{
	decoder->settings = settings;
}

/* Text of the peer's, made safe for text columns and logs. */
static char *
printable(AtpSpan s, size_t max)
{
	size_t		n = Min(s.len, max);
	char	   *copy = palloc(n + 1);

	memcpy(copy, s.ptr, n);
	atp_make_printable(copy, n);
	copy[n] = '\0';
	return copy;
}

static char *
describe(AtpErr err, size_t at)
{
	return psprintf("%s (byte %zu)", atp_err_text(err), atp_byte_number(at));
}

static AtpLetter *
new_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq, AtpErr err, size_t at)
{
	AtpLetter  *letter = atp_batch_new_letter(batch, stage, message, seq);

	strcpy(letter->sqlstate, "22P03");	/* invalid_binary_representation */
	letter->text = describe(err, at);
	return letter;
}

AtpLetter *
atp_dead_letter(AtpBatch *batch, const char *stage, const AtpEvent *event, AtpErr err, size_t at)
{
	AtpLetter  *letter = new_letter(batch, stage, event->message, event->seq, err, at);

	letter->did = event->did;
	return letter;
}

AtpErr
atp_make_jsonb(AtpBytes data, bool keep_raw, Jsonb **value, bytea **raw, size_t *at)
{
	AtpErr		err = ATP_OK;
	bool		unfit;

	*value = atp_jsonb_from_dagcbor(data.ptr, data.len, &err, at);
	/* D28: valid, but not for jsonb */
	unfit = *value == NULL && (err == ATP_E_JSON_NUL || err == ATP_E_JSON_AMBIGUOUS);
	*raw = unfit || (keep_raw && *value != NULL) ? atp_varlena(data.ptr, data.len) : NULL;
	return *value != NULL || unfit ? ATP_OK : err;
}

/* F-03: no time may lie further ahead of this machine's clock. */
#define AHEAD_MAX	(5 * USECS_PER_MINUTE)

bool
atp_is_ahead(uint64 micros)
{
	return micros > (uint64) (atp_time_of_day() + ATP_UNIX_TO_POSTGRES + AHEAD_MAX);
}

/* 0: it says none. */
static int64
time_of(const AtpHead *head)
{
	int64		time;
	size_t		unused;

	if (head->time.ptr == NULL ||
		atp_datetime_parse(head->time.ptr, head->time.len, &time, &unused) != ATP_OK)
		return 0;
	return time;
}

static AtpErr
parse(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	memset(head, 0, sizeof(*head));
	return decoder->format->parse(decoder, head, at);
}

static bool
same_repo(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* Which messages from the given one on are not ahead?  Each is looked at once. */
static void
look_ahead(AtpDecoder *decoder, AtpBatch *batch, int from)
{
	for (int i = Max(batch->nlooked, from); i < batch->nmessages; i++)
	{
		AtpBytes	message = batch->messages[i];
		AtpHead		head;
		size_t		unused;

		CHECK_FOR_INTERRUPTS();
		if (atp_frame_parse(message.ptr, message.len, &decoder->frame, &unused) != ATP_OK ||
			decoder->frame.kind != ATP_FRAME_MESSAGE ||
			parse(decoder, &head, &unused) != ATP_OK ||
			time_of(&head) == 0 || atp_is_ahead(time_of(&head)))
			continue;
		if (batch->on_time[0] >= 0 && !same_repo(batch->on_time_repo[0], head.repo))
		{
			batch->on_time[1] = batch->on_time[0];
			batch->on_time_repo[1] = batch->on_time_repo[0];
		}
		batch->on_time[0] = i;
		batch->on_time_repo[0] = head.repo;
	}
	batch->nlooked = batch->nmessages;
}

/*
 * An event whose revision is ahead of this machine's clock: is the stream so, too?
 * An event may carry any time.  It may tell of the stream's unless an event of another
 * repository after it knows better; with none after it, more have to come first.
 */
static bool
stream_may_be_ahead(AtpDecoder *decoder, AtpBatch *batch, const AtpHead *head)
{
	AtpFrame	frame = decoder->frame;
	int			index = batch->ndecoded - 1;

	if (time_of(head) <= 0 || !atp_is_ahead(time_of(head)))
		return false;
	look_ahead(decoder, batch, index + 1);
	/* where decoding goes on */
	decoder->frame = frame;
	for (int i = 0; i < lengthof(batch->on_time); i++)
		if (batch->on_time[i] > index && !same_repo(batch->on_time_repo[i], head->repo))
			return false;
	return true;
}

/* E-41 with D13.  *skip is set for the one repetition that is allowed. */
static AtpErr
check_seq(AtpPosition *position, int64 seq, bool *skip)
{
	*skip = false;
	if (seq == position->last && position->overlap)
		*skip = true;
	else if (seq <= position->last)
		return ATP_E_SEQ_ORDER;
	position->overlap = false;
	return ATP_OK;
}

/* The event of a message that counts, without rows. */
static AtpEvent *
new_event(AtpBatch *batch, AtpBytes message, const AtpHead *head)
{
	AtpEvent   *event = &batch->events[batch->nevents++];

	memset(event, 0, sizeof(*event));
	event->seq = head->seq;
	event->message = message;
	event->first_row = batch->nrows;
	if (head->repo.ptr != NULL)
		event->key = hash_bytes((const unsigned char *) head->repo.ptr, head->repo.len);
	batch->time = event->time = time_of(head);
	return event;
}

/*
 * What a message is to the stream.  *err and *at say what is wrong when the
 * result is not ATP_DROP_NONE; *event is NULL when the message does not count,
 * else *err may say what is wrong with its fields.
 */
static AtpDrop
decode_head(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position, AtpBytes message,
			AtpHead *head, AtpEvent **event, AtpErr *err, size_t *at)
{
	bool		skip;

	*event = NULL;
	*at = 0;
	*err = atp_frame_parse(message.ptr, message.len, &decoder->frame, at);
	if (*err != ATP_OK)
		return ATP_DROP_FRAME;
	if (decoder->frame.kind == ATP_FRAME_ERROR)
		return ATP_DROP_ERROR_FRAME;
	if (decoder->frame.kind == ATP_FRAME_UNKNOWN)
	{
		batch->skips[ATP_SKIP_UNKNOWN]++;
		return ATP_DROP_NONE;
	}

	*err = parse(decoder, head, at);
	if (*err == ATP_OK && head->rev != 0 && !position->timed && atp_is_ahead(atp_tid_micros(head->rev)))
	{
		if (stream_may_be_ahead(decoder, batch, head))
			return ATP_DROP_CLOCK;
		(void) parse(decoder, head, at);
	}
	if (*err == ATP_E_SEQ_MISSING || *err == ATP_E_SEQ_RANGE)
		return ATP_DROP_SEQ;
	if (head->what == ATP_HEAD_INFO)
	{
		if (*err == ATP_OK && atp_span_is(head->info, "OutdatedCursor"))
			position->outdated = true;
		return ATP_DROP_NONE;
	}
	/* an unknown message need not have a sequence number, nor a valid one */
	if (head->what == ATP_HEAD_UNKNOWN && head->seq == 0)
	{
		batch->skips[ATP_SKIP_UNKNOWN]++;
		return ATP_DROP_NONE;
	}

	if (head->seq > 0)
	{
		if (check_seq(position, head->seq, &skip) != ATP_OK)
		{
			*err = ATP_E_SEQ_ORDER;
			return ATP_DROP_SEQ;
		}
		if (skip)
		{
			batch->skips[ATP_SKIP_OVERLAP]++;
			return ATP_DROP_NONE;
		}
		/* from the oldest (0) or from nowhere, nothing was missed */
		if (position->outdated && position->last > 0)
			atp_batch_new_gap(batch, position->last, head->seq);
		position->outdated = false;
		position->last = head->seq;
	}
	*event = new_event(batch, message, head);
	return ATP_DROP_NONE;
}

/* An event that counts: its rows. */
static void
decode_rows(AtpDecoder *decoder, AtpBatch *batch, const AtpHead *head, AtpEvent *event,
			AtpErr err, size_t at)
{
	if (err != ATP_OK)
	{
		if (head->repo.ptr != NULL)
			event->did = atp_did_make(head->repo.ptr, head->repo.len);
		(void) atp_dead_letter(batch, "message", event, err, at);
	}
	if (head->what == ATP_HEAD_UNKNOWN)
		batch->skips[ATP_SKIP_UNKNOWN]++;
	event->ignored = err != ATP_OK || head->what == ATP_HEAD_UNKNOWN ||
		!decoder->format->make(decoder, batch, event);
}

static AtpDrop
decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position, bool rows,
	   const char **why, const char **error_name)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	AtpDrop		drop = ATP_DROP_NONE;

	*why = *error_name = NULL;
	while (batch->ndecoded < batch->nmessages && drop == ATP_DROP_NONE)
	{
		AtpBytes	message = batch->messages[batch->ndecoded++];
		const AtpFrame *frame = &decoder->frame;
		AtpHead		head = {0};
		AtpEvent   *event;
		AtpErr		err;
		size_t		at;

		CHECK_FOR_INTERRUPTS();
		drop = decode_head(decoder, batch, position, message, &head, &event, &err, &at);
		if (drop == ATP_DROP_ERROR_FRAME)
		{
			*error_name = printable(frame->error, 64);
			*why = frame->message.ptr != NULL
				? psprintf("the server sent the error %s: %s", *error_name, printable(frame->message, 256))
				: psprintf("the server sent the error %s", *error_name);
		}
		else if (drop == ATP_DROP_CLOCK)
		{
			batch->ndecoded--;
			*why = psprintf("this machine's clock is at least " INT64_FORMAT " minutes behind the stream's",
							(time_of(&head) - ATP_UNIX_TO_POSTGRES - atp_time_of_day()) / USECS_PER_MINUTE);
		}
		else if (drop != ATP_DROP_NONE)
		{
			if (rows)
				(void) new_letter(batch, "frame", message, Max(position->last, 0), err, at);
			*why = describe(err, at);
		}
		else if (event != NULL && rows)
			decode_rows(decoder, batch, &head, event, err, at);
	}
	MemoryContextSwitchTo(old);
	return drop;
}

AtpDrop
atp_decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position,
		   const char **why, const char **error_name)
{
	return decode(decoder, batch, position, true, why, error_name);
}

AtpDrop
atp_decode_heads(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position,
				 const char **why, const char **error_name)
{
	return decode(decoder, batch, position, false, why, error_name);
}
