/*
 * distribute.c
 *		SQL: atproto.distribute(): makes a target's tables distributed tables of Citus.
 *
 * All rows of a commit must be on a single node, so that a commit is atomic: all tables with
 * repositories' DIDs are distributed by DID, and colocated.  Links are queried by their target, and
 * so are distributed by the target's authority; link_rows.c ensures that no deleted link comes back
 * after a crash of a node.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "fmgr.h"
#include "tables/base/distributed.h"
#include "tables/base/node_mark.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_distribute);

/*
 * Shards for each node.  Each shard adds a statement to every batch, and is the unit of
 * rebalancing.
 */
#define SHARDS	4

static AtpArg
relation_arg(Oid relid)
{
	return (AtpArg) {ObjectIdGetDatum(relid), REGCLASSOID, false};
}

static int
default_shards(void)
{
	AtpResult	found = atp_query("SELECT count(*)::int4 AS n FROM pg_dist_node"
								  " WHERE isactive AND shouldhaveshards AND noderole = 'primary'", ATP_NO_ARGS);
	int			nodes = atp_get_int4(atp_result_row(found, 0), "n");

	atp_result_free(found);
	if (nodes == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("Citus has no node that may have shards"),
				 errhint("Add some: SELECT citus_add_node('host', 5432).")));
	return nodes * SHARDS;
}

/* Before any of the tables is read: a schema that lacks a table gets a message that says so, whatever else could be refused. */
static void
check_tables(const char *target)
{
	(void) atp_table_in(target, atp_repo_table.name);
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		if ((*table)->shard_by != NULL)
			(void) atp_table_in(target, (*table)->name);
}

/* Subscriptions with events = 'hand' cannot work: distributed tables have no triggers. */
static void
refuse_hand(const char *target)
{
	List	   *names = atp_subscriptions_filling(target, "events = 'hand'", "name");

	if (names != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" hands events to triggers", (const char *) linitial(names)),
				 errdetail("Distributed tables have no triggers."),
				 errhint("Set its \"events\" to \"keep\" or \"none\".")));
}

/* Counts of links are kept in the transaction of the links, which Citus would divide among nodes (link_counted.c). */
static void
refuse_counts(const char *target)
{
	AtpResult	found = atp_query(atp_expand_sql("SELECT FROM #.link_source WHERE counted LIMIT 1", target), ATP_NO_ARGS);

	if (found.n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links of schema \"%s\" are counted", target),
				 errdetail("Citus would keep links and counts on different nodes."),
				 errhint("End the counts first: SELECT atproto.count_links('{}', %s).", quote_literal_cstr(target))));
	atp_result_free(found);
}

/*
 * With several copies of a shard, RETURNING might return a row for each copy (distributed.c);
 * checked before any row is moved.
 */
static void
refuse_copies(void)
{
	const char *copies = GetConfigOption("citus.shard_replication_factor", true, false);

	if (copies != NULL && strcmp(copies, "1") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("citus.shard_replication_factor is %s: there would be several copies of each shard", copies),
				 errdetail("Rows that a statement returns might come twice."),
				 errhint("Set it to 1; a standby of a node is a copy of all that it has.")));
}

/*
 * The distribution column; "" for a reference table; NULL: not distributed.  Local tables that
 * Citus only knows (citus_add_local_table_to_metadata(), or a foreign key) are not distributed.
 */
static char *
shard_column(Oid relid)
{
	char	   *column;
	AtpResult	found;

	if (!atp_is_distributed(relid))
		return NULL;
	found = atp_query("SELECT CASE WHEN partmethod = 'h' THEN column_to_column_name(logicalrelid, partkey)"
					  " WHEN repmodel = 't' THEN '' ELSE '*' END AS name"
					  " FROM pg_dist_partition WHERE logicalrelid = $1 AND NOT (partmethod = 'n' AND repmodel <> 't' AND colocationid = 0)",
					  ATP_ARGS(relation_arg(relid)));
	column = found.n > 0 ? atp_get_text(atp_result_row(found, 0), "name") : NULL;
	atp_result_free(found);
	return column;
}

static void
check_column(const AtpTable *table, Oid relid, const char *target, const char *column)
{
	if (strcmp(column, table->shard_by) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s.%s\" is distributed, and not by column \"%s\"", target, table->name,
						*table->shard_by == '\0' ? "(a reference table)" : table->shard_by),
				 errhint("SELECT undistribute_table(%s) first.",
						 quote_literal_cstr(quote_qualified_identifier(target, table->name)))));
}

static void
run_statement(const char *sql, const AtpArg *args, int nargs)
{
	atp_result_free(atp_query(sql, args, nargs));
}

/* Add the distribution column, for tables that have it only with Citus. */
static void
add_shard_column(const AtpTable *table, Oid relid, const char *target)
{
	if (table->shard_setup != NULL && !atp_has_shard_column(table, relid))
		atp_run_each(atp_expand_sql(table->shard_setup, target));
}

/* beside: the table to be colocated with; NULL: none. */
static void
distribute_table(const AtpTable *table, Oid relid, const char *target, const char *beside, int shards)
{
	char	   *column = shard_column(relid);

	if (column != NULL)
	{
		check_column(table, relid, target, column);
		ereport(NOTICE, (errmsg("table \"%s.%s\" is distributed already", target, table->name)));
		return;
	}
	add_shard_column(table, relid, target);
	if (*table->shard_by == '\0')
		run_statement("SELECT create_reference_table($1)", ATP_ARGS(relation_arg(relid)));
	else if (beside != NULL)
		run_statement("SELECT create_distributed_table($1, $2, colocate_with => $3)",
					  ATP_ARGS(relation_arg(relid), atp_text_arg(table->shard_by), atp_text_arg(beside)));
	else
		run_statement("SELECT create_distributed_table($1, $2, colocate_with => 'none', shard_count => $3)",
					  ATP_ARGS(relation_arg(relid), atp_text_arg(table->shard_by), atp_int4_arg(shards)));
	/*
	 * the rows are on the nodes now; the local copies would appear if Citus were not loaded.  The
	 * OID is looked up again: Citus replaces a local table that it knew.
	 */
	run_statement("SELECT truncate_local_data_after_distributing_table($1)", ATP_ARGS(relation_arg(atp_table_in(target, table->name))));
	if (*table->shard_by == '\0')
		ereport(NOTICE, (errmsg("table \"%s.%s\": a copy on each node", target, table->name)));
	else if (beside != NULL)
		ereport(NOTICE, (errmsg("table \"%s.%s\": by \"%s\", beside %s", target, table->name, table->shard_by, beside)));
	else
		ereport(NOTICE, (errmsg("table \"%s.%s\": %d shards by \"%s\"", target, table->name, shards, table->shard_by)));
}

static void
distribute_all(const char *target, int shards)
{
	const AtpTable *first = &atp_repo_table;
	char	   *beside = quote_qualified_identifier(target, first->name);

	/*
	 * repo is first, since consumers lock repo first; and link is locked before link_source, in the
	 * order of consumers
	 */
	distribute_table(first, atp_table_in(target, first->name), target, NULL, shards);
	if (!atp_is_distributed(atp_table_in(target, atp_link_table.name)))
		(void) atp_run(atp_expand_sql("LOCK TABLE #.link", target), ATP_NO_ARGS);
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		if (*table == first)
			continue;
		if ((*table)->shard_by == NULL)
			ereport(NOTICE, (errmsg("table \"%s.%s\" stays on this server", target, (*table)->name)));
		else
			distribute_table(*table, atp_table_in(target, (*table)->name), target,
							 strcmp((*table)->shard_by, first->shard_by) == 0 ? beside : NULL, shards);
	}
}

/*
 * By which a node is noticed that comes back with older rows (node_mark.h).  Who may write the table repo may write these.
 * No node is behind at this moment, whatever rows a dump has brought.
 */
static void
make_marks(const char *target)
{
	static const char *const grant =
		"DO $do$ DECLARE g record; BEGIN FOR g IN SELECT DISTINCT quote_ident(t.relname) AS name, a.privilege_type, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role"
		" FROM pg_class c, aclexplode(c.relacl) a, pg_class t WHERE c.oid = %u AND t.relnamespace = c.relnamespace AND t.relname IN ('node_mark', 'node_written')"
		" AND a.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE') AND a.grantee <> c.relowner"
		" LOOP EXECUTE format('GRANT %%s ON %%s.%%s TO %%s', g.privilege_type, %s, g.name, g.role); END LOOP; END $do$";
	const char *schema = quote_identifier(target);

	if (atp_has_node_marks(target))
		return;
	atp_run_each(atp_expand_sql("CREATE TABLE IF NOT EXISTS #.node_written (node int4 NOT NULL, writer text NOT NULL, did @.did NOT NULL, number int8 NOT NULL,"
								" seq int8, hashes int8multirange, behind_since timestamptz, PRIMARY KEY (node, writer)) WITH (fillfactor = 50)"
								";COMMENT ON TABLE #.node_written IS 'for each node of Citus and each writer, the number of the last transaction that wrote there'"
								";CREATE TABLE IF NOT EXISTS #.node_mark (did @.did NOT NULL, writer text NOT NULL, number int8 NOT NULL, seq int8,"
								" PRIMARY KEY (did, writer)) WITH (fillfactor = 50)"
								";COMMENT ON TABLE #.node_mark IS 'the same on the nodes: where the number is lower, the node has come back with older rows'"
								";TRUNCATE #.node_mark, #.node_written", target));
	run_statement(psprintf(grant, atp_table_in(target, atp_repo_table.name), quote_literal_cstr(schema)), ATP_NO_ARGS);
	run_statement("SELECT create_distributed_table($1, 'did', colocate_with => $2)",
				  ATP_ARGS(relation_arg(atp_table_in(target, "node_mark")), atp_text_arg(quote_qualified_identifier(target, atp_repo_table.name))));
}

/* SQL: atproto.distribute(target, shards) */
Datum
atp_distribute(PG_FUNCTION_ARGS)
{
	const char *target;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("target");
	target = NameStr(*PG_GETARG_NAME(0));
	if (!PG_ARGISNULL(1) && PG_GETARG_INT32(1) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("there must be at least one shard")));
	atp_check_distributed(target);
	check_tables(target);
	if (!atp_has_citus())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database has no Citus"),
				 errhint("shared_preload_libraries = 'citus,atproto', restart, then CREATE EXTENSION citus.")));
	/*
	 * Citus copies the rows of the snapshot and empties the table: rows committed after an older
	 * snapshot would be lost
	 */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tables are distributed at isolation level \"read committed\" only"),
				 errhint("ROLLBACK, then call the function after BEGIN ISOLATION LEVEL READ COMMITTED.")));
	SPI_connect();
	refuse_copies();
	refuse_hand(target);
	refuse_counts(target);
	distribute_all(target, PG_ARGISNULL(1) ? default_shards() : PG_GETARG_INT32(1));
	make_marks(target);
	SPI_finish();
	PG_RETURN_VOID();
}
