/*
 * car_sql.c
 *		SQL functions on CAR files: car_roots, car_blocks, car_records.
 *
 * The functions that return sets deliver one row per call.  So their memory is
 * only the file and, for car_records, an index over its blocks.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "common/compat.h"
#include "core/repo/car.h"
#include "core/repo/commit.h"
#include "core/codec/dagcbor.h"
#include "core/repo/mst.h"
#include "core/repo/path.h"
#include "data/block_index.h"
#include "data/error.h"
#include "data/record_value.h"
#include "common/sha256.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_car_roots);
PG_FUNCTION_INFO_V1(atp_pg_car_blocks);
PG_FUNCTION_INFO_V1(atp_pg_car_records);

static void
car_error(AtpErr err, size_t at)
{
	atp_data_error("invalid CAR file", err, at);
}

static void
open_car(AtpCar *car, const bytea *file)
{
	size_t		at;
	AtpErr		err;

	err = atp_car_open(car, (const uint8_t *) VARDATA_ANY(file), VARSIZE_ANY_EXHDR(file), &at);
	if (err != ATP_OK)
		car_error(err, at);
}

/* The tuple descriptor of the function's result row. */
static TupleDesc
result_desc(FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}

Datum
atp_pg_car_roots(PG_FUNCTION_ARGS)
{
	bytea	   *file = PG_GETARG_BYTEA_PP(0);
	Oid			type = get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid));
	ArrayBuildState *roots;
	AtpCar		car;
	AtpCborReader r;

	open_car(&car, file);
	roots = initArrayResult(type, CurrentMemoryContext, false);

	/* atp_car_open() has checked that the header has a sequence of links here: the roots. */
	atp_cbor_init(&r, car.buf, car.len, ATP_CBOR_DEPTH_DEFAULT);
	r.pos = car.roots_at;
	for (uint64_t i = 0; i < car.nroots; i++)
	{
		AtpCborItem item;
		size_t		at;
		AtpErr		err = atp_cbor_item(&r, &item, &at);

		if (err != ATP_OK)
			car_error(err, at);
		CHECK_FOR_INTERRUPTS();
		accumArrayResult(roots,
						 PointerGetDatum(atp_cidlink_make(item.str.ptr, item.str.len)),
						 false, type, CurrentMemoryContext);
	}
	PG_RETURN_DATUM(makeArrayResult(roots, CurrentMemoryContext));
}

Datum
atp_pg_car_blocks(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	AtpCar	   *car;
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;
	Datum		values[2];
	bool		nulls[2] = {false, false};

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		call->tuple_desc = result_desc(fcinfo);
		call->user_fctx = car = palloc(sizeof(AtpCar));
		open_car(car, PG_GETARG_BYTEA_P_COPY(0));
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	car = call->user_fctx;

	CHECK_FOR_INTERRUPTS();
	err = atp_car_next(car, &block, &at);
	if (err == ATP_E_CAR_END)
		SRF_RETURN_DONE(call);
	if (err == ATP_OK)
		err = atp_car_verify(&block, atp_sha256, NULL);
	if (err != ATP_OK)
		car_error(err, at);
	values[0] = PointerGetDatum(atp_cidlink_make(block.cid.ptr, block.cid.len));
	values[1] = PointerGetDatum(cstring_to_text_with_len((const char *) block.data.ptr,
														 block.data.len));
	SRF_RETURN_NEXT(call, HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, values, nulls)));
}

/* The state of car_records between two rows. */
typedef struct Repository
{
	const uint8_t *base;
	AtpCarIndex index;
	AtpCommit	commit;
	AtpMstWalk	walk;
	StringInfoData uri;			/* "at://did/", followed by a path */
	int			prefix;			/* length of "at://did/" */
} Repository;

/* Puts every block with a right hash into the index. */
static void
index_blocks(AtpCarIndex *index, AtpCar *car)
{
	size_t		at;
	AtpErr		err;

	while ((err = atp_car_index_next(index, car, atp_sha256, NULL, &at)) == ATP_OK)
		CHECK_FOR_INTERRUPTS();
	if (err != ATP_E_CAR_END)
		car_error(err, at);
}

static Repository *
open_repository(const bytea *file)
{
	Repository *repo = palloc(sizeof(Repository));
	AtpMstTree	tree;
	AtpCar		car;
	const AtpCarBlock *block;
	size_t		at;
	AtpErr		err;

	open_car(&car, file);
	repo->base = car.buf;
	atp_block_index_init(&repo->index, car.buf, car.len);
	index_blocks(&repo->index, &car);
	if (car.root.ptr == NULL)
		car_error(ATP_E_CAR_NO_ROOT, 0);
	block = atp_car_index_find(&repo->index, car.root);
	if (block == NULL)
		car_error(ATP_E_COMMIT_MISSING, car.root.ptr - car.buf);
	err = atp_commit_parse(block->data.ptr, block->data.len, &repo->commit, &at);
	if (err != ATP_OK)
		car_error(err, block->data.ptr - car.buf + at);
	tree = (AtpMstTree) {&repo->index, repo->base, repo->commit.data, atp_sha256, NULL};
	err = atp_mst_begin(&repo->walk, &tree, &at);
	if (err != ATP_OK)
		car_error(err, at);

	initStringInfo(&repo->uri);
	appendStringInfoString(&repo->uri, "at://");
	appendBinaryStringInfo(&repo->uri, repo->commit.did.ptr, (int) repo->commit.did.len);
	appendStringInfoChar(&repo->uri, '/');
	repo->prefix = repo->uri.len;
	return repo;
}

/* The URI of the record at this path; the path is already checked. */
static Datum
record_uri(Repository *repo, AtpSpan path)
{
	repo->uri.len = repo->prefix;
	appendBinaryStringInfo(&repo->uri, path.ptr, (int) path.len);
	return PointerGetDatum(atp_aturi_make(repo->uri.data, repo->uri.len));
}

Datum
atp_pg_car_records(PG_FUNCTION_ARGS)
{
	FuncCallContext *call;
	Repository *repo;
	AtpMstLeaf	leaf;
	AtpSpan		path = {0};
	AtpSpan		collection;
	AtpSpan		rkey;
	const AtpCarBlock *block = NULL;
	size_t		at;
	AtpErr		err;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		atp_require_utf8();
		call = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(call->multi_call_memory_ctx);
		call->tuple_desc = result_desc(fcinfo);
		call->user_fctx = open_repository(PG_GETARG_BYTEA_P_COPY(0));
		MemoryContextSwitchTo(old);
	}
	call = SRF_PERCALL_SETUP();
	repo = call->user_fctx;

	CHECK_FOR_INTERRUPTS();
	err = atp_mst_next(&repo->walk, &leaf, &at);
	if (err == ATP_E_MST_END)
		SRF_RETURN_DONE(call);
	if (err == ATP_OK)
	{
		path = (AtpSpan) {(const char *) leaf.key.ptr, leaf.key.len};
		err = atp_path_split(path, &collection, &rkey);
	}
	if (err == ATP_OK && (block = atp_car_index_find(&repo->index, leaf.value)) == NULL)
		err = ATP_E_RECORD_MISSING;
	if (err != ATP_OK)
		car_error(err, at);
	values[0] = record_uri(repo, path);
	values[1] = PointerGetDatum(atp_cidlink_make(leaf.value.ptr, leaf.value.len));
	values[2] = atp_record_value(block->data, &nulls[2]);
	SRF_RETURN_NEXT(call, HeapTupleGetDatum(heap_form_tuple(call->tuple_desc, values, nulls)));
}
