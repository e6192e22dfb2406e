/*
 * check_repos.c
 *		Invariants of repositories and their records.
 *
 * A consumer writes records and the repository's row in the same transaction, so a snapshot has
 * both or neither.  An export is written in several transactions: until the last, and after a
 * failure, some records are newer than the repository's revision, and the repository's sync shows
 * this.
 */
#include "postgres.h"

#include "tables/check/check.h"
#include "tables/repos/hold.h"

#define CONTRADICTION(condition, text)	" WHEN " condition " THEN " text

#define CONTRADICTIONS \
	"CASE" \
	CONTRADICTION("p.sync NOT IN ('synchronized', 'partial', 'unproven', 'desynchronized', 'resyncing')", "'unknown value of sync'") \
	CONTRADICTION("p.hold NOT IN " ATP_SQL_HOLDS, "'unknown value of hold'") \
	CONTRADICTION("p.sync = 'synchronized' AND p.rev IS NULL", "'synchronized, but without a revision'") \
	CONTRADICTION("p.rev IS NULL AND (p.data IS NOT NULL OR p.commit IS NOT NULL OR p.rev_paths IS NOT NULL)", "'a commit without a revision'") \
	CONTRADICTION("p.sync = 'resyncing' AND p.hold IS DISTINCT FROM " ATP_SQL_RESYNC, "'resyncing, but its events are not held'") \
	CONTRADICTION("p.rev IS NULL AND p.deleted_rev IS NOT NULL OR p.deleted_rev OPERATOR(@.>) p.rev", "'deleted_rev is newer than rev'") \
	CONTRADICTION("p.refill_rev IS NOT NULL AND p.refill_by IS NULL", "'refill_rev without refill_by'") \
	CONTRADICTION("p.refill_rev OPERATOR(@.>) p.rev", "'refill_rev is newer than rev'") \
	CONTRADICTION("p.refill_first IS NOT NULL AND p.refill_rev IS NULL", "'refill_first without refill_rev'") \
	CONTRADICTION("octet_length(p.rev_paths) % 8 <> 0", "'rev_paths are no hashes'") \
	CONTRADICTION("p.former_key IS NOT NULL AND NOT p.verified", "'former_key, but not verified'") \
	" END"

/* P-40: what cannot be proven, in a row of repo alone. */
#define IMPOSSIBLE_PROOFS \
	"CASE" \
	CONTRADICTION("(p.proved IS NULL) <> (p.proved_rev IS NULL)", "'a proof without its collections, or its revision'") \
	CONTRADICTION("p.sync = 'synchronized' AND p.proved_rev OPERATOR(@.<>) p.rev", "format('synchronized, but proven up to %s', p.proved_rev)") \
	CONTRADICTION("p.proved_rev OPERATOR(@.>) p.rev", "'proved_rev is newer than rev'") \
	" END"

/* Pairs of a set and a running subscription s of the target, where the subscription keeps a collection that the set lacks. */
#define LACKING_SETS \
	"(SELECT q.id, s.name, s.dids, s.slice FROM atproto.proved_set q JOIN atproto.subscription s ON s.target = $1 AND s.by_repo AND s.enabled" \
	"  AND s.stopped IS NULL AND s.keep_records AND s.actions IS NULL AND atproto.role_may_fill(s.owner, s.target, s.target_owner)" \
	"  WHERE q.target = $1 AND EXISTS (SELECT FROM unnest(COALESCE(s.collections, '{*}')) w WHERE NOT EXISTS" \
	"   (SELECT FROM unnest(q.collections) c WHERE c = w OR (right(c, 1) = '*' AND starts_with(w, left(c, -1)))))) l"

/* What is wrong with a value of the type dagcbor; null: nothing, or the value is null. */
#define UNFIT(value, cid) \
	"CASE" \
	CONTRADICTION("NOT @.dagcbor_is_intact(" value ")", "'the stored bytes are damaged'") \
	CONTRADICTION(value " IS NOT NULL AND NOT atproto.record_fits(" cid ", " value ", NULL)", "format('the CID of the value is %s', @.cidlink_of(" value "::bytea))") \
	" END"

const AtpInvariant atp_check_repos[] = {
	{
		"record without repository", "#.record #.repo!", 0,
		"SELECT r.did, NULL, format('%s records', count(*)) FROM #.record r{sample}"
		" LEFT JOIN #.repo p ON p.did OPERATOR(@.=) r.did WHERE p.did IS NULL GROUP BY r.did",
		"SELECT atproto.backfill_repo({did}, {target}), or delete the records."
	},
	{
		"record of a deleted repository", "#.record #.repo", 0,
		"SELECT p.did, format('%s/%s', r.collection, r.rkey), format('revision %s, deleted up to %s', r.rev, p.deleted_rev)"
		" FROM #.repo p{sample} JOIN #.record r ON r.did OPERATOR(@.=) p.did AND r.rev OPERATOR(@.<=) p.deleted_rev"
		" WHERE p.deleted_rev IS NOT NULL AND (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev)",
		"Delete the record."
	},
	{
		"record newer than its repository", "#.record #.repo.history_rev", 0,
		"SELECT r.did, format('%s/%s', r.collection, r.rkey), format('revision %s, the repository''s is %s', r.rev, p.rev)"
		" FROM #.record r{sample} JOIN #.repo p ON p.did OPERATOR(@.=) r.did"
		" WHERE r.rev OPERATOR(@.>) p.rev AND p.sync IN ('synchronized', 'unproven')"
		/* an archive may have shown a record with a later revision before an export had the same record */
		" AND (p.history_rev IS NULL OR r.rev OPERATOR(@.>) p.history_rev)",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"repository that cannot be", "#.repo.former_key", 0,
		"SELECT did, 'repo', detail FROM (SELECT p.did, " CONTRADICTIONS " AS detail FROM #.repo p{sample}) c WHERE detail IS NOT NULL",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"commit without its signature", "#.repo.sig #.repo.commit_block", 0,
		"SELECT did, 'repo', CASE WHEN sig IS NULL THEN format('commit %s has no signature', commit) ELSE format('a signature of %s bytes', octet_length(sig)) END"
		" FROM #.repo{sample} WHERE (commit IS NULL) <> (sig IS NULL) OR octet_length(sig) <> 64 OR (sig IS NULL AND commit_block IS NOT NULL)",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		/* O-02: the block of a commit that was too large to be kept cannot be made */
		"commit differs from its CID", "#.repo.sig #.repo.commit_block", 0,
		"SELECT did, 'repo', format('the columns make a commit %s', made) FROM (SELECT p.did, p.commit,"
		"  @.cidlink_of(atproto.commit_block(p.did, p.rev, p.data, p.sig, p.commit_block)) AS made FROM #.repo p{sample}) c"
		" WHERE made OPERATOR(@.<>) commit",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"proof that cannot be", "#.repo.proved", 0,
		"SELECT did, 'repo', detail FROM (SELECT p.did, " IMPOSSIBLE_PROOFS " AS detail FROM #.repo p{sample}) c WHERE detail IS NOT NULL",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"proof of an unknown set", "#.repo.proved atproto.proved_set! atproto.subscription", ATP_CHECK_PLAIN,
		"SELECT p.did, 'repo', format('no set of collections has the number %s', p.proved) FROM #.repo p{sample}"
		" LEFT JOIN atproto.proved_set q ON q.target = $1 AND q.id = p.proved WHERE p.proved > 0 AND q.id IS NULL"
		/* repositories of a table that further databases fill, each a slice, have numbers of sets in the tables of these databases */
		" AND EXISTS (SELECT FROM atproto.subscription s WHERE s.target = $1)",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"synchronized without a collection", "#.repo.proved atproto.proved_set atproto.subscription", ATP_CHECK_PLAIN,
		"SELECT p.did, l.name, 'the filter of the subscription has a collection that was not proven' FROM #.repo p{sample}"
		" JOIN " LACKING_SETS " ON l.id = p.proved WHERE p.sync = 'synchronized' AND (l.dids IS NULL OR p.did OPERATOR(@.=) ANY (l.dids))"
		" AND CASE WHEN l.slice IS NULL THEN true"
		"  ELSE @.did_slice(p.did, split_part(l.slice, '/', 2)::integer) = split_part(l.slice, '/', 1)::integer END",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"records differ from the tree", "#.record #.repo", ATP_CHECK_DEEP | ATP_CHECK_PLAIN,
		"SELECT p.did, NULL, a.reason FROM #.repo p{sample} CROSS JOIN LATERAL atproto.audit(p.did, $1, true) a"
		" WHERE p.sync = 'synchronized' AND p.rev_paths IS NULL AND NOT a.equal",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"value that cannot be", "#.record.value:dagcbor", 0,
		"SELECT did, object, detail FROM (SELECT r.did, format('%s/%s', r.collection, r.rkey) AS object,"
		"  CASE WHEN r.value IS NULL THEN 'the value is null' ELSE " UNFIT("r.value", "r.cid") " END AS detail FROM #.record r{sample}) c WHERE detail IS NOT NULL",
		"SELECT atproto.resync({did}, {target}, true)"
	},
	{
		"value that cannot be", "#.record_event.value:dagcbor #.record_event.old_value:dagcbor", ATP_CHECK_DEEP,
		"SELECT did, object, COALESCE('value: ' || value, 'old_value: ' || old_value) FROM (SELECT e.did, format('event of %s/%s, %s', e.collection, e.rkey, e.rev) AS object, "
		UNFIT("e.value", "e.cid") " AS value, " UNFIT("e.old_value", "e.old_cid") " AS old_value FROM #.record_event e{sample}) c"
		" WHERE value IS NOT NULL OR old_value IS NOT NULL",
		"Delete the event."
	},
	{
		"bytes kept twice", "#.record.value:dagcbor #.record.raw", 0,
		"SELECT NULL, 'record.raw', format('%s rows have raw beside a value of the type dagcbor', count(*)) FROM #.record{sample} WHERE raw IS NOT NULL AND value IS NOT NULL"
		" HAVING count(*) > 0",
		"UPDATE … record SET raw = NULL WHERE value IS NOT NULL"
	},
	{
		"values of two types", "#.record.value #.record_event.value #.record_event.old_value", 0,
		/* of domains the types below them, as the consumer does */
		"WITH RECURSIVE typed AS (SELECT attname, attrelid = to_regclass(quote_ident($1) || '.record') AS of_record, atttypid AS type FROM pg_attribute"
		"  WHERE attrelid IN (to_regclass(quote_ident($1) || '.record'), to_regclass(quote_ident($1) || '.record_event')) AND attname IN ('value', 'old_value')"
		" UNION ALL SELECT attname, of_record, typbasetype FROM typed JOIN pg_type t ON t.oid = type AND typtype = 'd'),"
		" base AS (SELECT typed.* FROM typed JOIN pg_type t ON t.oid = type AND typtype <> 'd')"
		" SELECT NULL, format('record_event.%s', e.attname), format('%s, and record.value is %s', format_type(e.type, NULL), format_type(r.type, NULL))"
		" FROM base r JOIN base e ON r.of_record AND NOT e.of_record AND e.type <> r.type",
		"ALTER TABLE ... ALTER COLUMN ... TYPE ..., as in record"
	},
	{
		/* H-43 */
		"record that was deleted", "#.record #.repo #.sweep_deletion", 0,
		"SELECT r.did, format('%s/%s', r.collection, r.rkey), format('revision %s, deleted at %s', r.rev, s.rev)"
		" FROM #.sweep_deletion s JOIN #.repo p ON p.did OPERATOR(@.=) s.did JOIN #.record r ON r.did OPERATOR(@.=) s.did"
		"  AND r.rev OPERATOR(@.<=) s.rev AND (s.path = '#account' OR s.path = r.collection::text || '/' || r.rkey::text)"
		" WHERE (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev) AND (p.proved_rev IS NULL OR r.rev OPERATOR(@.>) p.proved_rev)",
		"Delete the record, or SELECT atproto.resync({did}, {target}, true)"
	},
	{
		/* the consumer of the archive empties the table some seconds after the end */
		"deletion kept without a sweep", "#.sweep_deletion atproto.history! atproto.subscription!", 0,
		"SELECT s.did, s.path, format('kept at %s', s.kept_at) FROM #.sweep_deletion s WHERE s.kept_at < now() - interval '1 hour'"
		/* with a column, because Citus cannot plan a subquery without columns beside a distributed table */
		" AND NOT EXISTS (SELECT 1 FROM atproto.history h JOIN atproto.subscription u ON u.name = h.subscription"
		"  WHERE h.phase <> 'live' AND u.history = 'archive' AND u.target = $1)",
		"Delete the row."
	},
	{NULL}
};
