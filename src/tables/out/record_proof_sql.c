/*
 * record_proof_sql.c
 *		SQL: atproto.record_proof(): a proof that a record is in a repository, or is absent (O-05, O-06).
 *
 * The whole tree is built of the rows, since the commit signs the root.  The builder keeps only the nodes on the way to
 * the path.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/owner.h"
#include "core/codec/cid.h"
#include "core/repo/mst.h"
#include "data/error.h"
#include "data/record_path.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "tables/audit/audit.h"
#include "tables/base/table.h"
#include "tables/out/car_out.h"
#include "tables/out/out_repo.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_record_proof);

/* The tables read for a proof. */
static const char *const read_tables[] = {"repo", "record", NULL};

typedef struct WayNode
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpBytes	block;
} WayNode;

typedef struct Way
{
	AtpBytes	path;
	bool		passed;			/* the rows are beyond the path */
	struct varlena *cid;		/* of the record at the path; NULL: no record */
	int			n;
	WayNode		nodes[ATP_MST_LEVELS_MAX];	/* the deepest first */
} Way;

/* Of each layer, at most one node is on the way. */
static void
take_node(void *ctx, const AtpMstSubtree *subtree, const uint8_t *node, size_t n)
{
	Way		   *way = ctx;
	WayNode    *kept;

	if (!subtree->on_way)
		return;
	if (way->n == lengthof(way->nodes))
		elog(ERROR, "the way has more nodes than a tree has layers");
	kept = &way->nodes[way->n++];
	memcpy(kept->cid, subtree->cid, sizeof(kept->cid));
	kept->block = (AtpBytes) {memcpy(palloc(n), node, n), n};
}

/* Mark the record at the path, or both neighbours of the path (atp_mst_root_mark()). */
static void
mark_record(void *ctx, AtpMstBuilder *tree, AtpBytes path, AtpBytes cid, bool added)
{
	Way		   *way = ctx;
	int			cmp;

	if (way->passed)
		return;
	cmp = path.ptr == NULL ? 1 : atp_mst_compare(path, way->path);
	if (cmp < 0)
		return;
	if (!added)
	{
		if (cmp > 0)
			atp_mst_root_mark(tree);
		return;
	}
	atp_mst_root_mark(tree);
	way->passed = true;
	if (cmp == 0)
		way->cid = atp_cidlink_make(cid.ptr, cid.len);
}

/* The row at the path, read in the snapshot of the tree. */
static AtpBytes
block_of(const AtpOutRepo *repo, const Way *way, AtpArg collection, AtpArg rkey)
{
	AtpArg		args[] = {repo->did, collection, rkey};
	AtpAuditRow row = {.path = way->path};
	AtpResult	found;
	AtpTuple	tuple;

	found = atp_audit_look_all(atp_expand_sql("SELECT value, raw FROM #.record WHERE did OPERATOR(@.=) $1"
											  " AND collection OPERATOR(@.=) $2 AND rkey OPERATOR(@.=) $3", repo->target), args, lengthof(args));
	if (found.n == 0)
		atp_out_changed(repo);
	tuple = atp_result_row(found, 0);
	atp_audit_row_values(&row, tuple);
	return atp_out_record(repo, way->path, atp_out_bytes(way->cid), &row);
}

static void
write_proof(const char *target, AtpArg did, AtpArg collection, AtpArg rkey, AtpCarOut *out)
{
	Way		   *way = palloc0(sizeof(Way));
	AtpOutRepo	repo;
	AtpSpan		path;

	path = atp_record_path(PG_DETOAST_DATUM_PACKED(collection.value), PG_DETOAST_DATUM_PACKED(rkey.value));
	way->path = (AtpBytes) {(const uint8_t *) path.ptr, path.len};
	atp_out_repo_read(&repo, target, did);
	atp_out_repo_build(&repo, take_node, mark_record, way);
	atp_car_out_header(out, atp_out_bytes(repo.commit));
	atp_car_out_block(out, atp_out_bytes(repo.commit), atp_out_bytes((struct varlena *) repo.block));
	while (way->n-- > 0)
		atp_car_out_block(out, (AtpBytes) {way->nodes[way->n].cid, sizeof(way->nodes[way->n].cid)}, way->nodes[way->n].block);
	if (way->cid != NULL)
		atp_car_out_block(out, atp_out_bytes(way->cid), block_of(&repo, way, collection, rkey));
}

/* SQL: atproto.record_proof(did, collection, rkey, target) */
Datum
atp_record_proof(PG_FUNCTION_ARGS)
{
	const char *target = NameStr(*PG_GETARG_NAME(3));
	AtpCarOut  *out = atp_car_out_value();
	AtpCaller	caller;

	atp_require_utf8();
	SPI_connect();
	caller = atp_visitor_begin(target, read_tables);
	write_proof(target, ATP_FUNCTION_ARG(0, atp_type("did")), ATP_FUNCTION_ARG(1, atp_type("nsid")), ATP_FUNCTION_ARG(2, atp_type("recordkey")), out);
	atp_owner_end(caller);
	SPI_finish();
	PG_RETURN_BYTEA_P(atp_car_out_end(out));
}
