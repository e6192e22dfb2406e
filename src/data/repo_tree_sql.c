/*
 * repo_tree_sql.c
 *		SQL: the aggregate atproto.repo_root, and atproto.record_fits.
 *
 * With these, a statement can audit a repository (V-45, V-46) on the server that has its rows.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/repo/mst.h"
#include "data/error.h"
#include "data/repo_tree.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(atp_pg_repo_root_add);
PG_FUNCTION_INFO_V1(atp_pg_repo_root_end);
PG_FUNCTION_INFO_V1(atp_pg_record_fits);
PG_FUNCTION_INFO_V1(atp_pg_record_fits_packed);

static AtpBytes
bytes_of(const struct varlena *v)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

/*
 * An error for a path that comes after a greater one: the query lacks ORDER BY.  A repeated path is left to
 * the tree: no repository has one, so the result is NULL.
 */
static void
check_order(const AtpMstBuilder *tree, AtpBytes path)
{
	const AtpMstOpen *node = tree->depth > 0 ? &tree->open[tree->depth - 1] : NULL;

	/* The preceding key is the last key of the lowest node. */
	if (tree->err == ATP_OK && node != NULL && atp_mst_compare((AtpBytes) {node->key, node->key_len}, path) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("paths are not in the order of their bytes"),
				 errhint("Write atproto.repo_root(path, cid ORDER BY path COLLATE \"C\").")));
}

/* The aggregate's state, the first argument, is a builder: NULL before the first row. */
Datum
atp_pg_repo_root_add(PG_FUNCTION_ARGS)
{
	AtpMstBuilder *tree = PG_ARGISNULL(0) ? NULL : (AtpMstBuilder *) PG_GETARG_POINTER(0);
	MemoryContext group;

	if (!AggCheckCallContext(fcinfo, &group))
		elog(ERROR, "aggregate function called in non-aggregate context");
	if (tree == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(group);

		tree = atp_tree_make();
		MemoryContextSwitchTo(old);
	}
	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		atp_mst_root_unknown(tree);
	else
	{
		AtpBytes	path = bytes_of((struct varlena *) PG_GETARG_TEXT_PP(1));

		check_order(tree, path);
		(void) atp_tree_add(tree, path, bytes_of(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(2))));
	}
	PG_RETURN_POINTER(tree);
}

Datum
atp_pg_repo_root_end(PG_FUNCTION_ARGS)
{
	struct varlena *root = atp_tree_root(PG_ARGISNULL(0) ? atp_tree_make() : (AtpMstBuilder *) PG_GETARG_POINTER(0));

	if (root == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(root);
}

/* NULL for a record without a CID. */
static Datum
fits_cid(FunctionCallInfo fcinfo, bool packed)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	atp_require_utf8();
	PG_RETURN_BOOL(atp_record_fits(bytes_of(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0))), PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1), packed,
								   PG_ARGISNULL(2) ? NULL : PG_GETARG_BYTEA_PP(2)));
}

Datum
atp_pg_record_fits(PG_FUNCTION_ARGS)
{
	return fits_cid(fcinfo, false);
}

Datum
atp_pg_record_fits_packed(PG_FUNCTION_ARGS)
{
	return fits_cid(fcinfo, true);
}
