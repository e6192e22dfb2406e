/*
 * frame_sql.c
 *		SQL functions on event-stream frames, to inspect dead letters:
 *		atproto.frame and atproto.frame_records.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "common/compat.h"
#include "core/wire/commit_check.h"
#include "core/wire/frame.h"
#include "core/wire/repos_message.h"
#include "data/block_index.h"
#include "data/error.h"
#include "data/jsonb_write.h"
#include "data/record_value.h"
#include "common/sha256.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_frame);
PG_FUNCTION_INFO_V1(atp_pg_frame_records);

static void
parse_frame(const bytea *in, AtpFrame *frame)
{
	size_t		at;
	AtpErr		err;

	err = atp_frame_parse_any((const uint8_t *) VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), frame, &at);
	if (err != ATP_OK)
		atp_data_error("invalid frame", err, at);
}

/* The frame's op; NULL if it exceeds the type integer. */
static Datum
frame_op(const AtpFrame *frame, bool *isnull)
{
	int64		op;

	*isnull = frame->op_u > PG_INT32_MAX;
	if (*isnull)
		return (Datum) 0;
	op = (int64) frame->op_u;
	return Int32GetDatum((int32) (frame->op_negative ? -1 - op : op));
}

Datum
atp_pg_frame(PG_FUNCTION_ARGS)
{
	bytea	   *in = PG_GETARG_BYTEA_PP(0);
	AtpFrame	frame;
	TupleDesc	desc;
	Jsonb	   *payload;
	AtpErr		err;
	size_t		at;
	Datum		values[3] = {0};
	bool		nulls[3];

	atp_require_utf8();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	parse_frame(in, &frame);

	values[0] = frame_op(&frame, &nulls[0]);
	nulls[1] = frame.t.ptr == NULL || memchr(frame.t.ptr, 0, frame.t.len) != NULL;
	if (!nulls[1])
		values[1] = PointerGetDatum(cstring_to_text_with_len(frame.t.ptr, frame.t.len));

	/* The payload of an unknown op need not be valid DAG-CBOR: then it is NULL. */
	payload = atp_jsonb_from_dagcbor(frame.payload, &err, &at);
	nulls[2] = payload == NULL;
	values[2] = PointerGetDatum(payload);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

/* The state of frame_records between two rows. */
typedef struct Commit
{
	AtpCarIndex index;
	AtpReposMessage msg;
} Commit;

/* Only a #commit has operations: for any other frame nops is 0. */
static Commit *
open_commit(const bytea *in)
{
	Commit	   *commit = palloc(sizeof(Commit));
	AtpFrame	frame;
	size_t		at;
	AtpErr		err;

	parse_frame(in, &frame);
	commit->msg.nops = 0;
	if (frame.kind != ATP_FRAME_MESSAGE || !atp_span_is(frame.t, "#commit") || !atp_frame_is_of(&frame, ATP_NSID_REPOS))
		return commit;
	if ((err = atp_repos_parse(&frame, &commit->msg, &at)) != ATP_OK)
		atp_data_error("invalid message", err, at);
	atp_block_index_init(&commit->index, commit->msg.blocks.ptr, commit->msg.blocks.len);
	err = atp_commit_check(&commit->msg, &commit->index, atp_sha256, NULL, &at);
	if (err != ATP_OK)
		atp_data_error("invalid commit", err,
					   at + (commit->msg.blocks.ptr - (const uint8_t *) VARDATA_ANY(in)));
	return commit;
}

static Datum
op_uri(const AtpReposMessage *msg, const AtpOp *op)
{
	char	   *uri = psprintf("at://%.*s/%.*s", (int) msg->did.len, msg->did.ptr,
							   (int) op->path.len, op->path.ptr);

	return PointerGetDatum(atp_aturi_make(uri, strlen(uri)));
}

Datum
atp_pg_frame_records(PG_FUNCTION_ARGS)
{
	static const char *const actions[] = {
		[ATP_CREATE] = "create",
		[ATP_UPDATE] = "update",
		[ATP_DELETE] = "delete",
	};
	FuncCallContext *call;
	Commit	   *commit;
	const AtpOp *op;
	Datum		values[4] = {0};
	bool		nulls[4] = {false, false, true, true};

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		atp_require_utf8();
		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		if (get_call_result_type(fcinfo, NULL, &call->tuple_desc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		call->tuple_desc = BlessTupleDesc(call->tuple_desc);
		call->user_fctx = commit = open_commit(PG_GETARG_BYTEA_P_COPY(0));
		call->max_calls = commit->msg.nops;
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	commit = call->user_fctx;
	if (call->call_cntr >= call->max_calls)
		SRF_RETURN_DONE(call);

	op = &commit->msg.ops[call->call_cntr];
	values[0] = CStringGetTextDatum(actions[op->action]);
	values[1] = op_uri(&commit->msg, op);
	if (op->block != NULL)
	{
		nulls[2] = false;
		values[2] = PointerGetDatum(atp_cidlink_make(op->cid.ptr, op->cid.len));
		values[3] = atp_record_value(op->block->data, &nulls[3]);
	}
	SRF_RETURN_NEXT(call, HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, values, nulls)));
}
