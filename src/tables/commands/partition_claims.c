/*
 * partition_claims.c
 *		What becomes of the claims of repositories whose records go with a month (P-40).
 *
 * A repository that loses records is no longer synchronized, and no collection of the repository is proven: otherwise
 * an audit would call the missing records an error, and the fetcher would fetch the repository, with the old records.
 * The repository becomes partial: the records in the tables are true, and older records may be missing.  A fetch that is
 * going on may have seen the records before, and would make the repository synchronized at its end: so the repository is
 * desynchronized, as when a fetch loses an event.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "storage/lmgr.h"
#include "stream/rev_cache.h"
#include "tables/base/distributed.h"
#include "tables/commands/partition_private.h"
#include "utils/lsyscache.h"

#define CLAIMS \
	"(proved IS NOT NULL OR sync IN ('synchronized', 'resyncing') OR refill_sync = 'synchronized')"
/* Citus writes CASE sync WHEN ... wrongly for its nodes. */
#define WITHDRAWN \
	"proved = NULL, proved_rev = NULL, updated_at = now()," \
	" sync = CASE WHEN sync = 'synchronized' THEN 'partial' WHEN sync = 'resyncing' THEN 'desynchronized' ELSE sync END," \
	" refill_sync = CASE WHEN refill_sync = 'synchronized' THEN 'partial' ELSE refill_sync END"

/* Rows are locked in the order of the DIDs, as consumers lock them; Citus cannot lock rows of several nodes so. */
#define IN_ORDER	" ORDER BY p.did FOR NO KEY UPDATE OF p"

/* Two statements: PostgreSQL would not execute the WITH of an UPDATE while no repository claims anything, and so lock no row. */
#define LOCK_SOME	"SELECT FROM #.repo p WHERE p.did OPERATOR(@.=) ANY (ARRAY(%s))" IN_ORDER
#define SOME	"UPDATE #.repo SET " WITHDRAWN " WHERE did OPERATOR(@.=) ANY (ARRAY(%s)) AND " CLAIMS

/* Only the repositories that claim something are looked up in the month, which may have hundreds of millions of records. */
#define OF_MONTH \
	"WITH l AS MATERIALIZED (SELECT p.did AS locked FROM #.repo p" \
	"  WHERE " CLAIMS " AND EXISTS (SELECT FROM ONLY #.%s r WHERE r.did OPERATOR(@.=) p.did)" IN_ORDER ")" \
	" UPDATE #.repo SET " WITHDRAWN " FROM l WHERE did OPERATOR(@.=) l.locked AND " CLAIMS
#define OF_MONTH_APART \
	"UPDATE #.repo SET " WITHDRAWN " FROM (SELECT DISTINCT r.did AS holder FROM #.%s r) l WHERE did OPERATOR(@.=) l.holder AND " CLAIMS

/* Without a look at the claims: so the statement waits for whoever has locked a row, and is about to claim something. */
#define GIVEN_APART \
	"UPDATE #.repo SET " WITHDRAWN " WHERE did OPERATOR(@.=) ANY ($1)"

/* create_tables() adds the column to a table of an earlier version; until then no repository of the table has a claim. */
static bool
has_claims(AtpParting *w)
{
	Oid			relid = atp_parting_relid(w, "repo");

	return w->cut->table == atp_cut_record_month.table && OidIsValid(relid) && get_attnum(relid, "proved") != InvalidAttrNumber;
}

static void
run_withdrawal(AtpParting *w, const char *sql, const AtpArg *args, int nargs)
{
	atp_run(atp_expand_sql(sql, w->schema), args, nargs);
	atp_rev_cache_forget_at_commit();
}

void
atp_parting_withdraw_some(AtpParting *w, const char *dids)
{
	if (!has_claims(w))
		return;
	(void) atp_run(atp_expand_sql(psprintf(LOCK_SOME, dids), w->schema), ATP_NO_ARGS);
	run_withdrawal(w, psprintf(SOME, dids), ATP_NO_ARGS);
}

void
atp_parting_withdraw_apart(AtpParting *w, AtpArg dids)
{
	if (has_claims(w))
		run_withdrawal(w, GIVEN_APART, &dids, 1);
}

void
atp_parting_withdraw_month(AtpParting *w, const char *part)
{
	if (has_claims(w))
		run_withdrawal(w, psprintf(atp_is_distributed(atp_parting_relid(w, "repo")) ? OF_MONTH_APART : OF_MONTH, part), ATP_NO_ARGS);
}

void
atp_parting_withdraw_last(AtpParting *w, const char *part)
{
	if (!has_claims(w))
		return;
	LockRelationOid(atp_parting_relid(w, "repo"), ShareRowExclusiveLock);
	atp_parting_withdraw_month(w, part);
}

const char *
atp_parting_unclaimed(AtpParting *w)
{
	/*
	 * A value for each row, looked up by the key: as a join, each step might read the whole table repo.  An aggregate, since
	 * a table that inherits from repo may have the DID once more.
	 */
	return has_claims(w) ? "(SELECT bool_or(" CLAIMS ") FROM #.repo p WHERE p.did OPERATOR(@.=) r.did) IS NOT TRUE" : "true";
}
