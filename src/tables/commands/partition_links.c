/*
 * partition_links.c
 *		Removes links together with the records of a month, for partition_keep.c; if Citus keeps
 *		the records, removes the records, too.
 *
 * With Citus, a record and its links are on different nodes, and a ctid means nothing on a
 * different node.  So some rows are read to this server; their links are deleted by the whole key,
 * then the rows.  A consumer must not change the rows in between, and Citus cannot lock rows across
 * nodes: so the partition is locked here against writes.  Each consumer's transaction locks the
 * partition on this server, too.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "config/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tables/base/distributed.h"
#include "tables/base/key_plan.h"
#include "tables/commands/partition_private.h"
#include "utils/lsyscache.h"

/* Rows in a step. */
#define ROWS	1000

#define REMOVE_LINKS \
	"DELETE FROM #.link l USING unnest($1, $2, $3, $4) u (target, source, rkey, did) WHERE " ATP_SAME_LINK("l", "u")

/* The order of locks is that of link_count.h. */
#define REMOVE_COUNTED_LINKS \
	"WITH gone AS (" REMOVE_LINKS " RETURNING l.target, l.source)" \
	" INSERT INTO #.link_count AS c (target, source, n) SELECT target, source, -count(*) FROM gone" \
	" WHERE source IN (SELECT id FROM #.link_source WHERE counted) GROUP BY target, source ORDER BY target USING OPERATOR(@.<), source" \
	" ON CONFLICT (target, source) DO UPDATE SET n = c.n + excluded.n"
#define REMOVE_ZEROS \
	"DELETE FROM #.link_count c USING unnest($1, $2) u (target, source)" \
	" WHERE c.target OPERATOR(@.=) u.target AND c.source = u.source AND c.n = 0"

/*
 * As in link_rows.c: a link that a node has prepared, but not committed, is invisible.  Inserting
 * its key waits for the prepared transaction.
 */
#define AWAIT_LINKS \
	"INSERT INTO #.link (target, source, rkey, did, authority) SELECT u.*, @.aturi_repo(u.target)" \
	" FROM unnest($1, $2, $3, $4) u (target, source, rkey, did) ON CONFLICT (target, source, rkey, did, authority) DO NOTHING"

#define SOME_ROWS \
	"WITH g AS MATERIALIZED (SELECT r.did, r.collection, r.rkey, r.value, r.raw FROM #.%s r LIMIT " CppAsString2(ROWS) ")," \
	" k AS (SELECT array_agg(did) AS owners, array_agg(collection) AS collections, array_agg(rkey) AS keys FROM g)" \
	" SELECT k.*, l.* FROM k, (" ATP_LINKS_OF("g") ") l"
#define REMOVE_ROWS \
	"DELETE FROM #.%s r USING unnest($1, $2, $3) u (did, collection, rkey)" \
	" WHERE r.did OPERATOR(@.=) u.did AND r.collection OPERATOR(@.=) u.collection AND r.rkey OPERATOR(@.=) u.rkey"

static AtpArg
array_of(AtpTuple found, const char *column, const char *type)
{
	return atp_get_arg(found, column, get_array_type(atp_type(type)));
}

/*
 * Delete by the whole key: a plan by target alone would read all links to a popular account for
 * each link.
 */
void
atp_remove_links(AtpParting *w, AtpTuple found)
{
	AtpArg		targets = array_of(found, "targets", "aturi");
	AtpArg		sources = atp_get_arg(found, "sources", get_array_type(INT4OID));
	bool		counted;

	if (targets.isnull)
		return;
	counted = atp_parting_ask(atp_expand_sql("SELECT 'yes' AS v FROM #.link_source WHERE counted LIMIT 1", w->schema)) != NULL;
	PG_TRY();
	{
		atp_plan_by_key(DatumGetPointer(targets.value));
		atp_run(atp_expand_sql(counted ? REMOVE_COUNTED_LINKS : REMOVE_LINKS, w->schema),
				ATP_ARGS(targets, sources, array_of(found, "rkeys", "recordkey"), array_of(found, "dids", "did")));
		if (counted)
		{
			/* again: a trigger of the statement before may have called atproto.retry(), which ends such planning, too */
			atp_plan_by_key(DatumGetPointer(targets.value));
			atp_run(atp_expand_sql(REMOVE_ZEROS, w->schema), ATP_ARGS(targets, sources));
		}
	}
	PG_FINALLY();
	{
		atp_plan_by_key(NULL);
	}
	PG_END_TRY();
}

static void
await_links(AtpParting *w, AtpTuple found)
{
	if (array_of(found, "targets", "aturi").isnull || !atp_is_distributed(atp_parting_relid(w, "link")))
		return;
	atp_run(atp_expand_sql(AWAIT_LINKS, w->schema),
			ATP_ARGS(array_of(found, "targets", "aturi"), atp_get_arg(found, "sources", get_array_type(INT4OID)),
					 array_of(found, "rkeys", "recordkey"), array_of(found, "dids", "did")));
}

/* Remove some rows and their links.  False: no rows are left. */
static bool
remove_some(AtpParting *w, const char *part)
{
	AtpResult	result = atp_query(atp_expand_sql(psprintf(SOME_ROWS, part), w->schema), ATP_NO_ARGS);
	AtpTuple	found = atp_result_row(result, 0);
	AtpArg		owners = array_of(found, "owners", "did");
	bool		some = !owners.isnull;

	if (some)
	{
		atp_parting_withdraw_apart(w, owners);
		await_links(w, found);
		atp_remove_links(w, found);
		atp_run(atp_expand_sql(psprintf(REMOVE_ROWS, part), w->schema),
				ATP_ARGS(owners, array_of(found, "collections", "nsid"), array_of(found, "keys", "recordkey")));
	}
	atp_result_free(result);
	return some;
}

void
atp_remove_rows_apart(AtpParting *w, const char *part)
{
	bool		some;

	do
	{
		CHECK_FOR_INTERRUPTS();
		atp_parting_begin(w);
		LockRelationOid(atp_parting_relid(w, "link"), RowExclusiveLock);
		LockRelationOid(atp_parting_relid(w, part), ShareRowExclusiveLock);
		some = remove_some(w, part);
		atp_parting_end(w);
	} while (some);
}

void
atp_remove_rest_apart(AtpParting *w, const char *part)
{
	/*
	 * a row in a prepared transaction is invisible, and would be dropped without removing its links
	 */
	atp_recover_prepared();
	while (remove_some(w, part))
		CHECK_FOR_INTERRUPTS();
}
