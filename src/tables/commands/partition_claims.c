/*
 * partition_claims.c
 *		What becomes of the claims of repositories whose records go with a month (P-40).
 *
 * A repository that loses records is no longer synchronized, and no collection of the repository is proven: otherwise
 * an audit would call the missing records an error, and the fetcher would fetch the repository, with the old records.
 * The repository becomes partial: the records in the tables are true, and older records may be missing.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "stream/rev_cache.h"
#include "tables/base/distributed.h"
#include "tables/commands/partition_private.h"
#include "utils/lsyscache.h"

#define CLAIMS \
	"(proved IS NOT NULL OR sync = 'synchronized' OR refill_sync = 'synchronized')"
#define WITHDRAWN \
	"proved = NULL, proved_rev = NULL, updated_at = now()," \
	" sync = CASE WHEN sync = 'synchronized' THEN 'partial' ELSE sync END," \
	" refill_sync = CASE WHEN refill_sync = 'synchronized' THEN 'partial' ELSE refill_sync END"

/* Rows are locked in the order of the DIDs, as consumers lock them; Citus cannot lock rows of several nodes so. */
#define IN_ORDER \
	"WITH l AS MATERIALIZED (SELECT did AS locked FROM #.repo WHERE did OPERATOR(@.=) ANY (ARRAY(%s)) ORDER BY did FOR NO KEY UPDATE)" \
	" UPDATE #.repo SET " WITHDRAWN " FROM l WHERE did OPERATOR(@.=) l.locked AND " CLAIMS
#define APART \
	"UPDATE #.repo SET " WITHDRAWN " WHERE did IN (%s) AND " CLAIMS

/* create_tables() adds the column to a table of an earlier version; until then no repository of the table has a claim. */
static bool
has_claims(AtpParting *w)
{
	Oid			relid = atp_parting_relid(w, "repo");

	return w->cut->table == atp_cut_record_month.table && OidIsValid(relid) && get_attnum(relid, "proved") != InvalidAttrNumber;
}

void
atp_parting_withdraw(AtpParting *w, const char *dids)
{
	if (!has_claims(w))
		return;
	atp_run(atp_expand_sql(psprintf(atp_is_distributed(atp_parting_relid(w, "repo")) ? APART : IN_ORDER, dids), w->schema), ATP_NO_ARGS);
	atp_rev_cache_forget_at_commit();
}

const char *
atp_parting_unclaimed(AtpParting *w)
{
	return has_claims(w) ? "NOT EXISTS (SELECT FROM #.repo p WHERE p.did OPERATOR(@.=) r.did AND " CLAIMS ")" : "true";
}
