/*
 * repo_car_sql.c
 *		SQL: atproto.repo_car() and atproto.repo_car_chunks(): a repository of the tables as a CAR file (O-01).
 *
 * The rows are read twice in one snapshot: without values, to build the tree and prove its root; then with values,
 * beside a walk over the finished tree from its root.  The walk enters a node before what the node points to, which is the
 * order of the file.  O-04: each block has the hash that the signed tree names, so the block is the account's.
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/sha256.h"
#include "config/extension.h"
#include "config/owner.h"
#include "core/codec/cid.h"
#include "core/repo/export_walk.h"
#include "data/error.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tables/out/car_out.h"
#include "tables/out/out_repo.h"
#include "tables/out/out_twice.h"
#include "tables/out/tree_layers.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_repo_car);
PG_FUNCTION_INFO_V1(atp_repo_car_chunks);

/* The memory of records is given back after so many bytes of blocks. */
#define RECORDS_BYTES	(256 * 1024)

/* The tables read by an export. */
static const char *const read_tables[] = {"repo", "record", NULL};

typedef struct Export
{
	AtpOutRepo	repo;
	AtpTreeLayers *layers;
	AtpOutTwice *twice;
	AtpCarOut  *out;
	unsigned	top;			/* layer of the root */
	AtpExportWalk walk;
} Export;

/* ------------------------------------------------------------------------
 * The rows, without values
 * ------------------------------------------------------------------------
 */
static void
take_node(void *ctx, const AtpMstSubtree *subtree, const uint8_t *node, size_t n)
{
	Export	   *e = ctx;

	atp_layers_add(e->layers, subtree->layer, node, n);
	/* a record may have the bytes of a node */
	atp_twice_note(e->twice, (AtpBytes) {subtree->cid, sizeof(subtree->cid)});
	/* the root is the last node */
	e->top = subtree->layer;
}

static void
note_record(void *ctx, AtpMstBuilder *tree, AtpBytes path, AtpBytes cid, bool added)
{
	if (!added && path.ptr != NULL)
		atp_twice_note(((Export *) ctx)->twice, cid);
}

/* ------------------------------------------------------------------------
 * The walk, beside the rows with values
 * ------------------------------------------------------------------------
 */

/* The walk asks for each node when it enters the node: the next node of the node's layer. */
static bool
write_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	Export	   *e = ctx;

	CHECK_FOR_INTERRUPTS();
	if (level > e->top || !atp_layers_read(e->layers, e->top - level, node))
		return false;
	if (atp_twice_is_first(e->twice, cid))
		atp_car_out_block(e->out, cid, *node);
	return true;
}

static bool
is_row_of(const AtpAuditRow *row, const AtpExportRecord *record)
{
	return row->path.ptr != NULL && row->path.len == record->path.len && memcmp(row->path.ptr, record->path.ptr, record->path.len) == 0 &&
		row->cid.ptr != NULL && row->cid.len == record->cid.len && memcmp(row->cid.ptr, record->cid.ptr, record->cid.len) == 0;
}

static void
write_records(Export *e)
{
	AtpExportSource source = {
		.read = write_node, .ctx = e, .blocks = atp_layers_count(e->layers), .max_records = PG_UINT64_MAX, .sha256 = atp_sha256
	};
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto records written", ALLOCSET_DEFAULT_SIZES);
	AtpAuditRows *rows = atp_audit_rows_open(e->repo.target, true);
	AtpExportRecord record;
	AtpAuditRow row;
	Size		bytes = 0;
	size_t		at;
	AtpErr		err;

	atp_audit_rows_of(rows, e->repo.did, e->repo.purge_rev);
	err = atp_export_begin(&e->walk, &source, atp_out_bytes(e->repo.data), &at);
	while (err == ATP_OK && (err = atp_export_next(&e->walk, &record, &at)) == ATP_OK)
	{
		MemoryContext old;

		if (!atp_audit_rows_next(rows, &row) || !is_row_of(&row, &record))
			atp_out_changed(&e->repo);
		if (!atp_twice_is_first(e->twice, row.cid))
			continue;
		old = MemoryContextSwitchTo(cxt);
		{
			AtpBytes	block = atp_out_record(&e->repo, row.path, row.cid, &row);

			atp_car_out_block(e->out, row.cid, block);
			bytes += block.len;
		}
		MemoryContextSwitchTo(old);
		if (bytes > RECORDS_BYTES)
		{
			MemoryContextReset(cxt);
			bytes = 0;
		}
	}
	if (err != ATP_E_MST_END)
		ereport(ERROR,
				(errcode(err == ATP_E_MST_NODE_SIZE || err == ATP_E_MST_PATH_SIZE ? ERRCODE_PROGRAM_LIMIT_EXCEEDED : ERRCODE_INTERNAL_ERROR),
				 errmsg("the tree of repository %s in schema \"%s\" cannot be written", e->repo.did_text, e->repo.target),
				 errdetail("%s", atp_err_text(err))));
	if (atp_audit_rows_next(rows, &row))
		atp_out_changed(&e->repo);
	atp_audit_rows_close(rows);
	MemoryContextDelete(cxt);
}

/* With SPI connected, and the rights of the caller. */
static void
write_repository(const char *target, AtpArg did, AtpCarOut *out)
{
	Export	   *e = palloc0(sizeof(Export));
	AtpBytes	cid;

	e->out = out;
	atp_out_repo_read(&e->repo, target, did);
	e->layers = atp_layers_make();
	e->twice = atp_twice_make();
	cid = atp_out_bytes(e->repo.commit);
	atp_twice_note(e->twice, cid);
	atp_out_repo_build(&e->repo, take_node, note_record, e);
	atp_layers_rewind(e->layers);
	atp_twice_ready(e->twice, &e->repo);
	atp_car_out_header(out, cid);
	(void) atp_twice_is_first(e->twice, cid);
	atp_car_out_block(out, cid, atp_out_bytes((struct varlena *) e->repo.block));
	write_records(e);
	atp_twice_free(e->twice);
	atp_layers_free(e->layers);
}

static bytea *
car_of(FunctionCallInfo fcinfo, AtpCarOut *out)
{
	const char *target = NameStr(*PG_GETARG_NAME(1));
	AtpCaller	caller;

	atp_require_utf8();
	SPI_connect();
	caller = atp_visitor_begin(target, read_tables);
	write_repository(target, ATP_FUNCTION_ARG(0, atp_type("did")), out);
	atp_owner_end(caller);
	SPI_finish();
	return atp_car_out_end(out);
}

/* SQL: atproto.repo_car(did, target) */
Datum
atp_repo_car(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(car_of(fcinfo, atp_car_out_value()));
}

/* SQL: atproto.repo_car_chunks(did, target) */
Datum
atp_repo_car_chunks(PG_FUNCTION_ARGS)
{
	(void) car_of(fcinfo, atp_car_out_rows(fcinfo));
	return (Datum) 0;
}
