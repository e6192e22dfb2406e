/*
 * audit_there.c
 *		Audits of tables that Citus keeps: the node with the rows builds the tree.
 *
 * All rows of a DID are on a single node, so Citus sends the whole statement to this node.  Only
 * the root and the repository's row travel.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/target.h"
#include "tables/audit/audit_rows.h"
#include "tables/audit/audit_there.h"
#include "tables/base/distributed.h"
#include "tables/base/table.h"

/*
 * Does Citus keep the rows of a DID on a single node?  Not if a user has distributed the tables
 * separately.
 */
static bool
is_colocated(Oid record, Oid repo)
{
	AtpResult	found = atp_audit_look(psprintf("SELECT FROM pg_catalog.pg_dist_partition a JOIN pg_catalog.pg_dist_partition b"
												" USING (colocationid) WHERE a.logicalrelid = $1 AND b.logicalrelid = %u", repo),
									   (AtpArg) {ObjectIdGetDatum(record), OIDOID, false});
	bool		result = found.n > 0;

	atp_result_free(found);
	return result;
}

bool
atp_audit_is_there(const char *target)
{
	Oid			record = atp_target_relid(target, "record");
	Oid			repo = atp_target_relid(target, "repo");

	return atp_is_distributed(record) && atp_is_distributed(repo) && is_colocated(record, repo);
}

bool
atp_audit_ask(const char *target, bool deep, AtpArg did, AtpAudit *audit, AtpAuditFound *found)
{
	const char *unfit = deep ? "NOT COALESCE(atproto.record_fits(r.cid, r.value, r.raw), false)" : "r.cid IS NULL";
	AtpResult	result = atp_audit_look(atp_expand_sql(psprintf(
																"SELECT " ATP_AUDIT_COLUMNS ", a.root, a.records, a.unfit FROM #.repo p,"
																" LATERAL (SELECT atproto.repo_root(r.path, r.cid ORDER BY r.path COLLATE pg_catalog.\"C\") AS root,"
																"  count(*) AS records, count(*) FILTER (WHERE %s) AS unfit"
																"  FROM (SELECT " ATP_AUDIT_PATH ", * FROM #.record) r"
																"  WHERE r.did OPERATOR(@.=) $1 AND (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev)) a"
																" WHERE p.did OPERATOR(@.=) $1", unfit), target), did);
	AtpTuple	row;

	if (result.n == 0)
		return false;
	row = atp_result_row(result, 0);
	atp_audit_read(audit, row);
	found->root = atp_audit_copy(row, "root", "cidlink");
	found->records = atp_get_int8(row, "records");
	found->fit = found->root != NULL && atp_get_int8(row, "unfit") == 0;
	atp_result_free(result);
	return true;
}
