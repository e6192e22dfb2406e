/*
 * record_proof_sql.c
 *		SQL: atproto.record_proof(): a proof that a repository has a record, or has none (O-05, O-06).
 *
 * The whole tree is built of the rows, since the root must be the one that the commit signs.  The builder keeps only the
 * nodes on the way to the path.
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

/* The tables that a proof reads. */
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
	struct varlena *cid;		/* of the record at the path; NULL: none */
	int			n;
	WayNode		nodes[ATP_MST_LEVELS_MAX];	/* the deepest first */
} Way;

static AtpBytes
bytes_of(const struct varlena *value)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

/* A node on the way is the only one of its layer. */
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

/* Mark the record, or if the tree has none at the path, both neighbours (atp_mst_root_mark()), of which there may be one. */
static void
take_row(void *ctx, AtpMstBuilder *tree, AtpBytes path, AtpBytes cid, bool added)
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
	bool		isnull;

	found = atp_audit_look_all(atp_expand_sql("SELECT value, raw FROM #.record WHERE did OPERATOR(@.=) $1"
											  " AND collection OPERATOR(@.=) $2 AND rkey OPERATOR(@.=) $3", repo->target), args, lengthof(args));
	if (found.n == 0)
		atp_out_changed(repo);
	tuple = atp_result_row(found, 0);
	row.value = atp_get(tuple, "value", JSONBOID, &isnull);
	row.has_value = !isnull;
	row.raw = atp_get(tuple, "raw", BYTEAOID, &isnull);
	row.has_raw = !isnull;
	return atp_out_record(repo, way->path, bytes_of(way->cid), &row);
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
	atp_out_repo_build(&repo, take_node, take_row, way);
	atp_car_out_header(out, bytes_of(repo.commit));
	atp_car_out_block(out, bytes_of(repo.commit), bytes_of((struct varlena *) repo.block));
	while (way->n-- > 0)
		atp_car_out_block(out, (AtpBytes) {way->nodes[way->n].cid, sizeof(way->nodes[way->n].cid)}, way->nodes[way->n].block);
	if (way->cid != NULL)
		atp_car_out_block(out, bytes_of(way->cid), block_of(&repo, way, collection, rkey));
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
