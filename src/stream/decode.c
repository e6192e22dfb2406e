/*
 * decode.c
 *		Decodes messages of a stream into events and rows: the part common to all
 *		streams.
 *
 * No table is touched and no transaction is needed: src/core checks, and the types' constructors build
 * the values.  A fault in one message or row becomes a dead letter; a fault of the stream drops the
 * connection (E-24, E-40, E-41).
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/hashfn.h"
#include "core/wire/frame.h"
#include "core/syntax/printable.h"
#include "core/syntax/tid.h"
#include "data/dagcbor_value.h"
#include "data/jsonb_write.h"
#include "miscadmin.h"
#include "common/sha256.h"
#include "stream/decode.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "stream/unknown.h"
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
atp_decoder_format(AtpDecoder *decoder, const AtpFormat *format)
{
	decoder->format = format;
}

void
atp_decoder_settings(AtpDecoder *decoder, const AtpSettings *settings)
{
	decoder->settings = settings;
}

void
atp_decoder_shares(AtpDecoder *decoder, Oid table)
{
	decoder->table = table;
}

/* A peer's text, made safe for text columns and logs. */
static char *
printable_text(AtpSpan s, size_t max)
{
	size_t		n = Min(s.len, max);
	char	   *copy = palloc(n + 1);

	memcpy(copy, s.ptr, n);
	atp_make_printable(copy, n);
	copy[n] = '\0';
	return copy;
}

static char *
describe_error(AtpErr err, size_t at)
{
	return psprintf("%s (byte %zu)", atp_err_text(err), atp_byte_number(at));
}

static AtpDeadLetter *
new_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq, AtpErr err, size_t at)
{
	AtpDeadLetter *letter = atp_batch_new_dead_letter(batch, stage, message, seq);

	strlcpy(letter->sqlstate, "22P03", sizeof(letter->sqlstate));	/* invalid_binary_representation */
	letter->text = describe_error(err, at);
	return letter;
}

AtpDeadLetter *
atp_dead_letter(AtpBatch *batch, const char *stage, const AtpEvent *event, AtpErr err, size_t at)
{
	AtpDeadLetter *letter = new_letter(batch, stage, event->message, event->seq, err, at);

	letter->did = event->did;
	letter->event = event;
	return letter;
}

/*
 * Finish a conversion to jsonb, whose result was value and err: keep the bytes in *raw where jsonb cannot
 * represent the data, or where keep_raw asks for them.
 */
static AtpErr
keep_raw_bytes(AtpBytes data, AtpErr err, bool keep_raw, const Jsonb *value, bytea **raw)
{
	/* D28: valid data, but not representable as jsonb */
	bool		unfit = err == ATP_E_JSON_NUL || err == ATP_E_JSON_AMBIGUOUS;

	*raw = unfit || (keep_raw && value != NULL) ? atp_varlena(data.ptr, data.len) : NULL;
	return unfit ? ATP_OK : err;
}

AtpErr
atp_make_jsonb(AtpBytes data, bool keep_raw, Jsonb **value, bytea **raw, size_t *at)
{
	AtpErr		err;

	*value = atp_jsonb_from_dagcbor(data, &err, at);
	return keep_raw_bytes(data, err, keep_raw, *value, raw);
}

AtpErr
atp_make_record(AtpBytes block, const AtpSettings *settings, struct varlena **value, bytea **raw, size_t *at)
{
	AtpErr		err;
	Jsonb	   *jsonb;

	if (settings->packs)
	{
		*raw = NULL;
		*value = atp_dagcbor_make_record(block, &err, at);
		return err;
	}
	jsonb = atp_jsonb_from_record(block, &err, at);
	*value = (struct varlena *) jsonb;
	return keep_raw_bytes(block, err, settings->keep_raw, jsonb, raw);
}

AtpSigned *
atp_make_signed(AtpBytes map, bool is_label)
{
	AtpSigned  *signature = NULL;
	AtpCborWriter w = {.buf = palloc(map.len), .cap = map.len};
	AtpBytes	sig;
	size_t		at;

	if (atp_sig_cut(map.ptr, map.len, is_label, &w, &sig, &at) == ATP_OK && sig.len == ATP_SIG_LEN)
	{
		signature = palloc0(sizeof(AtpSigned));
		atp_sha256(NULL, w.buf, w.len, signature->digest);
		memcpy(signature->sig, sig.ptr, ATP_SIG_LEN);
	}
	pfree(w.buf);
	return signature;
}

/* A map of two pairs. */
#define MAP_OF_TWO	0xa2

AtpErr
atp_cut_frame(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	AtpErr		err = atp_frame_parse_any(message.ptr, message.len, &decoder->frame, at);

	/* a header of two pairs has "op" and "t" alone, if it has "t"; a frame of two pairs, "$type" and "payload" */
	decoder->framed = err == ATP_OK && (message.ptr[0] != MAP_OF_TWO || decoder->frame.t.ptr == NULL) &&
		atp_unknown_in_cbor(message, ATP_OF_FRAME);
	return err;
}

AtpErr
atp_parse_head(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	memset(head, 0, sizeof(*head));
	return decoder->format->parse(decoder, head, at);
}

AtpHeadKind
atp_head_of_info(AtpSpan name)
{
	return atp_span_is(name, "OutdatedCursor") ? ATP_HEAD_OUTDATED : ATP_HEAD_INFO;
}

/* E-45: the error that an error frame's name stands for. */
static AtpServerError
server_error(AtpSpan name)
{
	return atp_span_is(name, "FutureCursor") ? ATP_SERVER_ERROR_FUTURE_CURSOR : ATP_SERVER_ERROR_OTHER;
}

/* A message being decoded. */
typedef struct Incoming
{
	AtpDecoder *decoder;
	AtpBatch   *batch;
	AtpBytes	message;
	AtpHead		head;
	bool		qualifies;		/* S-10: no row may be made of the message */
	AtpEvent   *event;			/* NULL: the message does not count */
	AtpErr		err;			/* the fault of the message ... */
	size_t		at;				/* ... and the fault's position */
} Incoming;

/* Add an event, without rows, for a message that counts. */
static AtpEvent *
new_event(const Incoming *in)
{
	AtpBatch   *batch = in->batch;
	AtpSpan		repo = in->head.repo;
	AtpEvent   *event = &batch->events[batch->nevents++];

	memset(event, 0, sizeof(*event));
	event->seq = in->head.seq;
	event->message = in->message;
	event->first_row = batch->nrows;
	if (repo.ptr != NULL)
		event->key = hash_bytes((const unsigned char *) repo.ptr, repo.len);
	batch->time = event->time = atp_head_time(&in->head);
	return event;
}

/*
 * Is the message's revision or the time of a label ahead of the clock, and the stream may be ahead, too?  True: unknown whether the
 * message or the clock is wrong.
 */
static bool
clock_may_be_wrong(Incoming *in)
{
	uint64		claimed = in->head.rev != 0 ? atp_tid_micros(in->head.rev) : Max(in->head.latest, 0);

	return in->err == ATP_OK && claimed != 0 && atp_is_ahead(claimed) &&
		atp_stream_may_be_ahead(in->decoder, in->batch, &in->head);
}

/* Pass over a message that counts only in the statistics. */
static AtpDrop
pass_over(Incoming *in, AtpSkip skip)
{
	in->batch->skips[skip]++;
	return ATP_DROP_NONE;
}

/*
 * The stream's position after a message.  A time in the future is replaced by the present: a server asked for
 * events after a future time sends only new events, without an error, and events until then would be lost.
 */
static int64
place_of(const AtpPosition *position, int64 seq)
{
	return position->rewind > 0 && atp_is_ahead(seq) ? atp_time_of_day() + ATP_UNIX_TO_POSTGRES : seq;
}

/*
 * Decode the head of a message: is the stream in order, and is the message an event? in->err has the fault
 * when the result is not ATP_DROP_NONE.  It also has a fault of the fields of a message that became an event.
 */
static AtpDrop
decode_head(Incoming *in, AtpPosition *position, bool judge_clock)
{
	AtpDecoder *decoder = in->decoder;
	AtpHead    *head = &in->head;

	in->err = decoder->format->cut(decoder, in->message, &in->at);
	if (in->err != ATP_OK)
		return ATP_DROP_FRAME;
	in->qualifies = decoder->framed;
	if (decoder->frame.kind == ATP_FRAME_ERROR)
		return ATP_DROP_ERROR_FRAME;
	if (decoder->frame.kind == ATP_FRAME_UNKNOWN)
		return pass_over(in, ATP_SKIP_UNKNOWN);

	in->err = atp_parse_head(decoder, head, &in->at);
	in->qualifies |= head->qualifies;
	atp_unknown_came(head->seq);
	if (judge_clock && clock_may_be_wrong(in))
		return ATP_DROP_CLOCK;
	/* S-10: messages of that kind may have no sequence number */
	if (in->err == ATP_E_SEQ_MISSING || in->err == ATP_E_SEQ_RANGE)
		return in->qualifies ? pass_over(in, ATP_SKIP_UNKNOWN) : ATP_DROP_SEQ;
	if (head->what == ATP_HEAD_INFO || head->what == ATP_HEAD_OUTDATED)
	{
		/* S-10: whatever else the message says, a gap that is noted in vain does no harm */
		position->outdated |= in->err == ATP_OK && head->what == ATP_HEAD_OUTDATED;
		return in->qualifies ? pass_over(in, ATP_SKIP_UNKNOWN) : ATP_DROP_NONE;
	}
	/* a message of unknown type needs no sequence number, and an invalid one does not matter */
	if (head->what == ATP_HEAD_UNKNOWN && head->seq == 0)
		return pass_over(in, ATP_SKIP_UNKNOWN);

	if (head->seq > 0)
	{
		AtpGap		gap;

		switch (atp_position_take(position, place_of(position, head->seq), &gap))
		{
			case ATP_SEQ_NEXT:
				break;
			case ATP_SEQ_REPEATED:
				return pass_over(in, ATP_SKIP_OVERLAP);
			case ATP_SEQ_BACK:
				in->err = ATP_E_SEQ_ORDER;
				return ATP_DROP_SEQ;
		}
		if (gap.before > 0)
			atp_batch_new_gap(in->batch, &gap);
	}
	in->event = new_event(in);
	return ATP_DROP_NONE;
}

/* Decode an event's rows. */
static void
decode_rows(const Incoming *in)
{
	AtpEvent   *event = in->event;
	AtpSpan		repo = in->head.repo;
	bool		unknown = in->head.what == ATP_HEAD_UNKNOWN || in->qualifies;

	if (in->err != ATP_OK || in->qualifies)
	{
		if (repo.ptr != NULL)
			event->did = atp_did_make(repo.ptr, repo.len);
		/* no dead letter for a faulty event of an account that the filters exclude */
		if (event->did != NULL && !atp_wants_did(in->decoder->settings, event->did))
		{
			in->batch->skips[ATP_SKIP_FILTERED]++;
			event->ignored = true;
			return;
		}
		/* S-10: a fault may be how messages of that kind are */
		if (!in->qualifies)
			(void) atp_dead_letter(in->batch, "message", event, in->err, in->at);
	}
	if (unknown)
		in->batch->skips[ATP_SKIP_UNKNOWN]++;
	if (in->qualifies)
	{
		event->qualifies = true;
		event->ignored = in->decoder->format->mark == NULL || event->did == NULL || !in->decoder->format->mark(in->decoder, in->batch, event);
		return;
	}
	event->ignored = in->err != ATP_OK || unknown ||
		!in->decoder->format->make(in->decoder, in->batch, event);
}

/* Why the connection is dropped because of a message, in words. */
static char *
explain_drop(const Incoming *in, AtpDrop drop)
{
	const AtpFrame *frame = &in->decoder->frame;

	switch (drop)
	{
		case ATP_DROP_ERROR_FRAME:
			return frame->message.ptr == NULL
				? psprintf("the server sent the error %s", printable_text(frame->error, 64))
				: psprintf("the server sent the error %s: %s", printable_text(frame->error, 64),
						   printable_text(frame->message, 256));
		case ATP_DROP_CLOCK:
			return psprintf("this machine's clock is at least " INT64_FORMAT " minutes behind the stream's",
							(atp_head_time(&in->head) - ATP_UNIX_TO_POSTGRES - atp_time_of_day()) / USECS_PER_MINUTE);
		default:
			return describe_error(in->err, in->at);
	}
}

/*
 * atp_decode_is_known() looks at so many of the last messages: shared memory may lack a commit that another source
 * has brought.
 */
#define ASKED	8

bool
atp_decode_is_known(AtpDecoder *decoder, const AtpBatch *batch)
{
	AtpHead		head;
	size_t		at;
	AtpErr		err;

	if (decoder->format->is_known == NULL)
		return false;
	for (int i = batch->nmessages; i > Max(batch->ndecoded, batch->nmessages - ASKED); i--)
	{
		if (decoder->format->cut(decoder, batch->messages[i - 1], &at) != ATP_OK || decoder->frame.kind != ATP_FRAME_MESSAGE)
			continue;
		err = atp_parse_head(decoder, &head, &at);
		atp_unknown_came(head.seq);
		if (err == ATP_OK && decoder->format->is_known(decoder))
			return true;
	}
	return false;
}

AtpVerdict
atp_decode(AtpDecoder *decoder, AtpBatch *batch, AtpPosition *position, AtpDecodePart part)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	AtpVerdict	verdict = {.drop = ATP_DROP_NONE};
	Oid			table = decoder->table;

	if (part == ATP_DECODE_HELD)
		decoder->table = InvalidOid;
	while (batch->ndecoded < batch->nmessages && verdict.drop == ATP_DROP_NONE)
	{
		Incoming	in = {decoder, batch, batch->messages[batch->ndecoded++]};

		CHECK_FOR_INTERRUPTS();
		verdict.drop = decode_head(&in, position, part != ATP_DECODE_ROWS && part != ATP_DECODE_HELD);
		if (verdict.drop == ATP_DROP_NONE)
		{
			if (in.event != NULL && part != ATP_DECODE_HEADS)
			{
				decode_rows(&in);
				/* of the members inside of the message, too */
				atp_unknown_came(in.head.seq);
			}
			if (in.event != NULL && !in.event->ignored)
				batch->nwanted++;
			continue;
		}
		verdict.why = explain_drop(&in, verdict.drop);
		if (verdict.drop == ATP_DROP_ERROR_FRAME)
			verdict.error = server_error(decoder->frame.error);
		else if (verdict.drop == ATP_DROP_CLOCK)
			batch->ndecoded--;
		else if (part != ATP_DECODE_HEADS)
			(void) new_letter(batch, "frame", in.message, Max(position->last, 0), in.err, in.at);
	}
	decoder->table = table;
	MemoryContextSwitchTo(old);
	return verdict;
}
