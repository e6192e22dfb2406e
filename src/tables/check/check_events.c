/*
 * check_events.c
 *		Invariants of stored events: record_event, collection_count.
 *
 * The invariants hold if every subscription that fills the target keeps records (or events and
 * counts), and always did.  Their queries read all of record_event, so they run only with deep.
 * Users may delete old events, and a subscription may keep no events: nothing is concluded from a
 * missing event.
 */
#include "postgres.h"

#include "tables/check/check.h"

#define ALL_DO(this) \
	" (SELECT 1 FROM atproto.subscription s WHERE s.target = $1 AND s.by_repo HAVING bool_and(" this ")) w"

const AtpInvariant atp_check_events[] = {
	{
		/*
		 * several events may have the last revision: the deletion of a record that was purged with
		 * its account has the record's own revision
		 */
		"record differs from its last event", "#.record #.record_event atproto.subscription!", ATP_CHECK_DEEP,
		"SELECT e.did, format('%s/%s', e.collection, e.rkey), format('revision %s, the last event''s is %s', r.rev, e.rev)"
		" FROM" ALL_DO("s.keep_records") " CROSS JOIN"
		" (SELECT e.did, e.collection, e.rkey, (array_agg(e.rev ORDER BY e.rev USING OPERATOR(@.>)))[1] AS rev"
		"  FROM #.record_event e GROUP BY e.did, e.collection, e.rkey) e"
		" JOIN #.record r ON r.did OPERATOR(@.=) e.did AND r.collection OPERATOR(@.=) e.collection AND r.rkey OPERATOR(@.=) e.rkey"
		" WHERE r.rev OPERATOR(@.<) e.rev OR (r.rev OPERATOR(@.=) e.rev AND NOT EXISTS (SELECT 1 FROM #.record_event o"
		"  WHERE o.did OPERATOR(@.=) e.did AND o.collection OPERATOR(@.=) e.collection AND o.rkey OPERATOR(@.=) e.rkey"
		"  AND o.rev OPERATOR(@.=) e.rev AND o.cid OPERATOR(@.=) r.cid))",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		/*
		 * the first hour with events is skipped if counts are older: the events before may have
		 * been deleted
		 */
		"counts differ from events", "#.collection_count.erased #.record_event atproto.subscription!", ATP_CHECK_DEEP,
		"SELECT NULL, format('%s of %s', c.hour, c.subscription),"
		"  format('%s creates, %s updates, %s deletes are counted, %s, %s, %s are events', c.creates, c.updates, c.deletes, e.creates, e.updates, e.deletes)"
		" FROM" ALL_DO("s.events = 'keep' AND s.count_collections") " CROSS JOIN"
		" (SELECT hour, subscription, sum(creates) AS creates, sum(updates) AS updates, sum(deletes) AS deletes, sum(erased) AS erased,"
		"   min(hour) OVER (PARTITION BY subscription) AS first FROM #.collection_count GROUP BY hour, subscription) c"
		" JOIN (SELECT date_trunc('hour', received_at, 'UTC') AS hour, subscription, count(*) FILTER (WHERE action = 'create') AS creates,"
		"   count(*) FILTER (WHERE action = 'update') AS updates, count(*) FILTER (WHERE action = 'delete') AS deletes,"
		"   min(min(date_trunc('hour', received_at, 'UTC'))) OVER (PARTITION BY subscription) AS first"
		"  FROM #.record_event WHERE seq IS NOT NULL GROUP BY date_trunc('hour', received_at, 'UTC'), subscription) e"
		" ON e.hour = c.hour AND e.subscription = c.subscription AND (e.hour > e.first OR e.first = c.first)"
		/* erase() notes only how many events of an hour it has removed */
		" WHERE CASE WHEN c.erased = 0 THEN (c.creates, c.updates, c.deletes) IS DISTINCT FROM (e.creates, e.updates, e.deletes)"
		"  ELSE c.creates < e.creates OR c.updates < e.updates OR c.deletes < e.deletes"
		"   OR c.creates + c.updates + c.deletes <> e.creates + e.updates + e.deletes + c.erased END",
		"Nothing mends a count. If somebody has removed events of this hour, that is why."
	},
	{NULL}
};
