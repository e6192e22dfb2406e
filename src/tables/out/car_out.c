/*
 * car_out.c
 *		Writes a CAR file, as one value or as rows of chunks: see car_out.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/codec/varint.h"
#include "core/repo/car_write.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "tables/out/car_out.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#define CHUNK		(256 * 1024)	/* bytes, after which a row ends */
#define STORE_KB	(16 * 1024)	/* memory of the tuplestore, whatever work_mem says */

/* Bytes of a section before its block. */
#define SECTION_HEAD_MAX	(ATP_VARINT_MAX + ATP_CID_MAX)

struct AtpCarOut
{
	ReturnSetInfo *result;		/* NULL: one value */
	StringInfoData buf;			/* a bytea */
};

static AtpCarOut *
make_out(ReturnSetInfo *result)
{
	AtpCarOut  *out = palloc(sizeof(AtpCarOut));

	out->result = result;
	initStringInfo(&out->buf);
	appendStringInfoSpaces(&out->buf, VARHDRSZ);
	return out;
}

AtpCarOut *
atp_car_out_value(void)
{
	return make_out(NULL);
}

AtpCarOut *
atp_car_out_rows(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext old;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	/* O-07: work_mem may be a gigabyte */
	old = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	tuplestore_end(result->setResult);
	result->setResult = tuplestore_begin_heap((result->allowedModes & SFRM_Materialize_Random) != 0, false, Min(work_mem, STORE_KB));
	MemoryContextSwitchTo(old);
	return make_out(result);
}

static void
end_row(AtpCarOut *out)
{
	if (out->buf.len <= VARHDRSZ)
		return;
	SET_VARSIZE(out->buf.data, out->buf.len);
	tuplestore_putvalues(out->result->setResult, out->result->setDesc, (Datum[]) {PointerGetDatum(out->buf.data)}, (bool[]) {false});
	out->buf.len = VARHDRSZ;
}

/* A writer into the next n bytes of the buffer. */
static AtpCborWriter
writer_for(AtpCarOut *out, Size n)
{
	if (out->result != NULL && out->buf.len >= CHUNK)
		end_row(out);
	if (n >= MaxAllocSize - out->buf.len)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the CAR file is larger than a bytea can be"),
				 errhint("Use atproto.repo_car_chunks().")));
	enlargeStringInfo(&out->buf, n);
	return (AtpCborWriter) {.buf = (uint8_t *) out->buf.data + out->buf.len, .cap = n};
}

void
atp_car_out_header(AtpCarOut *out, AtpBytes root)
{
	AtpCborWriter w = writer_for(out, 2 * SECTION_HEAD_MAX);

	atp_car_put_header(&w, root);
	Assert(w.len <= w.cap);
	out->buf.len += w.len;
}

void
atp_car_out_block(AtpCarOut *out, AtpBytes cid, AtpBytes block)
{
	AtpCborWriter w = writer_for(out, SECTION_HEAD_MAX + block.len);

	atp_car_put_block(&w, cid, block.ptr, block.len);
	Assert(w.len <= w.cap);
	out->buf.len += w.len;
}

bytea *
atp_car_out_end(AtpCarOut *out)
{
	if (out->result != NULL)
	{
		end_row(out);
		return NULL;
	}
	SET_VARSIZE(out->buf.data, out->buf.len);
	return (bytea *) out->buf.data;
}
