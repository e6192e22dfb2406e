/*
 * check_shapes.c
 *		Invariants of the tables themselves: persistence, partitions, sequences.
 */
#include "postgres.h"

#include "tables/check/check.h"

#define DATA_TABLES \
	"unnest(ARRAY['record', 'repo', 'record_event', 'label', 'message', 'link_source', 'link', 'link_count', 'collection_count', 'sweep_deletion'," \
	" 'plc_text', 'plc_operation', 'plc_refused']) t (name)"

/* A column GENERATED AS IDENTITY whose sequence is behind the largest number in the table. */
#define OF_EXTENSION(table) \
	{ \
		"number that is taken", "atproto." table, ATP_CHECK_ONCE, \
		"SELECT NULL::name, NULL, 'atproto." table ".id', format('the next number is %s, but there is %s', COALESCE(q.last, 0) + 1, m.top)" \
		" FROM (SELECT max(id) AS top FROM atproto." table ") m, LATERAL (SELECT CASE WHEN m.top IS NOT NULL" \
		"  THEN pg_sequence_last_value(pg_get_serial_sequence('atproto." table "', 'id')::regclass) END AS last) q WHERE m.top > COALESCE(q.last, 0)", \
		"SELECT setval(pg_get_serial_sequence('atproto." table "', 'id'), max(id)) FROM atproto." table \
	}

/* Months of a table partitioned by month, of which the default partition has rows. */
#define MONTHS(table, key, month, also) \
	"SELECT NULL, to_char(d.month AT TIME ZONE 'UTC', '\"" table "_\"YYYY_MM'), format('%s rows of this month are in the default partition', count(*))" \
	" FROM (SELECT " month " AS month FROM #." table "_rest r{sample}" \
	"  WHERE (SELECT pg_get_partkeydef(c.oid) = '" key "' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace" \
	"   WHERE n.nspname = $1 AND c.relname = '" table "' AND c.relkind = 'p')" also ") d GROUP BY d.month"

const AtpInvariant atp_check_shapes[] = {
	{
		"changes cannot be told", "#.record", 0,
		"SELECT NULL, c.relname, 'a slot of the output plugin atproto has a reader, and WAL does not say which row an UPDATE or a DELETE was of'"
		" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname IN ('record', 'repo', 'label')"
		"  AND (c.relreplident = 'n' OR (c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)))"
		"  AND EXISTS (SELECT FROM pg_replication_slots s WHERE s.plugin = 'atproto' AND s.database = current_database())",
		"Give the table its primary key again, and ALTER TABLE … REPLICA IDENTITY DEFAULT; the reader has to read the table again."
	},
	{
		"unlogged table", "#.repo", 0,
		"SELECT NULL, c.relname, 'after a crash it is empty' FROM pg_class c WHERE c.relpersistence = 'u' AND c.oid IN"
		" (SELECT COALESCE(p.relid, k.oid) FROM " DATA_TABLES " JOIN pg_class k ON k.relname = t.name"
		"  AND k.relnamespace = to_regnamespace(quote_ident($1)) LEFT JOIN LATERAL pg_partition_tree(k.oid) p ON k.relkind = 'p')",
		"ALTER TABLE ... SET LOGGED, then resync its repositories if the server has crashed since."
	},
	{
		"number that is taken", "#.message", 0,
		"SELECT NULL, 'message.id', format('the next number is %s, but there is %s', COALESCE(q.last, 0) + 1, m.top)"
		" FROM (SELECT max(id) AS top FROM #.message) m, LATERAL (SELECT CASE WHEN m.top IS NOT NULL"
		"  THEN pg_sequence_last_value(pg_get_serial_sequence(format('%I.message', $1), 'id')::regclass) END AS last) q WHERE m.top > COALESCE(q.last, 0)",
		"SELECT setval(pg_get_serial_sequence(..., 'id'), max(id)) of the table message"
	},
	OF_EXTENSION("dead_letter"),
	OF_EXTENSION("gap"),
	OF_EXTENSION("held_release"),
	{
		/*
		 * a record key may be any text: keys outside the network's lifetime belong in the default
		 * partition
		 */
		"month without a partition", "#.record #.record_rest", 0,
		MONTHS("record", "RANGE (rkey)", "date_trunc('month', @.recordkey_timestamp(r.rkey), 'UTC')",
			   " AND @.recordkey_timestamp(r.rkey) BETWEEN '2022-11-01 00:00+00' AND now()"),
		"SELECT atproto.partition({target})"
	},
	{
		"month without a partition", "#.record_event #.record_event_rest", 0,
		MONTHS("record_event", "RANGE (received_at)", "date_trunc('month', r.received_at, 'UTC')", ""),
		"SELECT atproto.partition({target})"
	},
	{NULL}
};
