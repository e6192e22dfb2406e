/*
 * format_plc.c
 *		The format of a did:plc directory: an entry of the directory's log in each message, as JSON (M-12).
 *
 * An entry becomes a row here, with the operation's DAG-CBOR and hashes.  Whether the operation holds, only the
 * account's log tells: tables/plc judges.  An operation that cannot be read becomes a row, too, because the refusal has
 * its place in a table.
 */
#include "postgres.h"

#include "common/sha256.h"
#include "core/codec/json_text.h"
#include "core/lexicon/datetime.h"
#include "core/plc/plc_entry.h"
#include "stream/format.h"
#include "stream/plc_entries.h"
#include "types/types.h"

/* M-12: entries of another type may come some day. */
#define ENTRY_TYPE	"sequenced_op"

static AtpErr
cut_entry(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	*at = 0;
	decoder->framed = false;
	decoder->frame = (AtpFrame) {.kind = ATP_FRAME_MESSAGE, .payload = message};
	return ATP_OK;
}

static AtpErr
parse_entry_head(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	static const char *const names[] = {"type", "seq", "createdAt", "did"};
	enum
	{
		TYPE, SEQ, TIME, DID, NAMES
	};
	AtpJsonTexts *texts = &decoder->jetstream.texts;
	AtpBytes	message = decoder->frame.payload;
	AtpJsonReader r;
	AtpJsonItem field[NAMES];
	AtpJsonItem item;
	AtpSpan		type;
	AtpSpan		did;
	bool		repeated;
	AtpErr		err;

	head->what = ATP_HEAD_EVENT;
	texts->used = 0;
	atp_json_init(&r, (const char *) message.ptr, message.len, ATP_JSON_DEPTH_DEFAULT);
	if ((err = atp_json_next(&r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_JSON_OBJECT)
		return ATP_E_PLC_ENTRY;
	if ((err = atp_json_outline(&r, names, NAMES, field, &repeated, at)) != ATP_OK)
		return err;
	if ((err = atp_json_seq(&field[SEQ], &head->seq)) != ATP_OK)
		return field[SEQ].kind == ATP_JSON_NULL ? ATP_E_SEQ_MISSING : err;
	if (!atp_json_take_text(texts, &field[TYPE], &type) || !atp_span_is(type, ENTRY_TYPE))
	{
		head->what = ATP_HEAD_UNKNOWN;
		return ATP_OK;
	}
	(void) atp_json_take_text(texts, &field[TIME], &head->time);
	if (!atp_json_take_text(texts, &field[DID], &did) || !atp_did_is_plc(did.ptr, did.len))
		return ATP_E_PLC_ENTRY_DID;
	head->repo = did;
	return repeated ? ATP_E_PLC_ENTRY : ATP_OK;
}

/* Reads the operation into the batch's memory; *op stays NULL where the operation cannot be read. */
static AtpErr
read_operation(const AtpPlcEntry *entry, const AtpPlcOp **result)
{
	static AtpPlcOp op;			/* 2 kB of which most is not needed */
	size_t		size = atp_plc_op_room(entry->operation.len);
	uint8_t    *room = palloc_extended(size, MCXT_ALLOC_HUGE);
	size_t		at;
	AtpErr		err = atp_plc_op_read(entry->operation, room, size, atp_sha256, NULL, &op, &at);

	if (err == ATP_OK)
	{
		size_t		used = offsetof(AtpPlcOp, keys) + op.nkeys * sizeof(AtpPlcKey);
		AtpPlcOp   *copy = palloc(used + op.cbor.len);

		memcpy(copy, &op, used);
		memcpy((uint8_t *) copy + used, op.cbor.ptr, op.cbor.len);
		copy->cbor.ptr = (uint8_t *) copy + used;
		*result = copy;
		if (!atp_plc_entry_names(entry, copy))
			err = ATP_E_PLC_CID;
	}
	pfree(room);
	return err;
}

bool
atp_plc_make_entry(const AtpSettings *settings, AtpBatch *batch, AtpEvent *event, AtpErr *err, size_t *at)
{
	static AtpPlcEntry entry;	/* 8 kB of texts with escapes */
	AtpSpan		json = {(const char *) event->message.ptr, event->message.len};
	AtpRow	   *row;
	AtpPlcRow  *plc;

	*err = atp_plc_entry_read(json, &entry, at);
	if (entry.did.ptr == NULL)
		return false;
	event->did = atp_did_make(entry.did.ptr, entry.did.len);
	if (!atp_wants_did(settings, event->did))
	{
		*err = ATP_OK;
		return false;
	}
	row = atp_batch_new_row(batch);
	plc = &row->plc;
	*plc = (AtpPlcRow) {.err = *err, .created_at = entry.created_at};
	plc->did = (AtpSpan) {memcpy(palloc(entry.did.len), entry.did.ptr, entry.did.len), entry.did.len};
	if (*err == ATP_OK)
		plc->err = read_operation(&entry, &plc->op);
	/* directories number their entries differently, so an operation without DAG-CBOR is known by its JSON, or its CID */
	if (plc->op != NULL)
		memcpy(plc->digest, plc->op->cid + 4, sizeof(plc->digest));
	else if (entry.operation.ptr != NULL)
		atp_sha256(NULL, (const uint8_t *) entry.operation.ptr, entry.operation.len, plc->digest);
	else if (entry.cid.ptr != NULL)
		atp_sha256(NULL, (const uint8_t *) entry.cid.ptr, entry.cid.len, plc->digest);
	else
		atp_sha256(NULL, event->message.ptr, event->message.len, plc->digest);
	event->nrows++;
	return true;
}

static bool
make_entry(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpErr		err;
	size_t		at;

	if (atp_plc_make_entry(decoder->settings, batch, event, &err, &at))
		return true;
	if (err == ATP_OK)
		batch->skips[ATP_SKIP_FILTERED]++;
	else
		/* parse_entry_head() has read the DID; a reader of another mind makes a letter */
		(void) atp_dead_letter(batch, "message", event, err, at);
	return false;
}

const AtpFormat atp_plc_format = {.cut = cut_entry, .parse = parse_entry_head, .make = make_entry};
