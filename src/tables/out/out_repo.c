/*
 * out_repo.c
 *		A repository in the tables, as it is written out again: see out_repo.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "core/codec/cid.h"
#include "core/repo/export_walk.h"
#include "data/commit_keep.h"
#include "data/record_path.h"
#include "data/record_value.h"
#include "data/repo_tree.h"
#include "common/sha256.h"
#include "miscadmin.h"
#include "tables/audit/audit.h"
#include "tables/base/sink.h"
#include "tables/base/table.h"
#include "tables/out/out_repo.h"
#include "types/types.h"
#include "utils/builtins.h"

/* Records after which interrupts are served. */
#define MANY	1000

static bool
is_cid_of(AtpBytes block, AtpBytes cid)
{
	uint8_t		made[ATP_CID_BLESSED_LEN];

	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block.ptr, block.len, atp_sha256, NULL, made);
	return cid.len == sizeof(made) && memcmp(cid.ptr, made, sizeof(made)) == 0;
}

pg_noreturn static void
refuse(const AtpOutRepo *repo, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("repository %s in schema \"%s\" cannot be given out", repo->did_text, repo->target),
			 errdetail_internal("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* O-02, O-03: raise an ERROR if the repository's row forbids an export. */
static void
check_row(const AtpOutRepo *repo, AtpTuple row)
{
	const char *status = atp_get_text_or_null(row, "status");
	const char *hold = atp_get_text_or_null(row, "hold");

	if (atp_get_bool(row, "hidden"))
		refuse(repo, "The account is hidden.", "See atproto.unhide().");
	if (atp_get_bool(row, "deleted") || (!atp_get_bool(row, "active") && status != NULL && strcmp(status, "deleted") == 0))
		refuse(repo, "The account was deleted.", NULL);
	if (repo->commit == NULL || repo->data == NULL)
		refuse(repo, "No signed commit of the repository is known. Messages of a Jetstream, and rows of an archive, have no signatures.",
			   "A fetch of the repository brings its commit: see atproto.resync().");
	if (hold != NULL)
		refuse(repo, psprintf("Events of the repository wait to be judged (repo.hold is \"%s\").", hold),
			   "atproto.held_event has the events, with the reason why each waits.");
	if (!atp_get_bool(row, "is_signed"))
		refuse(repo, "The signature of the last commit is not stored: the row was written before the table repo had the column \"sig\".",
			   "The next commit, or a fetch of the repository, brings a signature: see atproto.resync().");
}

void
atp_out_repo_read(AtpOutRepo *repo, const char *target, AtpArg did)
{
	AtpResult	found;
	AtpTuple	row;
	bytea	   *sig;
	Datum		kept;
	uint64		rev;
	bool		isnull;

	memset(repo, 0, sizeof(AtpOutRepo));
	repo->target = target;
	repo->did = did;
	repo->did_text = atp_did_span(PG_DETOAST_DATUM_PACKED(did.value)).ptr;
	found = atp_audit_look(atp_expand_sql("SELECT rev, commit, data, sig, commit_block, sig IS NOT NULL AS is_signed, purge_rev, sync, hold, status,"
										  " hidden_at IS NOT NULL AS hidden, COALESCE(active, true) AS active, COALESCE(deleted_rev OPERATOR(@.=) rev, false) AS deleted"
										  " FROM #.repo WHERE did OPERATOR(@.=) $1", target), did);
	if (found.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("schema \"%s\" has no repository %s", target, repo->did_text),
				 errhint("SELECT did FROM %s.repo shows the repositories. A fetch brings another: see atproto.backfill_repo().",
						 quote_identifier(target))));
	row = atp_result_row(found, 0);
	repo->commit = atp_audit_copy(row, "commit", "cidlink");
	repo->data = atp_audit_copy(row, "data", "cidlink");
	repo->purge_rev = atp_get_arg(row, "purge_rev", atp_type("tid"));
	repo->sync = atp_get_text_or_null(row, "sync");
	check_row(repo, row);
	rev = DatumGetAtpTid(atp_get(row, "rev", atp_type("tid"), &isnull));
	sig = atp_get_copy(row, "sig", BYTEAOID);
	kept = atp_get(row, "commit_block", BYTEAOID, &isnull);
	repo->block = atp_commit_make(PG_DETOAST_DATUM_PACKED(did.value), rev, repo->data, sig, isnull ? NULL : DatumGetByteaPP(kept));
	if (repo->block == NULL)
		refuse(repo, psprintf("The last commit has more than %d bytes, which the tables do not keep.", ATP_COMMIT_KEPT_MAX), NULL);
	if (!is_cid_of(atp_out_bytes(repo->block), atp_out_bytes(repo->commit)))
		refuse(repo, "The columns rev, data and sig of table repo do not make the commit whose CID is in the column commit.",
			   "A fetch of the repository repairs the row: see atproto.resync().");
	atp_result_free(found);
}

typedef struct Building
{
	AtpMstBuilder *tree;
	AtpOutRowFn take_row;
	void	   *ctx;
} Building;

/* Add a row.  False: no repository has such a row, or a node is too large. */
static bool
add_row(const AtpOutRepo *repo, const Building *b, const AtpAuditRow *row)
{
	/* a user may have dropped the constraints */
	if (row->path.ptr == NULL || row->cid.ptr == NULL)
		return false;
	if (b->take_row != NULL)
		b->take_row(b->ctx, b->tree, row->path, row->cid, false);
	if (!atp_tree_add(b->tree, row->path, row->cid))
		return false;
	/* V-51: no export with such a tree would be read */
	if (b->tree->len > ATP_EXPORT_PATH_MAX)
		refuse(repo, psprintf("A node of the tree has more than %d bytes.", ATP_EXPORT_PATH_MAX), NULL);
	if (b->take_row != NULL)
		b->take_row(b->ctx, b->tree, row->path, row->cid, true);
	return true;
}

void
atp_out_repo_build(const AtpOutRepo *repo, AtpMstNodeFn take_node, AtpOutRowFn take_row, void *ctx)
{
	Building	b = {atp_tree_make(), take_row, ctx};
	AtpAuditRows *rows = atp_audit_rows_open(repo->target, false);
	AtpAuditRow row;
	struct varlena *root;
	uint64		n = 0;

	b.tree->take_node = take_node;
	b.tree->node_ctx = ctx;
	atp_audit_rows_of(rows, repo->did, repo->purge_rev);
	while (atp_audit_rows_next(rows, &row))
	{
		if (++n % MANY == 0)
			CHECK_FOR_INTERRUPTS();
		if (!add_row(repo, &b, &row))
			atp_out_differs(repo);
	}
	if (take_row != NULL)
		take_row(ctx, b.tree, (AtpBytes) {NULL, 0}, (AtpBytes) {NULL, 0}, false);
	root = atp_tree_root(b.tree);
	if (root == NULL || !atp_same_bytes(root, repo->data))
		atp_out_differs(repo);
	atp_audit_rows_close(rows);
	atp_tree_free(b.tree);
}

AtpBytes
atp_out_record(const AtpOutRepo *repo, AtpBytes path, AtpBytes cid, const AtpAuditRow *row)
{
	AtpBytes	block;

	if (row->has_raw)
	{
		block = atp_out_bytes((struct varlena *) DatumGetByteaPP(row->raw));
		if (is_cid_of(block, cid))
			return block;
	}
	if (row->has_value && atp_record_dagcbor(row->value, row->packed, &block) && is_cid_of(block, cid))
		return block;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("record %.*s of repository %s in schema \"%s\" does not fit its CID",
					(int) path.len, (const char *) path.ptr, repo->did_text, repo->target),
			 errdetail("Neither \"raw\" nor the DAG-CBOR of \"value\" has the hash that is in \"cid\".")));
}
