/*
 * plc_sql.c
 *		SQL functions on the did:plc directory: atproto.plc_check() judges the log of an account (M-50), atproto.plc_state()
 *		reads what an operation says of its account (M-06).
 *
 * The log is a jsonb value of strangers.  It becomes text again, because the rules of the encoding (M-03) are those of
 * JSON texts, which src/core reads for every source of operations.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "common/sha256.h"
#include "common/signature.h"
#include "core/plc/plc_entry.h"
#include "core/plc/plc_log.h"
#include "data/error.h"
#include "data/signed.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_plc_check);
PG_FUNCTION_INFO_V1(atp_pg_plc_state);

#define PLC_CHECK_COLUMNS	9
/* A directory takes about 100 operations of an account in a week. */
#define PLC_CHECK_MAX		100000

/* What is known of an entry at its place in the array. */
typedef struct CheckedEntry
{
	AtpErr		err;
	uint32_t	place;			/* in the log; ATP_PLC_NONE: refused */
	bool		has_did;
	bool		has_op;
	bool		has_mark;
	bool		marked;
	char		did[ATP_DID_PLC_TEXT];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpPlcKind	kind;
	int64_t		created_at;
} CheckedEntry;

typedef struct CheckedLog
{
	AtpPlcLog	log;
	AtpPlcEntry entry;
	AtpPlcOp	op;
	uint32_t	n;
	CheckedEntry *entries;
	int32	   *row_of;			/* place in the log: number of its row */
	MemoryContext kept;			/* memory of the log */
	MemoryContext each;			/* memory that the entry being judged takes */
	char		did[ATP_DID_PLC_TEXT];
} CheckedLog;

/* Judges an entry; returns its first fault in the order of M-01. */
static AtpErr
check_entry(CheckedLog *c, AtpSpan json, CheckedEntry *out)
{
	AtpPlcVerdict verdict;
	AtpPlcKey  *keys;
	uint8_t    *room;
	size_t		size;
	size_t		at;
	AtpErr		err = atp_plc_entry_read(json, &c->entry, &at);

	out->has_did = c->entry.did.ptr != NULL && atp_did_is_plc(c->entry.did.ptr, c->entry.did.len);
	if (out->has_did)
		memcpy(out->did, c->entry.did.ptr, sizeof(out->did));
	if (err != ATP_OK)
		return err;
	out->created_at = c->entry.created_at;
	out->has_mark = c->entry.has_mark;
	out->marked = c->entry.nullified;
	/* the first entry that names an account says whose log this is */
	if (c->log.did.ptr == NULL)
	{
		memcpy(c->did, out->did, sizeof(c->did));
		c->log.did = (AtpSpan) {c->did, sizeof(c->did)};
	}

	size = atp_plc_op_room(c->entry.operation.len);
	room = palloc_extended(size, MCXT_ALLOC_HUGE);
	if ((err = atp_plc_op_read(c->entry.operation, room, size, atp_sha256, NULL, &c->op, &at)) != ATP_OK)
		return err;
	out->has_op = true;
	out->kind = c->op.kind;
	memcpy(out->cid, c->op.cid, sizeof(out->cid));
	if (!atp_plc_entry_names(&c->entry, &c->op))
		return ATP_E_PLC_CID;
	err = atp_plc_judge(&c->log, &c->op, c->entry.did, c->entry.created_at, &atp_signature_verifier, &verdict);
	if (err != ATP_OK)
		return err;
	out->place = c->log.n;
	keys = MemoryContextAlloc(c->kept, Max(c->op.nkeys, 1) * sizeof(AtpPlcKey));
	memcpy(keys, c->op.keys, c->op.nkeys * sizeof(AtpPlcKey));
	atp_plc_log_add(&c->log, &c->op, c->entry.created_at, (const AtpPlcKey *) keys, &verdict);
	return ATP_OK;
}

static void
check_entries(CheckedLog *c, const char *text, size_t len)
{
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	AtpErr		err;

	atp_json_init(&r, text, len, ATP_JSON_DEPTH_DEFAULT);
	err = atp_json_next(&r, &item, &at);
	for (uint32_t i = 0; err == ATP_OK && i < c->n; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(c->each);
		CheckedEntry *entry = &c->entries[i];
		AtpSpan		json;

		CHECK_FOR_INTERRUPTS();
		entry->place = ATP_PLC_NONE;
		if ((err = atp_json_next(&r, &item, &at)) == ATP_OK && (err = atp_json_measure(&r, &item, &at)) == ATP_OK)
		{
			json = item.kind == ATP_JSON_OBJECT || item.kind == ATP_JSON_ARRAY ? item.raw : (AtpSpan) {"0", 1};
			entry->err = check_entry(c, json, entry);
			atp_require_curve(entry->err);
			if (entry->place != ATP_PLC_NONE)
				c->row_of[entry->place] = (int32) i + 1;
		}
		MemoryContextSwitchTo(old);
		MemoryContextReset(c->each);
	}
	if (err != ATP_OK)
		atp_data_error("invalid log", err, at);
}

/* M-05: was the operation nullified? */
static bool
is_nullified(const CheckedLog *c, const CheckedEntry *entry, int32 *by)
{
	if (entry->place == ATP_PLC_NONE || c->log.places[entry->place].nullified_by == ATP_PLC_NONE)
		return false;
	*by = c->row_of[c->log.places[entry->place].nullified_by];
	return true;
}

static void
put_row(const CheckedLog *c, uint32_t i, ReturnSetInfo *result)
{
	static const char *const kinds[] = {"plc_operation", "plc_tombstone", "create"};
	const CheckedEntry *entry = &c->entries[i];
	Datum		values[PLC_CHECK_COLUMNS] = {0};
	bool		nulls[PLC_CHECK_COLUMNS];
	int32		by = 0;
	bool		nullified = is_nullified(c, entry, &by);
	AtpErr		err = entry->err;

	/* M-50: what the log says of its own operation must be so, too. */
	if (err == ATP_OK && entry->has_mark && entry->marked != nullified)
		err = ATP_E_PLC_MARK;
	memset(nulls, true, sizeof(nulls));
	values[0] = Int32GetDatum((int32) i + 1);
	nulls[0] = false;
	if (!(nulls[1] = !entry->has_did))
		values[1] = PointerGetDatum(atp_did_make(entry->did, sizeof(entry->did)));
	if (!(nulls[2] = !entry->has_op))
	{
		values[2] = PointerGetDatum(atp_cidlink_make(entry->cid, sizeof(entry->cid)));
		values[3] = CStringGetTextDatum(kinds[entry->kind]);
		values[4] = TimestampTzGetDatum(entry->created_at - ATP_UNIX_TO_POSTGRES);
		nulls[3] = nulls[4] = false;
	}
	values[5] = CStringGetTextDatum(err != ATP_OK ? "refused" : nullified ? "nullified" : "valid");
	nulls[5] = false;
	if (!(nulls[6] = !nullified))
		values[6] = Int32GetDatum(by);
	if (!(nulls[7] = nulls[8] = err == ATP_OK))
	{
		values[7] = CStringGetTextDatum(atp_plc_reason(err));
		values[8] = CStringGetTextDatum(atp_err_text(err));
	}
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

/* SQL: atproto.plc_check(log) */
Datum
atp_pg_plc_check(PG_FUNCTION_ARGS)
{
	Jsonb	   *jb = PG_GETARG_JSONB_P(0);
	CheckedLog *c = palloc0(sizeof(CheckedLog));
	char	   *text;

	atp_require_utf8();
	if (!JB_ROOT_IS_ARRAY(jb) || JB_ROOT_IS_SCALAR(jb))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the log is no array"),
				 errhint("A directory's answer to /did:plc:.../log/audit is an array of entries.")));
	if (JB_ROOT_COUNT(jb) > PLC_CHECK_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the log has more than %d entries", PLC_CHECK_MAX)));
	/* without the flag, each call would keep memory until the query ends: PostgreSQL looks up the result's columns then */
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	c->kept = CurrentMemoryContext;
	c->n = JB_ROOT_COUNT(jb);
	c->entries = palloc0((c->n + 1) * sizeof(CheckedEntry));
	c->row_of = palloc((c->n + 1) * sizeof(int32));
	c->each = AllocSetContextCreate(CurrentMemoryContext, "entry of a log", ALLOCSET_DEFAULT_SIZES);
	atp_plc_log_init(&c->log, (AtpSpan) {NULL, 0}, c->n, palloc(atp_plc_log_room(c->n)));
	text = JsonbToCString(NULL, &jb->root, VARSIZE(jb));
	check_entries(c, text, strlen(text));
	for (uint32_t i = 0; i < c->n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		put_row(c, i, (ReturnSetInfo *) fcinfo->resultinfo);
	}
	return (Datum) 0;
}

/* M-06: the former form of a genesis may name its server without a scheme. */
static AtpSpan
with_scheme(const AtpPlcState *state)
{
	AtpSpan		server = state->server;
	char	   *text;

	if (state->kind != ATP_PLC_CREATE || atp_span_begins(server, "https://") || atp_span_begins(server, "http://"))
		return server;
	text = psprintf("https://%.*s", (int) server.len, server.ptr);
	return (AtpSpan) {text, strlen("https://") + server.len};
}

/* SQL: atproto.plc_state(operation) */
Datum
atp_pg_plc_state(PG_FUNCTION_ARGS)
{
	bytea	   *operation = PG_GETARG_BYTEA_PP(0);
	AtpPlcState state;
	TupleDesc	desc;
	Datum		values[5] = {0};
	bool		nulls[5] = {true, true, true, true, true};
	AtpBytes	cbor = {(const uint8_t *) VARDATA_ANY(operation), VARSIZE_ANY_EXHDR(operation)};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (atp_plc_op_state(cbor, &state))
	{
		const AtpSpan texts[] = {state.key, state.label_key, with_scheme(&state), state.handle};

		for (int i = 0; i < lengthof(texts); i++)
			if (!(nulls[i] = texts[i].ptr == NULL || memchr(texts[i].ptr, 0, texts[i].len) != NULL))
				values[i] = PointerGetDatum(cstring_to_text_with_len(texts[i].ptr, texts[i].len));
		values[4] = BoolGetDatum(state.kind == ATP_PLC_TOMBSTONE);
		nulls[4] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
