/*
 * partition_links.c
 *		Links that go with the records of a month, for partition_keep.c; where Citus keeps the records,
 *		these, too.
 *
 * Citus keeps a record and its links on different nodes, and knows no place of a row that another node could
 * ask for.  So some rows are read to this server, whichever they are; their links are removed by the whole key,
 * and then the rows.  A consumer must not change one of them in between, and Citus cannot lock rows of
 * several nodes: meanwhile the partition is locked against writing, as each transaction of a consumer
 * locks it on this server.
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

/* Rows in one step. */
#define ROWS	1000

#define REMOVE_LINKS \
	"DELETE FROM #.link l USING unnest($1, $2, $3, $4) u (target, source, rkey, did) WHERE " ATP_SAME_LINK("l", "u")

/* As link_rows.c does it: a link that a node has prepared, and does not know to be committed, cannot be seen.  Its key makes us wait. */
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

/* By the whole key: by what is linked to alone, each link to a popular account would cost all of them. */
void
atp_remove_links(AtpParting *w, AtpTuple found)
{
	AtpArg		targets = array_of(found, "targets", "aturi");

	if (targets.isnull)
		return;
	PG_TRY();
	{
		atp_plan_by_key(DatumGetPointer(targets.value));
		atp_run(atp_expand_sql(REMOVE_LINKS, w->schema),
				ATP_ARGS(targets, atp_get_arg(found, "sources", get_array_type(INT4OID)), array_of(found, "rkeys", "recordkey"), array_of(found, "dids", "did")));
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

/* Some rows and their links.  False: there are no more. */
static bool
remove_some(AtpParting *w, const char *part)
{
	AtpResult	result = atp_query(atp_expand_sql(psprintf(SOME_ROWS, part), w->schema), ATP_NO_ARGS);
	AtpTuple	found = atp_result_row(result, 0);
	AtpArg		owners = array_of(found, "owners", "did");
	bool		some = !owners.isnull;

	if (some)
	{
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
	/* a row that a node does not know to be committed would be dropped without its links */
	atp_settle_prepared();
	while (remove_some(w, part))
		CHECK_FOR_INTERRUPTS();
}
