/*
 * traces.c
 *		SQL: atproto.account_traces(): where this database still has an account, and which copies of rows lie outside
 *		of the tables.
 *
 * The rows are counted with the caller's rights.  A table that the caller may not read gets a row that says so.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/distributed.h"
#include "tables/base/table.h"
#include "tables/erase/holding.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_account_traces);

/* Copies outside of the tables, as place, object and detail.  $1: the account's DID as text, $2: schemas, $3: those of targets. */
#define PLACES \
	"SELECT 'statistics' AS place, format('%I.%I.%I', s.schemaname, s.tablename, s.attname) AS object," \
	"  'samples of the planner have the account until ANALYZE takes new ones' AS detail FROM pg_stats s" \
	"  WHERE s.schemaname = ANY ($2) AND (position($1 in s.most_common_vals::text) > 0 OR position($1 in s.histogram_bounds::text) > 0)" \
	" UNION ALL SELECT 'other accounts', format('%I.%I', n.nspname, c.relname)," \
	"  'rows of other accounts may name the account, and are not searched' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace" \
	"  WHERE n.nspname = ANY ($3) AND c.relname IN ('record', 'record_event') AND c.relkind IN ('r', 'p')" \
	" UNION ALL SELECT 'dead rows', format('%I.%I', t.schemaname, t.relname)," \
	"  format('%s removed rows are still in the files: VACUUM makes their room free, and later rows overwrite it', t.n_dead_tup)" \
	"  FROM pg_stat_all_tables t WHERE t.schemaname = ANY ($2) AND t.n_dead_tup > 0" \
	" UNION ALL SELECT 'slot', r.slot_name::text, format('keeps WAL from %s on; its reader gets the removals, and may have copies of its own', r.restart_lsn)" \
	"  FROM pg_replication_slots r WHERE r.slot_type = 'physical' OR r.database = current_database()" \
	" UNION ALL SELECT 'publication', p.pubname::text, 'subscribers have copies, and get the removals if the publication publishes deletes' FROM pg_publication p" \
	" UNION ALL SELECT 'archive', 'archive_mode', 'archived WAL and base backups keep the rows until you remove them' WHERE current_setting('archive_mode') <> 'off'" \
	" UNION ALL SELECT 'wal', 'pg_wal', 'the rows and their removal are in the log of this server until its files are reused'"

/* Nodes of Citus: the files of shards, and their WAL, are on the nodes, and only a session on a node can look at the places. */
#define NODES \
	"SELECT 'node' AS place, format('%s:%s', d.nodename, d.nodeport) AS object," \
	"  'the places of this server of Citus are not looked at: call account_traces() there' AS detail FROM pg_catalog.pg_dist_node d" \
	"  WHERE d.groupid NOT IN (SELECT l.groupid FROM pg_catalog.pg_dist_local_group l) AND EXISTS (SELECT FROM pg_catalog.pg_dist_partition p" \
	"   JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY ($1)) ORDER BY 2"

typedef struct Traces
{
	ReturnSetInfo *result;
	AtpArg		args[ATP_HOLDING_ARGS];
} Traces;

static void
add_trace(const Traces *t, const char *place, const char *object, int64 rows, const char *detail)
{
	Datum		values[] = {CStringGetTextDatum(place), CStringGetTextDatum(object), Int64GetDatum(rows), CStringGetTextDatum(detail)};
	bool		nulls[lengthof(values)] = {false, false, rows < 0, false};

	tuplestore_putvalues(t->result->setResult, t->result->setDesc, values, nulls);
}

static int64
count_rows(const Traces *t, const AtpHoldingEntry *entry, const char *schema)
{
	static const char *visited[] = {NULL, NULL};
	const char *sql = psprintf("SELECT count(*) AS n FROM %s x WHERE %s", entry->relation, atp_holding_condition(entry));
	AtpCaller	section;
	AtpResult	found;
	int64		n;

	visited[0] = atp_holding_table(entry);
	section = atp_visitor_begin(schema, visited);
	found = atp_query(atp_holding_is_data(entry) ? atp_expand_sql(sql, schema) : atp_identity_sql(sql), t->args, lengthof(t->args));
	n = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	atp_owner_end(section);
	return n;
}

static void
trace_table(const Traces *t, const AtpHoldingEntry *entry, const char *schema)
{
	Oid			namespace = get_namespace_oid(schema, true);
	Oid			relid = OidIsValid(namespace) ? get_relname_relid(atp_holding_table(entry), namespace) : InvalidOid;
	const char *object;
	int64		n;

	if (!OidIsValid(relid) || entry->holds == ATP_HOLDS_NONE || strcmp(entry->columns, "source rkey did") == 0)
		return;
	object = quote_qualified_identifier(schema, atp_holding_table(entry));
	if (atp_schema_aclcheck(namespace, GetUserId(), ACL_USAGE) != ACLCHECK_OK ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		add_trace(t, "table", object, -1, "you may not read the table");
	else if ((n = count_rows(t, entry, schema)) > 0)
		add_trace(t, "table", object, n, entry->why);
}

static void
trace_tables(const Traces *t, List *targets)
{
	for (const AtpHoldingEntry *entry = atp_holdings; entry->relation != NULL; entry++)
	{
		ListCell   *lc;

		CHECK_FOR_INTERRUPTS();
		if (!atp_holding_is_data(entry))
			trace_table(t, entry, "atproto");
		else
			foreach(lc, targets)
				trace_table(t, entry, lfirst(lc));
	}
}

static void
add_places(const Traces *t, const char *sql, const AtpArg *args, int nargs)
{
	AtpResult	found = atp_query(sql, args, nargs);

	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);

		add_trace(t, atp_get_text(row, "place"), atp_get_text(row, "object"), -1, atp_get_text(row, "detail"));
	}
	atp_result_free(found);
}

static void
trace_places(const Traces *t, List *targets)
{
	Datum	   *names = palloc(sizeof(Datum) * (list_length(targets) + 1));
	int			n = 0;
	int			ntargets;
	bool		is_target = false;
	ListCell   *lc;
	AtpArg		schemas;

	foreach(lc, targets)
	{
		names[n++] = CStringGetTextDatum(lfirst(lc));
		is_target |= strcmp(lfirst(lc), "atproto") == 0;
	}
	ntargets = n;
	if (!is_target)
		names[n++] = CStringGetTextDatum("atproto");
	schemas = atp_array_arg(TEXTOID, names, NULL, ntargets);
	add_places(t, PLACES, ATP_ARGS(t->args[1], atp_array_arg(TEXTOID, names, NULL, n), schemas));
	if (atp_has_citus())
		add_places(t, NODES, ATP_ARGS(schemas));
}

/* SQL: atproto.account_traces(did) */
Datum
atp_account_traces(PG_FUNCTION_ARGS)
{
	Traces		t = {.result = (ReturnSetInfo *) fcinfo->resultinfo};
	List	   *targets;

	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	atp_holding_args(t.args, PG_GETARG_VARLENA_PP(0), GetUserId(), NULL, true);
	targets = atp_targets(NULL);
	trace_tables(&t, targets);
	trace_places(&t, targets);
	SPI_finish();
	return (Datum) 0;
}
