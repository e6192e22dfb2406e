/*
 * check_streams.c
 *		Invariants of subscriptions and their streams: cursors, gaps, lists, dead letters.
 */
#include "postgres.h"

#include "tables/check/check.h"

/* Rows of one of our tables with the name of a missing schema. */
#define NO_SCHEMA(table) \
	{ \
		"no such schema", table, ATP_CHECK_ONCE, \
		"SELECT x.target, NULL, '" table "', format('%s rows', count(*)) FROM " table " x" \
		" WHERE to_regnamespace(quote_ident(x.target)) IS NULL GROUP BY x.target", \
		"Make the schema and its tables, SELECT atproto.create_tables({target}), or delete the rows." \
	}

#define OF_SUBSCRIPTION(table, alias)	" FROM " table " " alias " JOIN atproto.subscription s ON s.name = " alias ".subscription"

const AtpInvariant atp_check_streams[] = {
	NO_SCHEMA("atproto.subscription"),
	NO_SCHEMA("atproto.held_event"),
	NO_SCHEMA("atproto.repo_job"),
	NO_SCHEMA("atproto.status_request"),
	NO_SCHEMA("atproto.audit_state"),
	{
		"subscription that cannot be", "atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, c.detail FROM atproto.subscription s CROSS JOIN LATERAL (VALUES"
		"  (NOT EXISTS (SELECT 1 FROM pg_roles r WHERE r.oid = s.owner), format('its owner, %s, is no role', s.owner::oid)),"
		"  (s.stopped IS NULL AND s.stopped_at IS NOT NULL, 'it has stopped without a reason')) c (wrong, detail) WHERE c.wrong",
		"UPDATE the row."
	},
	{
		"log that is not believed", "atproto.subscription.identities", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, 'a role without the rights of the owner of atproto.identity may write the tables of the log'"
		" FROM atproto.subscription s WHERE s.identities AND NOT atproto.log_is_believed(s.owner, s.target)"
		"  AND to_regclass(format('%I.plc_history', s.target)) IS NOT NULL",
		"REVOKE INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER on the tables of the log, or UPDATE atproto.subscription SET identities = false."
	},
	{
		"cursor without all its shards", "atproto.cursor atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, format('endpoint %s has shards %s of layouts %s', c.endpoint,"
		"  string_agg(c.shard::text, ', ' ORDER BY c.shard), string_agg(DISTINCT c.layout::text, ', '))"
		OF_SUBSCRIPTION("atproto.cursor", "c") " GROUP BY s.target, s.name, c.endpoint"
		" HAVING max(c.shard) <> count(*) - 1 OR min(c.layout) <> max(c.layout)",
		"Restore the rows of atproto.cursor, or unsubscribe and subscribe again."
	},
	{
		"cursor whose settings hold from later on", "atproto.cursor atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, format('endpoint %s, shard %s is at %s, and was read without a break from %s', c.endpoint, c.shard, c.seq, c.read_from)"
		OF_SUBSCRIPTION("atproto.cursor", "c") " WHERE c.read_from > c.seq",
		"SELECT atproto.set_cursor({object}, seq)"
	},
	{
		"gap that cannot be", "atproto.gap atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, format('gap %s', g.id), format('after %s, before %s, closed %s: %s', g.after_seq, g.before_seq, g.closed_at, g.closed_how)"
		OF_SUBSCRIPTION("atproto.gap", "g") " WHERE g.before_seq <= g.after_seq OR g.after_seq < 0 OR (g.closed_how IS NOT NULL AND g.closed_at IS NULL)",
		"Correct the row, or close it: SELECT atproto.close_gap(id)"
	},
	{
		"list that cannot be", "atproto.enumeration atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, format('%s: %s of %s entries queued, %s skipped, begun %s, finished %s', e.source, e.queued, e.seen, e.skipped, e.started_at, e.finished_at)"
		OF_SUBSCRIPTION("atproto.enumeration", "e") " WHERE e.queued + e.skipped > e.seen OR e.finished_at < e.started_at",
		"Delete the row: the list is read anew."
	},
	{
		"frame without a letter", "atproto.dead_frame atproto.dead_letter! atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, format('digest %s', f.digest)"
		OF_SUBSCRIPTION("atproto.dead_frame", "f") " LEFT JOIN atproto.dead_letter d ON d.subscription = f.subscription AND d.digest = f.digest"
		" WHERE d.id IS NULL",
		"Delete the row of atproto.dead_frame."
	},
	{
		"letter without a frame", "atproto.dead_frame! atproto.dead_letter atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, d.did, format('letter %s', d.id), 'its message is not there'"
		OF_SUBSCRIPTION("atproto.dead_letter", "d") " LEFT JOIN atproto.dead_frame f ON f.subscription = d.subscription AND f.digest = d.digest"
		" WHERE f.digest IS NULL AND d.stage <> 'beyond'",
		"Delete the letter, and resync its repository."
	},
	{
		/* a dead letter of an earlier version has neither a format nor an endpoint */
		"message of an unknown format", "atproto.dead_frame.format atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, NULL, s.name, format('digest %s: format %s, endpoint %s', f.digest, f.format, f.endpoint)"
		OF_SUBSCRIPTION("atproto.dead_frame", "f")
		" WHERE f.format NOT IN " ATP_CHECK_FORMATS " OR (f.format IS NULL) <> (f.endpoint IS NULL)",
		"UPDATE the row: format and endpoint are those of the stream that the message came from; NULL, NULL: as the stream is now."
	},
	{
		"letter that cannot be", "atproto.dead_letter atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, d.did, format('letter %s', d.id), format('%s attempts, from %s to %s', d.attempts, d.first_at, d.last_at)"
		OF_SUBSCRIPTION("atproto.dead_letter", "d") " WHERE d.attempts < 1 OR d.first_at > d.last_at OR (d.stage = 'beyond') <> (d.digest IS NULL)",
		"Correct the row."
	},
	{
		"frame was changed", "atproto.dead_frame atproto.subscription", ATP_CHECK_ONCE | ATP_CHECK_DEEP,
		"SELECT s.target, NULL, s.name, format('digest %s, its bytes have %s', f.digest, sha256(f.bytes))"
		OF_SUBSCRIPTION("atproto.dead_frame", "f") " WHERE f.digest <> sha256(f.bytes)",
		"Delete its letters, and resync their repositories."
	},
	{
		"identity that cannot be", "atproto.identity", ATP_CHECK_ONCE,
		"SELECT NULL::name, i.did, 'atproto.identity', format('%s, key %s, server %s, read %s', i.state, i.key, i.pds, i.resolved_at)"
		" FROM atproto.identity i WHERE (i.state = 'good' AND (i.key IS NULL OR i.pds IS NULL OR i.resolved_at IS NULL))"
		"  OR (i.handle_state <> 'unknown' AND i.handle_claimed IS NULL)",
		"Delete the row of atproto.identity: it is a cache."
	},
	{
		"slot that has lost changes", "atproto.subscription", ATP_CHECK_ONCE,
		"SELECT NULL::name, NULL, slot_name, 'PostgreSQL has removed WAL that the reader had not confirmed (max_slot_wal_keep_size)'"
		" FROM pg_replication_slots WHERE plugin = 'atproto' AND database = current_database() AND wal_status = 'lost'",
		"Drop the slot, make a new slot, and have its reader read the tables first."
	},
	{NULL}
};
