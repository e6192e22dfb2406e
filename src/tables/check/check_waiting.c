/*
 * check_waiting.c
 *		Invariants of work that waits: held events, jobs, status requests, audits.
 *
 * Work that a consumer or the fetcher will take within seconds is not reported: for example a job
 * that was running when the fetcher ended.  Rows of atproto.held_release are not checked at all,
 * since every consumer deletes rows that no consumer takes.
 */
#include "postgres.h"

#include "tables/base/audit_request.h"
#include "tables/base/blocked.h"
#include "tables/base/hiding.h"
#include "tables/check/check.h"
#include "tables/repos/hold.h"

/* Repositories of the target with held events. */
#define HELD \
	"(SELECT h.did, count(*) AS n FROM atproto.held_event h WHERE h.target = $1 AND h.kind = 'repo' GROUP BY h.did) h"

/* Levels of verification, the lowest first. */
#define LEVELS		"'{hash,chain,full}'::text[]"

/* Conditions for a running subscription s of the target. */
#define RUNS		"s.target = $1 AND s.by_repo AND s.enabled AND s.stopped IS NULL"

/* Rows of one of our tables with a target different from their subscription's. */
#define OF_OTHER_TARGET(table, also) \
	"SELECT x.target, x.did, '" table "', format('subscription %s has target %s', x.subscription, s.target)" \
	" FROM " table " x JOIN atproto.subscription s ON s.name = x.subscription WHERE s.target <> x.target" also

#define REFETCH	"SELECT atproto.resync({did}, {target})"

/*
 * Rows of blocked accounts in a table of the target, of which b is the block.  The blocks are a subquery, because Citus joins a
 * distributed table only with the result of a subquery, and with no local table.  Citus refuses EXISTS beside such a result.
 */
#define BLOCKED(schema, table, condition) \
	"SELECT DISTINCT b.did, '" table "', 'erase() has blocked the account' FROM " schema table " x" \
	" JOIN (SELECT k.did FROM atproto.blocked_account k WHERE k.target IS NULL OR k.target = $1) b ON " condition
#define BLOCKED_DATA(table)		BLOCKED("#.", table, "x.did OPERATOR(@.=) b.did")
#define BLOCKED_WAITING(table)	BLOCKED("atproto.", table, "x.did OPERATOR(@.=) b.did AND x.target = $1")

#define ERASE_AGAIN	"CALL atproto.erase({did}, block => true, target => {target})"
/* erase() removes a link with the link's record; rebuild_links() removes a link without a record */
#define ERASE_LINKS	ERASE_AGAIN "; SELECT * FROM atproto.rebuild_links({target})"

const AtpInvariant atp_check_waiting[] = {
	{"row of a blocked account", "#.record atproto.blocked_account", 0, BLOCKED_DATA("record"), ERASE_AGAIN},
	{"row of a blocked account", "#.repo atproto.blocked_account", 0, BLOCKED_DATA("repo"), ERASE_AGAIN},
	{"row of a blocked account", "#.sweep_deletion atproto.blocked_account", 0, BLOCKED_DATA("sweep_deletion"), ERASE_AGAIN},
	{"row of a blocked account", "#.record_event atproto.blocked_account", ATP_CHECK_DEEP, BLOCKED_DATA("record_event"), ERASE_AGAIN},
	{"row of a blocked account", "#.link atproto.blocked_account", ATP_CHECK_DEEP, BLOCKED_DATA("link"), ERASE_LINKS},
	{
		"row of a blocked account", "#.label atproto.blocked_account", ATP_CHECK_DEEP,
		BLOCKED("#.", "label", "x.src OPERATOR(@.=) b.did"), ERASE_AGAIN
	},
	{
		/* an equality, so that PostgreSQL hashes: many blocks and many labels would be compared pair by pair otherwise */
		"row of a blocked account", "#.label atproto.blocked_account", ATP_CHECK_DEEP,
		BLOCKED("#.", "label", ATP_SQL_LABEL_SUBJECT " = b.did::text"), ERASE_AGAIN
	},
	{"row of a blocked account", "atproto.repo_job atproto.blocked_account", 0, BLOCKED_WAITING("repo_job"), ERASE_AGAIN},
	{"row of a blocked account", "atproto.held_event atproto.blocked_account", 0, BLOCKED_WAITING("held_event"), ERASE_AGAIN},
	{"row of a blocked account", "atproto.status_request atproto.blocked_account", 0, BLOCKED_WAITING("status_request"), ERASE_AGAIN},
	{
		"row of a blocked account", "atproto.dead_letter atproto.subscription atproto.blocked_account", 0,
		BLOCKED("atproto.", "dead_letter", "x.did OPERATOR(@.=) b.did AND EXISTS (SELECT FROM atproto.subscription s WHERE s.name = x.subscription AND s.target = $1)"), ERASE_AGAIN
	},
	{
		"hidden account that a view shows", "#.repo.hidden_at", 0,
		"SELECT p.did, 'hidden_at', 'visible_record or visible_link does not read the column' FROM #.repo p WHERE p.hidden_at IS NOT NULL AND " ATP_SQL_VIEW_SHOWS_HIDDEN,
		"Drop the views visible_record and visible_link, then SELECT atproto.create_tables({target})"
	},
	{
		"hold without events", "#.repo atproto.held_event!", 0,
		"SELECT p.did, p.hold, 'the repository says that events of it wait, but none does'"
		" FROM #.repo p LEFT JOIN " HELD " ON h.did OPERATOR(@.=) p.did WHERE p.hold IN (" ATP_SQL_IDENTITY ", " ATP_SQL_GAP ") AND h.did IS NULL",
		REFETCH
	},
	{
		"held event without hold", "#.repo! atproto.held_event", 0,
		"SELECT h.did, p.hold, format('%s events wait, but the repository does not say so', h.n)"
		" FROM " HELD " LEFT JOIN (SELECT did, hold FROM #.repo WHERE hold IS NOT NULL) p ON p.did OPERATOR(@.=) h.did WHERE p.did IS NULL",
		"Resume a subscription of the target, or delete the events; then SELECT atproto.resync({did}, {target})"
	},
	{
		/*
		 * updated_at is the time of the request to release, and consumers look each second.  A consumer takes no event of
		 * a paused subscription of a higher level or of a foreign role: such an event waits for its own subscription.
		 * The condition on p.hold beside EXISTS changes nothing: Citus refuses a condition without a column beside an
		 * outer join.
		 */
		"release that does not happen", "#.repo atproto.subscription atproto.held_event!", 0,
		"SELECT p.did, p.hold, format('since %s', p.updated_at) FROM #.repo p"
		" LEFT JOIN (SELECT h.did, bool_or(s.name IS NOT NULL) AS taken FROM atproto.held_event h"
		"  LEFT JOIN atproto.subscription o ON o.name = h.subscription"
		"  LEFT JOIN atproto.subscription s ON " RUNS
		"   AND array_position(" LEVELS ", o.verify) <= array_position(" LEVELS ", s.verify) AND pg_has_role(s.owner, o.owner, 'USAGE')"
		"  WHERE h.target = $1 AND h.kind = 'repo' GROUP BY h.did) h ON h.did OPERATOR(@.=) p.did"
		" WHERE p.hold = " ATP_SQL_RELEASE " AND p.updated_at < now() - interval '10 min' AND (h.did IS NULL OR h.taken)"
		" AND (p.hold IS NULL OR EXISTS (SELECT 1 FROM atproto.subscription s WHERE " RUNS "))",
		"See atproto.stat_subscription: why does no consumer of the target take its events?"
	},
	{
		/* the consumers look for such repositories every five minutes */
		"fetched without a job", "#.repo atproto.repo_job! atproto.subscription!", 0,
		"SELECT p.did, p.hold, format('since %s', p.updated_at) FROM #.repo p"
		" LEFT JOIN (SELECT j.did FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription AND s.backfill <> 'none'"
		"  WHERE j.target = $1 AND j.state = 'running') j ON j.did OPERATOR(@.=) p.did"
		" WHERE p.hold = " ATP_SQL_RESYNC " AND j.did IS NULL AND p.updated_at < now() - interval '15 min'",
		REFETCH
	},
	{
		"suspended job of an active account", "#.repo atproto.repo_job", 0,
		"SELECT j.did, 'atproto.repo_job', 'the account is active, but its repository will not be fetched'"
		" FROM atproto.repo_job j JOIN #.repo p ON p.did OPERATOR(@.=) j.did WHERE j.target = $1 AND j.state = 'suspended' AND p.active",
		REFETCH
	},
	{
		"deletion that nobody confirms", "#.repo #.record atproto.status_request! atproto.subscription", 0,
		/*
		 * below verify = full, a deletion said by a server that was asked hides the records without
		 * a confirmation
		 */
		"SELECT p.did, NULL, 'the account is deleted, as a stream says: its records are hidden, and nobody asks its server'"
		" FROM #.repo p LEFT JOIN (SELECT did FROM atproto.status_request WHERE target = $1) w ON w.did OPERATOR(@.=) p.did"
		" WHERE NOT p.active AND p.status = 'deleted' AND p.rev IS NOT NULL AND COALESCE(p.deleted_rev OPERATOR(@.<>) p.rev, true) AND w.did IS NULL"
		" AND EXISTS (SELECT 1 FROM #.record r WHERE r.did OPERATOR(@.=) p.did)"
		" AND EXISTS (SELECT 1 FROM atproto.subscription s WHERE s.target = $1 AND s.by_repo AND s.verify = 'full')",
		REFETCH
	},
	{
		/* the column has the subscription's id, or its name in versions without ids */
		"refill of nobody", "#.repo.refill_by atproto.subscription!", 0,
		"SELECT p.did, 'refill_by', format('no subscription of this target is %s', p.refill_by) FROM #.repo p WHERE p.refill_by IS NOT NULL"
		" AND p.refill_by NOT IN (SELECT n.who FROM atproto.subscription s CROSS JOIN LATERAL (VALUES (s.name), (to_jsonb(s) ->> 'id')) n (who)"
		"  WHERE s.target = $1 AND n.who IS NOT NULL)",
		"UPDATE the row: refill_by and refill_rev are NULL where nothing is read again."
	},
	{
		"audit that nobody makes", "#.repo atproto.audit_state! atproto.subscription", 0,
		/*
		 * the fetcher audits with the rights of a subscription's owner, and filtered repositories
		 * cannot be judged
		 */
		"SELECT NULL, 'atproto.audit_state', format('%s repositories are unproven', count(*)) FROM #.repo WHERE " ATP_IS_AUDITED
		" AND EXISTS (SELECT 1 FROM atproto.subscription s WHERE s.target = $1 AND s.by_repo"
		"  HAVING count(*) > 0 AND bool_and(s.collections IS NULL AND s.actions IS NULL AND s.keep_records))"
		" AND NOT EXISTS (SELECT 1 FROM atproto.audit_state a WHERE a.target = $1 AND a.next_at IS NOT NULL) HAVING count(*) > 0",
		"CALL atproto.audit_all({target})"
	},
	{
		"held event of another target", "atproto.held_event atproto.subscription", ATP_CHECK_ONCE,
		OF_OTHER_TARGET("atproto.held_event", ""),
		"Give the subscription its target again; or delete the rows, and fetch the repositories with atproto.resync()."
	},
	{
		"message of an unknown format", "atproto.held_event.format", ATP_CHECK_ONCE,
		"SELECT x.target, x.did, 'atproto.held_event', format('format %s, endpoint %s', x.format, x.endpoint) FROM atproto.held_event x"
		" WHERE (x.format IN " ATP_CHECK_FORMATS " AND x.endpoint IS NOT NULL) IS NOT TRUE",
		"UPDATE the row: format and endpoint are those of the stream that the message came from."
	},
	{
		"job of another target", "atproto.repo_job atproto.subscription", ATP_CHECK_ONCE,
		OF_OTHER_TARGET("atproto.repo_job", ""), "Delete the row."
	},
	{
		"status request of another target", "atproto.status_request atproto.subscription", ATP_CHECK_ONCE,
		OF_OTHER_TARGET("atproto.status_request", ""), "Delete the row."
	},
	{
		/* a manager starts the fetcher, which begins these jobs again */
		"running job without a fetcher", "atproto.repo_job", ATP_CHECK_ONCE,
		"SELECT j.target, j.did, 'atproto.repo_job', 'it is running, but this database has no fetcher, nor a manager that starts one'"
		" FROM atproto.repo_job j WHERE j.state = 'running' AND pg_has_role('pg_read_all_stats', 'USAGE') AND NOT EXISTS"
		" (SELECT 1 FROM pg_stat_activity a WHERE a.datname = current_database() AND a.backend_type IN ('atproto fetcher', 'atproto manager'))",
		"Name the database in atproto.databases, and preload the library."
	},
	{
		"job that cannot be", "atproto.repo_job", ATP_CHECK_ONCE,
		"SELECT j.target, j.did, 'atproto.repo_job', 'throttled or put off for ever' FROM atproto.repo_job j WHERE j.next_try = 'infinity'",
		REFETCH
	},
	{NULL}
};
