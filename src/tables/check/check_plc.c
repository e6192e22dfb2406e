/*
 * check_plc.c
 *		Invariants of the logs of did:plc accounts (tables/plc/plc_tables.h).
 *
 * Operations of an account are written in one transaction with what they nullify, so no snapshot shows a part.
 */
#include "postgres.h"

#include "identity/identity_log.h"
#include "tables/check/check.h"
#include "tables/plc/plc_tables.h"

#define READ_AGAIN	"Delete the account's rows, and read the directory again: SELECT atproto.set_cursor(name, 0)."

const AtpInvariant atp_check_plc[] = {
	{
		"log with a gap", "#.plc_operation!", 0,
		"SELECT o.did, NULL, format('%s operations, but the last has the number %s', count(*), max(o.n))"
		" FROM #.plc_operation o{sample} GROUP BY o.did HAVING count(*) <> max(o.n) OR min(o.n) <> 1",
		READ_AGAIN
	},
	{
		"operation without the one before", "#.plc_operation!", 0,
		"SELECT o.did, o.n::text, format('it follows number %s', o.prev) FROM #.plc_operation o{sample}"
		" LEFT JOIN #.plc_operation p ON p.did OPERATOR(@.=) o.did AND p.n = o.prev"
		" WHERE (o.prev IS NULL) <> (o.n = 1) OR (o.prev IS NOT NULL AND (p.n IS NULL OR p.n >= o.n))",
		READ_AGAIN
	},
	{
		"operation that nothing nullified", "#.plc_operation!", 0,
		"SELECT o.did, o.n::text, format('nullified by number %s', o.nullified_by) FROM #.plc_operation o{sample}"
		" LEFT JOIN #.plc_operation b ON b.did OPERATOR(@.=) o.did AND b.n = o.nullified_by"
		" WHERE o.nullified_by IS NOT NULL AND (b.n IS NULL OR b.n <= o.n OR b.prev >= o.n)",
		READ_AGAIN
	},
	{
		"operation accepted and refused", "#.plc_operation #.plc_refused", 0,
		"SELECT o.did, o.n::text, format('refused as %s', r.reason) FROM #.plc_refused r{sample}"
		" JOIN #.plc_operation o ON o.did OPERATOR(@.=) r.did AND @.cidlink_digest(o.cid) = r.digest",
		"Delete the row of plc_refused."
	},
	/* M-11, M-14 */
	{
		"log that nobody asks for", "atproto.plc_log_request atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, r.did, 'atproto.plc_log_request', format('due since %s', r.next_try)"
		" FROM atproto.plc_log_request r JOIN atproto.subscription s ON s.name = r.subscription"
		" WHERE r.answer IS NULL AND r.next_try < now() - interval '1 day' AND s.enabled AND s.stopped IS NULL",
		"See atproto.stat_fetcher: why does the fetcher not ask?"
	},
	{
		"log that nobody stores", "atproto.plc_log_request atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, r.did, 'atproto.plc_log_request', format('answered at %s', r.answered_at)"
		" FROM atproto.plc_log_request r JOIN atproto.subscription s ON s.name = r.subscription"
		" WHERE r.answer IS NOT NULL AND r.answered_at < now() - interval '15 min' AND s.enabled AND s.stopped IS NULL",
		"See atproto.stat_subscription: why does the consumer of the subscription not take the answer?"
	},
	{
		"log that was not read", "atproto.plc_log_request atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, r.did, 'atproto.plc_log_request', COALESCE(r.error, format('asked %s times', r.tries + r.failures))"
		" FROM atproto.plc_log_request r JOIN atproto.subscription s ON s.name = r.subscription"
		" WHERE r.why = 'dids' AND r.answer IS NULL AND r.next_try IS NULL AND r.error IS NOT NULL",
		"SELECT atproto.plc_ask(name, {did}), with the name of the subscription"
	},
	{
		"request for an account that is not named", "atproto.plc_log_request atproto.subscription", ATP_CHECK_ONCE,
		"SELECT s.target, r.did, 'atproto.plc_log_request', format('subscription %s names accounts, and this is none of them', s.name)"
		" FROM atproto.plc_log_request r JOIN atproto.subscription s ON s.name = r.subscription"
		" WHERE r.requested_at < now() - interval '1 day' AND s.enabled AND s.stopped IS NULL AND s.dids IS NOT NULL AND r.did OPERATOR(@.<>) ALL (s.dids)",
		"Delete the row."
	},
	{
		"packed operation without a text", "#.plc_operation #.plc_text!", ATP_CHECK_DEEP,
		"SELECT o.did, o.n::text, format('plc_text has no row with the id %s', x.id) FROM #.plc_operation o{sample},"
		" unnest(atproto.plc_texts(o.packed)) x (id) WHERE NOT EXISTS (SELECT FROM #.plc_text t WHERE t.id = x.id)",
		READ_AGAIN
	},
	{
		"operation differs from its CID", "#.plc_operation! #.plc_text!", ATP_CHECK_DEEP,
		"SELECT o.did, o.n::text, format('the CID is %s', o.cid) FROM #.plc_operation o{sample}"
		" LEFT JOIN #.plc_operation p ON p.did OPERATOR(@.=) o.did AND p.n = o.prev"
		" WHERE @.cidlink_of(" ATP_PLC_UNPACKED("o.packed", "p.cid") ") OPERATOR(@.=) o.cid IS NOT TRUE",
		READ_AGAIN
	},
	/* M-30: identities filled by a followed log */
	{
		"identity that differs from the log", "#.plc_operation #.plc_refused atproto.identity.log_time atproto.subscription.identities", 0,
		"SELECT i.did, NULL, format('filled by the operation of %s, and the log''s last is of %s', i.log_time, h.since)"
		" FROM atproto.identity i CROSS JOIN LATERAL (SELECT o.did, o.n, o.created_at AS since FROM #.plc_operation o"
		"  WHERE o.did OPERATOR(@.=) i.did AND o.nullified_by IS NULL ORDER BY o.n DESC LIMIT 1) h"
		" WHERE EXISTS (SELECT FROM atproto.subscription s WHERE s.target = $1::name AND s.identities AND s.enabled AND s.stopped IS NULL"
		"   AND atproto.log_is_believed(s.owner, s.target))"
		"  AND NOT " ATP_LOG_IS_DOUBTED " AND (i.log_time < h.since OR (i.log_time = h.since"
		"   AND atproto.did_key(i.key) <> COALESCE(atproto.plc_key(i.did, NULL, $1::name), 'none')))",
		"SELECT atproto.identity_refresh({did})"
	},
	{NULL}
};
