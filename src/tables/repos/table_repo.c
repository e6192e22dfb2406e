/*
 * table_repo.c
 *		The table repo: columns and statements.
 *
 * The place of a column in AtpRepoState stands beside the column.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "tables/base/derived.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/table_repo.h"

#define MEMBER(member)	offsetof(AtpRepoState, member)

static const AtpColumn columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "PRIMARY KEY", "the account that owns the repository", MEMBER(did)},
	{"active", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL DEFAULT true",
	"false while the host does not serve the repository", MEMBER(account.active)},
	{"verified", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL DEFAULT false",
	"whether the account's signature of the commit with rev and data was verified", MEMBER(head.verified)},
	{"sync", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL DEFAULT 'partial'",
		"whether the records in the tables are the account's; synchronized: all of them; partial: true records, but older records may be missing;"
		" unproven: synchronized until a commit came that could not be checked completely; desynchronized: changes were missed;"
		" resyncing: an export is replacing the records",
	MEMBER(sync.word)},
	{"hold", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"why events of the repository wait in atproto.held_event: " ATP_WORD_IDENTITY ", " ATP_WORD_GAP ", " ATP_WORD_RESYNC "; " ATP_WORD_RELEASE ": the events are about to be judged again; null: no events wait",
	MEMBER(hold.word), 0, "CREATE INDEX IF NOT EXISTS repo_hold ON #.repo (hold, did) WHERE hold IS NOT NULL"},
	{"status", ATP_TYPE_TEXT, ATP_VALUE, NULL,
	"why the repository is not active: takendown, suspended, deleted, deactivated, ...", MEMBER(account.status)},
	{"status_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL,
	"time of the event that set active and status", MEMBER(account.status_at), MEMBER(account.has_status)},
	{"status_endpoint", ATP_TYPE_TEXT, ATP_VALUE, NULL,
	"the stream of the event that set active and status, as in atproto.cursor", MEMBER(account.status_endpoint)},
	{"status_seq", ATP_TYPE_INT8, ATP_VALUE, NULL,
		"sequence number of the event that set active and status: events before this number in the same stream are ignored, and events before status_at in different streams",
	MEMBER(account.status_seq), MEMBER(account.has_status_seq)},
	{"host", ATP_TYPE_TEXT, ATP_VALUE, NULL, "host of the stream that set active and status", MEMBER(account.host)},
	{"handle", ATP_TYPE_HANDLE, ATP_VALUE, NULL, "last handle announced by an event; without one, the handle that the account's document claimed when its repository was fetched; unverified",
	MEMBER(account.handle), 0, "CREATE INDEX IF NOT EXISTS repo_handle ON #.repo (handle) WHERE handle IS NOT NULL"},
	{"handle_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL,
	"time of the event that announced the handle: with version 1 of Jetstream, older announcements are ignored", MEMBER(account.handle_at), MEMBER(account.has_handle_at)},
	{"first_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the tables may lack commits before this revision, which is the revision of the first commit processed, or the next revision after the first #sync",
	MEMBER(head.first_rev), MEMBER(head.has_first)},
	{"synced_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL, "when an export of the repository last came into the tables",
	MEMBER(sync.synced_at), MEMBER(sync.has_synced)},
	{"deleted_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the value of rev when the account was last deleted: records up to this revision do not come back",
	MEMBER(account.deleted_rev), MEMBER(account.deleted)},
	{"purge_rev", ATP_TYPE_TID, ATP_APART, NULL,
	"records up to this revision are being removed, because the account was deleted"},
	{"purge_seq", ATP_TYPE_INT8, ATP_APART, NULL, "sequence number of the event that deleted the account"},
	{"refill_by", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"id of the subscription that reads the events up to rev again (atproto.subscription): see atproto.refill()", MEMBER(refill.by), 0,
	/*
	 * unsubscribe() looks for the repositories of its refills, and would read the whole table.  The index is empty while no
	 * refill runs.  Its price: a refill of all repositories cannot set and clear the column within the pages.
	 */
	"CREATE INDEX IF NOT EXISTS repo_refill ON #.repo (refill_by) WHERE refill_by IS NOT NULL", "repo_refill"},
	{"refill_rev", ATP_TYPE_TID, ATP_VALUE, NULL, "the last revision that the refill has read", MEMBER(refill.rev), MEMBER(refill.has_rev)},
	{"refill_data", ATP_TYPE_CID, ATP_VALUE, NULL, "root of the repository's tree at refill_rev: the next commit that is read again continues it", MEMBER(refill.data)},
	{"refill_first", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the refill has read all commits from this revision on up to refill_rev; first_rev becomes this revision, if it is older, when the refill reaches rev",
	MEMBER(refill.first), MEMBER(refill.has_first)},
	{"refill_sync", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"the value of sync when the refill first wrote records; sync gets this value again when the refill reaches rev without a break; null: the refill has written no records",
	MEMBER(refill.sync)},
	{"refill_to", ATP_TYPE_TID, ATP_VALUE, NULL, "the value of rev when refill() was called", MEMBER(refill.to), MEMBER(refill.has_to)},
	{"refill_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL,
		"when refill() was called: the refill wrote all records up to refill_to that were indexed since then",
	MEMBER(refill.at), MEMBER(refill.has_at)},
	{"audited_at", ATP_TYPE_TIMESTAMP, ATP_APART, NULL, "when an audit last decided sync, or last tried this repository alone"},
	{"history_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
	"the newest revision, or time of a deletion, that an archive has shown of the account: an older export is not written", MEMBER(head.history_rev), MEMBER(head.has_history)},
	{"proved", ATP_TYPE_INT8, ATP_VALUE, NULL,
		"the collections (atproto.proved_set) of which the tables had exactly the account's records at proved_rev; 0: all; null: nothing was proven",
	MEMBER(proved.set), MEMBER(proved.has_set),
		/* subscribe() and resume() look for such repositories; the index is empty while each subscription keeps records */
	"CREATE INDEX IF NOT EXISTS repo_unclaimed ON #.repo (did) WHERE proved IS NULL AND sync = 'synchronized'", "repo_unclaimed"},
	{"former_key", ATP_TYPE_BYTEA, ATP_VALUE, NULL,
	"if the signature was verified by a former key of the account: this key, as in atproto.identity; null: by the key in the account's document", MEMBER(head.former_key)},
	/*
	 * These values change with each commit.  They stand together at the end, because WAL contains what lies between the first and
	 * the last difference of two versions of a row.
	 */
	{"proved_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the last revision at which the records of the proved collections were exactly the account's; while sync is synchronized, rev",
	MEMBER(proved.rev), MEMBER(proved.has_rev)},
	{"updated_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, "NOT NULL DEFAULT now()", "when this row was written last", MEMBER(row.updated_at)},
	{"rev", ATP_TYPE_TID, ATP_VALUE, NULL,
	"revision of the last commit processed; older ones are ignored", MEMBER(head.rev), MEMBER(head.has_rev)},
	{"commit", ATP_TYPE_CID, ATP_VALUE, NULL, "CID of the last commit processed", MEMBER(head.commit)},
	{"data", ATP_TYPE_CID, ATP_VALUE, NULL, "root of the Merkle search tree of the last commit processed", MEMBER(head.data)},
	{"rev_paths", ATP_TYPE_BYTEA, ATP_VALUE, NULL,
		"which operations of the last commit were processed, when a stream sends them in separate messages: hashes of their paths; null: all operations",
	MEMBER(head.rev_paths)},
	{"sig", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "signature in the last commit processed: atproto.repo_car() makes the commit's block of it", MEMBER(head.sig)},
	{"commit_block", ATP_TYPE_BYTEA, ATP_VALUE, NULL,
	"the block of the last commit processed, if the commit has members without a column, or a prev; null: the columns say the whole commit; empty: the block was larger than 4096 bytes, and is not kept", MEMBER(head.commit_block)},
	/* null in nearly all rows, and so no part of what WAL contains of a commit */
	{"hidden_at", ATP_TYPE_TIMESTAMP, ATP_APART, NULL,
		"since when the account is hidden here, by atproto.hide(), whatever the network says; null: it is not", 0, 0,
		/* operators list the hidden accounts: few rows of many millions */
	"CREATE INDEX IF NOT EXISTS repo_hidden ON #.repo (did) WHERE hidden_at IS NOT NULL", "repo_hidden"},
};

StaticAssertDecl(lengthof(columns) <= ATP_REPO_COLUMNS_MAX, "more columns than ATP_REPO_COLUMNS_MAX");
StaticAssertDecl(lengthof(columns) < ATP_STATEMENT_ARGS, "more columns than a statement has parameters");

static const AtpStatement statements[] = {
	[ATP_LOCK_REPOS] = {
		/* NO KEY: checks of users' foreign keys to this table need not wait for our lock, nor we for theirs */
		"SELECT {r.columns} FROM unnest($1) u (did) JOIN #.repo r ON r.did OPERATOR(@.=) u.did"
		" ORDER BY r.did FOR NO KEY UPDATE OF r",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_ROWS_OUT | ATP_PLANNED_ANEW | ATP_DIRECT,
		/*
		 * With Citus: lock, insert and read the rows, each on its node.  Unlike a SELECT, the INSERT waits for a
		 * transaction that a node has prepared but not committed (the last one before a crash), and sees its rows.
		 */
		&(const AtpStatement) {
			"INSERT INTO #.repo AS r (did) SELECT d FROM unnest($1) d"
			" ON CONFLICT (did) DO UPDATE SET did = excluded.did RETURNING {r.columns}",
			SPI_OK_INSERT_RETURNING, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_ROWS_OUT
		}
	},
	[ATP_ADD_REPOS] = {
		"INSERT INTO #.repo (did) SELECT d FROM unnest($1) d ON CONFLICT DO NOTHING",
		SPI_OK_INSERT, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_DIRECT
	},
	[ATP_SET_REPOS] = {
		"UPDATE #.repo r SET {set u} FROM unnest({arrays}) u ({columns}) WHERE r.did OPERATOR(@.=) u.did",
		SPI_OK_UPDATE, {0}, {0}, &atp_repo_table, ATP_ROWS_IN | ATP_PLANNED_ANEW | ATP_DIRECT,
		/* with Citus: each row on its node; only RETURNING tells the number of rows */
		&(const AtpStatement) {
			"INSERT INTO #.repo AS r ({columns}) SELECT * FROM unnest({arrays})"
			" ON CONFLICT (did) DO UPDATE SET {set excluded} RETURNING r.did",
			SPI_OK_INSERT_RETURNING, {0}, {ATP_TYPE_DID}, &atp_repo_table, ATP_ROWS_IN
		}
	},
	[ATP_MARK_REPO] = {
		"UPDATE #.repo r SET sync = 'desynchronized', updated_at = now() FROM unnest($1) u (did)"
		" WHERE r.did OPERATOR(@.=) u.did AND r.sync IS DISTINCT FROM 'desynchronized'",
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_BY_KEY
	},
	[ATP_LOCK_FREE_REPOS] = {
		"SELECT did FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) ORDER BY did FOR NO KEY UPDATE SKIP LOCKED",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_MARK_DROPPED] = {
		"UPDATE #.repo SET sync = 'desynchronized', updated_at = now()"
		" WHERE did OPERATOR(@.=) ANY ($1) AND " ATP_SQL_LOSES " RETURNING did",
		SPI_OK_UPDATE_RETURNING, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_MARK_LETTERED] = {
		"UPDATE #.repo SET sync = 'desynchronized', updated_at = now()"
		" WHERE did OPERATOR(@.=) ANY ($1) AND " ATP_SQL_LOSES " AND CASE WHEN sync = 'desynchronized' THEN false"
		"  WHEN sync IN ('synchronized', 'unproven') THEN did OPERATOR(@.=) ANY ($2) ELSE true END RETURNING did",
		SPI_OK_UPDATE_RETURNING, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_LEAVE_TO_PURGE] = {
		"UPDATE #.repo SET purge_rev = GREATEST(purge_rev, $2), purge_seq = $3 WHERE did OPERATOR(@.=) $1 AND EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) $1 AND o.rev OPERATOR(@.<=) $2)",
		SPI_OK_UPDATE, {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_INT8}, {0}, &atp_repo_table
	},
	[ATP_LOCK_PURGED] = {
		"SELECT FROM #.repo WHERE purge_rev IS NOT NULL ORDER BY did FOR NO KEY UPDATE",
		SPI_OK_SELECT, {0}, {0}, &atp_repo_table, 0,
		&(const AtpStatement) {
			"UPDATE #.repo SET purge_rev = purge_rev WHERE purge_rev IS NOT NULL", SPI_OK_UPDATE, {0}, {0}, &atp_repo_table
		}
	},
	[ATP_END_PURGE] = {
		"UPDATE #.repo p SET purge_rev = NULL WHERE p.purge_rev IS NOT NULL AND NOT EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev)",
		SPI_OK_UPDATE, {0}, {0}, &atp_repo_table
	},
	[ATP_IS_PURGED] = {
		"SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 AND purge_rev IS NOT NULL",
		SPI_OK_SELECT, {ATP_TYPE_DID}, {0}, &atp_repo_table
	},
	[ATP_FIND_PURGED] = {
		"SELECT did, purge_rev, COALESCE(purge_seq, " CppAsString2(ATP_SEQ_NONE) ") FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) AND purge_rev IS NOT NULL",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_INT8}, &atp_repo_table
	},
	[ATP_FORGET_PURGE] = {
		"UPDATE #.repo SET purge_rev = NULL WHERE did OPERATOR(@.=) $1", SPI_OK_UPDATE, {ATP_TYPE_DID}, {0}, &atp_repo_table
	},
	[ATP_FIND_HOLDING] = {
		"SELECT did FROM #.repo WHERE " ATP_SQL_ENDS " AND ($1 IS NULL OR did OPERATOR(@.=) ANY ($1))",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_FIND_RELEASED] = {
		"SELECT did FROM #.repo WHERE hold = " ATP_SQL_RELEASE " AND ($1 IS NULL OR did OPERATOR(@.=) ANY ($1)) LIMIT $2",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_INT8}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_LOCK_HOLDING] = {
		"SELECT FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) ORDER BY did FOR NO KEY UPDATE",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW,
		&(const AtpStatement) {
			"UPDATE #.repo SET hold = hold WHERE did OPERATOR(@.=) ANY ($1)",
			SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table
		}
	},
	[ATP_END_HOLD] = {
		"UPDATE #.repo SET " ATP_SQL_END ", updated_at = now() WHERE did OPERATOR(@.=) ANY ($1) AND " ATP_SQL_ENDS,
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[ATP_FORGET_REPOS] = {
		"DELETE FROM #.repo r USING unnest($1) u (did) WHERE r.did OPERATOR(@.=) u.did"
		" AND (r.rev, r.hold, r.status_at, r.handle, r.deleted_rev, r.hidden_at) IS NULL AND r.sync = 'partial'",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_BY_KEY
	},
};

const AtpTable atp_repo_table = {
	.name = "repo",
	.use = ATP_USE_REPOS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.options = " WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
	.more = "CREATE INDEX repo_purge ON #.repo (did) WHERE purge_rev IS NOT NULL;"
	" CREATE INDEX repo_unproven ON #.repo (audited_at NULLS FIRST) WHERE sync = 'unproven'",
	.comment = "state of each repository seen",
	.view = "visible_record",
	.view_query = "SELECT r.* FROM #.record r JOIN #.repo p ON p.did OPERATOR(@.=) r.did"
	" WHERE p.active AND p.hidden_at IS NULL AND (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev)",
	.view_comment = "records of active repositories that are not hidden",
	.statements = statements,
	.nstatements = lengthof(statements),
	.keyed = true,
	.shard_by = "did",
};
