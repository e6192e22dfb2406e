/*
 * repo.c
 *		The table repo: read and write the states of repositories.
 *
 * How events change a state is repo_state.c's task.  Rows are read and written in the order of their DIDs, so
 * that two consumers cannot deadlock.  Statements lock the rows when reading; direct access
 * (tables/direct/direct_insert.h) locks a row only when writing, and fails if the row has changed since it was
 * read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "core/syntax/did.h"
#include "executor/spi.h"
#include "common/injection.h"
#include "stream/rev_cache.h"
#include "tables/base/audit_request.h"
#include "tables/base/error_class.h"
#include "tables/repos/held.h"
#include "tables/repos/admission.h"
#include "tables/repos/repo_state.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#define MEMBER(member)	offsetof(AtpRepoState, member)

static const AtpColumn columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "PRIMARY KEY", "the account that owns the repository", MEMBER(did)},
	{"rev", ATP_TYPE_TID, ATP_VALUE, NULL,
	"revision of the last commit processed; older ones are ignored", MEMBER(head.rev), MEMBER(head.has_rev)},
	{"first_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the tables may lack commits before this revision, which is the revision of the first commit processed, or the next revision after the first #sync",
	MEMBER(head.first_rev), MEMBER(head.has_first)},
	{"commit", ATP_TYPE_CID, ATP_VALUE, NULL, "CID of the last commit processed", MEMBER(head.commit)},
	{"data", ATP_TYPE_CID, ATP_VALUE, NULL, "root of the Merkle search tree of the last commit processed", MEMBER(head.data)},
	{"rev_paths", ATP_TYPE_BYTEA, ATP_VALUE, NULL,
		"which operations of the last commit were processed, when a stream sends them in separate messages: hashes of their paths; null: all operations",
	MEMBER(head.rev_paths)},
	{"active", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL DEFAULT true",
	"false while the host does not serve the repository", MEMBER(account.active)},
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
	{"handle", ATP_TYPE_HANDLE, ATP_VALUE, NULL, "last handle announced; unverified",
	MEMBER(account.handle), 0, "CREATE INDEX IF NOT EXISTS repo_handle ON #.repo (handle) WHERE handle IS NOT NULL"},
	{"sync", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL DEFAULT 'partial'",
		"whether the records in the tables are the account's; synchronized: all of them; partial: true records, but older records may be missing;"
		" unproven: synchronized until a commit came that could not be checked completely; desynchronized: changes were missed;"
		" resyncing: an export is replacing the records",
	MEMBER(sync.word)},
	{"hold", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"why events of the repository wait in atproto.held_event: " ATP_WORD_IDENTITY ", " ATP_WORD_GAP ", " ATP_WORD_RESYNC "; " ATP_WORD_RELEASE ": the events are about to be judged again; null: no events wait",
	MEMBER(hold.word), 0, "CREATE INDEX IF NOT EXISTS repo_hold ON #.repo (hold, did) WHERE hold IS NOT NULL"},
	{"verified", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL DEFAULT false",
	"whether the account's signature of the commit with rev and data was verified", MEMBER(head.verified)},
	{"synced_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL, "when an export of the repository last came into the tables",
	MEMBER(sync.synced_at), MEMBER(sync.has_synced)},
	{"purge_rev", ATP_TYPE_TID, ATP_APART, NULL,
	"records up to this revision are being removed, because the account was deleted"},
	{"purge_seq", ATP_TYPE_INT8, ATP_APART, NULL, "sequence number of the event that deleted the account"},
	{"deleted_rev", ATP_TYPE_TID, ATP_VALUE, NULL,
		"the value of rev when the account was last deleted: records up to this revision do not come back",
	MEMBER(account.deleted_rev), MEMBER(account.deleted)},
	{"refill_by", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"id of the subscription that reads the events up to rev again (atproto.subscription): see atproto.refill()", MEMBER(refill.by), 0,
	/*
	 * unsubscribe() looks for the repositories of its refills, and would read the whole table.  The index is empty while no
	 * refill runs.  Its price: a refill of all repositories cannot set and clear the column within the pages.
	 */
	"CREATE INDEX IF NOT EXISTS repo_refill ON #.repo (refill_by) WHERE refill_by IS NOT NULL", "repo_refill"},
	{"refill_rev", ATP_TYPE_TID, ATP_VALUE, NULL, "the last revision that the refill has read", MEMBER(refill.rev), MEMBER(refill.has_rev)},
	{"refill_data", ATP_TYPE_CID, ATP_VALUE, NULL, "root of the repository's tree at refill_rev: the next commit that is read again continues it", MEMBER(refill.data)},
	{"refill_sync", ATP_TYPE_TEXT, ATP_VALUE, NULL,
		"the value of sync when the refill first wrote records; sync gets this value again when the refill reaches rev without a break; null: the refill has written no records",
	MEMBER(refill.sync)},
	{"refill_to", ATP_TYPE_TID, ATP_VALUE, NULL, "the value of rev when refill() was called", MEMBER(refill.to), MEMBER(refill.has_to)},
	{"refill_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL,
		"when refill() was called: the refill wrote all records up to refill_to that were indexed since then",
	MEMBER(refill.at), MEMBER(refill.has_at)},
	{"audited_at", ATP_TYPE_TIMESTAMP, ATP_APART, NULL, "when an audit last decided sync, or last tried this repository alone"},
	{"updated_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, "NOT NULL DEFAULT now()", "when this row was written last", MEMBER(row.updated_at)},
	{"handle_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL,
	"time of the event that announced the handle: with version 1 of Jetstream, older announcements are ignored", MEMBER(account.handle_at), MEMBER(account.has_handle_at)},
};

enum
{
	LOCK_REPOS,					/* did[] -> states, locked in order */
	ADD_REPOS,					/* did[] */
	SET_REPOS,
	MARK_REPO,					/* did: set sync to desynchronized */
	LOCK_FREE,					/* did[] -> did: lock the rows without waiting, skip locked rows */
	MARK_DROPPED,				/* did[] -> did */
	LEAVE_TO_PURGE,				/* did, rev, seq: if the table record has a record up to rev */
	LOCK_PURGED,
	PURGE_DONE,
	IS_PURGED,					/* did */
	HOLDING,					/* did[] or null -> did: repositories that may have held events */
	RELEASED,					/* did[] or null -> did */
	LOCK_HOLDING,				/* did[] */
	UNHOLD,						/* did[] */
	FORGET_REPOS				/* did[]: delete rows without information */
};

static const AtpStatement statements[] = {
	[LOCK_REPOS] = {
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
	[ADD_REPOS] = {
		"INSERT INTO #.repo (did) SELECT d FROM unnest($1) d ON CONFLICT DO NOTHING",
		SPI_OK_INSERT, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_DIRECT
	},
	[SET_REPOS] = {
		"UPDATE #.repo r SET {set u} FROM unnest({arrays}) u ({columns}) WHERE r.did OPERATOR(@.=) u.did",
		SPI_OK_UPDATE, {0}, {0}, &atp_repo_table, ATP_ROWS_IN | ATP_PLANNED_ANEW | ATP_DIRECT,
		/* with Citus: each row on its node; only RETURNING tells the number of rows */
		&(const AtpStatement) {
			"INSERT INTO #.repo AS r ({columns}) SELECT * FROM unnest({arrays})"
			" ON CONFLICT (did) DO UPDATE SET {set excluded} RETURNING r.did",
			SPI_OK_INSERT_RETURNING, {0}, {ATP_TYPE_DID}, &atp_repo_table, ATP_ROWS_IN
		}
	},
	[MARK_REPO] = {
		"UPDATE #.repo r SET sync = 'desynchronized', updated_at = now() FROM unnest($1) u (did)"
		" WHERE r.did OPERATOR(@.=) u.did AND r.sync IS DISTINCT FROM 'desynchronized'",
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[LOCK_FREE] = {
		"SELECT did FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) ORDER BY did FOR NO KEY UPDATE SKIP LOCKED",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[MARK_DROPPED] = {
		"UPDATE #.repo SET sync = 'desynchronized', updated_at = now()"
		" WHERE did OPERATOR(@.=) ANY ($1) AND " ATP_SQL_LOSES " RETURNING did",
		SPI_OK_UPDATE_RETURNING, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[LEAVE_TO_PURGE] = {
		"UPDATE #.repo SET purge_rev = GREATEST(purge_rev, $2), purge_seq = $3 WHERE did OPERATOR(@.=) $1 AND EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) $1 AND o.rev OPERATOR(@.<=) $2)",
		SPI_OK_UPDATE, {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_INT8}, {0}, &atp_repo_table
	},
	[LOCK_PURGED] = {
		"SELECT FROM #.repo WHERE purge_rev IS NOT NULL ORDER BY did FOR NO KEY UPDATE",
		SPI_OK_SELECT, {0}, {0}, &atp_repo_table, 0,
		&(const AtpStatement) {
			"UPDATE #.repo SET purge_rev = purge_rev WHERE purge_rev IS NOT NULL", SPI_OK_UPDATE, {0}, {0}, &atp_repo_table
		}
	},
	[PURGE_DONE] = {
		"UPDATE #.repo p SET purge_rev = NULL WHERE p.purge_rev IS NOT NULL AND NOT EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev)",
		SPI_OK_UPDATE, {0}, {0}, &atp_repo_table
	},
	[IS_PURGED] = {
		"SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 AND purge_rev IS NOT NULL",
		SPI_OK_SELECT, {ATP_TYPE_DID}, {0}, &atp_repo_table
	},
	[HOLDING] = {
		"SELECT did FROM #.repo WHERE " ATP_SQL_ENDS " AND ($1 IS NULL OR did OPERATOR(@.=) ANY ($1))",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[RELEASED] = {
		"SELECT did FROM #.repo WHERE hold = " ATP_SQL_RELEASE " AND ($1 IS NULL OR did OPERATOR(@.=) ANY ($1)) LIMIT $2",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_INT8}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[LOCK_HOLDING] = {
		"SELECT FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) ORDER BY did FOR NO KEY UPDATE",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW,
		&(const AtpStatement) {
			"UPDATE #.repo SET hold = hold WHERE did OPERATOR(@.=) ANY ($1)",
			SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table
		}
	},
	[UNHOLD] = {
		"UPDATE #.repo SET " ATP_SQL_END ", updated_at = now() WHERE did OPERATOR(@.=) ANY ($1) AND " ATP_SQL_ENDS,
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[FORGET_REPOS] = {
		"DELETE FROM #.repo r USING unnest($1) u (did) WHERE r.did OPERATOR(@.=) u.did"
		" AND (r.rev, r.hold, r.status_at, r.handle, r.deleted_rev) IS NULL AND r.sync = 'partial'",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_DID)}, {0}, &atp_repo_table, ATP_PLANNED_ANEW
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
	" WHERE p.active AND (p.purge_rev IS NULL OR r.rev OPERATOR(@.>) p.purge_rev)",
	.view_comment = "records of active repositories",
	.statements = statements,
	.nstatements = lengthof(statements),
	.keyed = true,
	.shard_by = "did",
};

static int
compare_repos(const void *a, const void *b)
{
	return atp_compare_dids(((const AtpRepoState *) a)->did, ((const AtpRepoState *) b)->did);
}

typedef struct EventDid
{
	uint64		abbrev;			/* prefix of the DID; decides most comparisons */
	struct varlena *did;
	int			event;
} EventDid;

static EventDid
did_of(struct varlena *did, int index)
{
	const uint8_t *stored = (const uint8_t *) VARDATA_ANY(did);

	return (EventDid) {atp_did_abbrev(stored, VARSIZE_ANY_EXHDR(did)), did, index};
}

static int
compare_event_dids(const void *a, const void *b)
{
	const EventDid *x = a;
	const EventDid *y = b;

	if (x->abbrev != y->abbrev)
		return x->abbrev < y->abbrev ? -1 : 1;
	return atp_compare_dids(x->did, y->did);
}

AtpRepoState *
atp_repo_of(const AtpRepos *s, struct varlena *did)
{
	AtpRepoState key = {.did = did};

	return bsearch(&key, s->repos, s->nrepos, sizeof(AtpRepoState), compare_repos);
}

static void *
copy_of(Datum value, bool isnull)
{
	return isnull ? NULL : PG_DETOAST_DATUM_COPY(value);
}

/* A user may have dropped the column's NOT NULL constraint. */
static Datum
not_null(const AtpColumn *column, Datum value, bool isnull)
{
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" of a row of table \"repo\" is null", column->name)));
	return value;
}

/* Fill the state from a row's columns, whose types were checked, except the DID, which is set already. */
static void
read_repo(const AtpRepos *s, AtpRepoState *repo, const Datum *values, const bool *nulls)
{
	repo->row.found = true;
	for (int c = 1; c < s->ncolumns; c++)
	{
		const AtpColumn *column = s->columns[c];
		void	   *at = (char *) repo + column->at;

		if (column->known != 0)
			*(bool *) ((char *) repo + column->known) = !nulls[c];
		switch (column->type)
		{
			case ATP_TYPE_BOOL:
				*(bool *) at = DatumGetBool(not_null(column, values[c], nulls[c]));
				break;
			case ATP_TYPE_TID:
				*(uint64 *) at = nulls[c] ? 0 : DatumGetAtpTid(values[c]);
				break;
			case ATP_TYPE_INT8:
				*(int64 *) at = nulls[c] ? 0 : DatumGetInt64(values[c]);
				break;
			case ATP_TYPE_TIMESTAMP:
				*(TimestampTz *) at = nulls[c] ? 0 : DatumGetTimestampTz(values[c]);
				break;
			default:
				Assert(get_typlen(atp_element(s->apply->statements, column->type)) == -1);
				*(void **) at = copy_of(values[c], nulls[c]);
		}
	}
	atp_hold_read(&repo->hold);
	repo->row.audited = atp_repo_is_audited(repo);
}

static void
put_repo(const AtpRepos *s, AtpRows *rows, const AtpRepoState *repo)
{
	for (int c = 0; c < s->ncolumns; c++)
	{
		const AtpColumn *column = s->columns[c];
		const void *at = (const char *) repo + column->at;
		bool		isnull = column->known != 0 && !*(const bool *) ((const char *) repo + column->known);

		switch (column->type)
		{
			case ATP_TYPE_BOOL:
				atp_put(rows, BoolGetDatum(*(const bool *) at), false);
				break;
			case ATP_TYPE_TID:
				atp_put(rows, AtpTidGetDatum(*(const uint64 *) at), isnull);
				break;
			case ATP_TYPE_INT8:
				atp_put(rows, Int64GetDatum(*(const int64 *) at), isnull);
				break;
			case ATP_TYPE_TIMESTAMP:
				atp_put(rows, TimestampTzGetDatum(*(const TimestampTz *) at), isnull);
				break;
			default:
				Assert(get_typlen(atp_element(s->apply->statements, column->type)) == -1);
				atp_put_ref(rows, *(void *const *) at);
		}
	}
}

static Datum
did_array(AtpRepos *s, bool only_missing)
{
	Datum	   *dids = palloc(sizeof(Datum) * Max(s->nrepos, 1));
	int			n = 0;

	for (int i = 0; i < s->nrepos; i++)
		if (!only_missing || !s->repos[i].row.found)
			dids[n++] = PointerGetDatum(s->repos[i].did);
	return atp_array(s->apply->statements, ATP_TYPE_DID, dids, NULL, n);
}

/* Lock and read the rows that exist; false: some repositories have no row. */
static bool
lock_repos(AtpRepos *s)
{
	Datum		arg = did_array(s, false);
	uint64		n = atp_execute(s->apply->statements, &statements[LOCK_REPOS], &arg, NULL);
	bool		all = true;

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[lengthof(columns)];
		bool		nulls[lengthof(columns)];
		AtpRepoState *repo;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		/* a user may have replaced the table by a view, which may return any row */
		repo = nulls[0] ? NULL : atp_repo_of(s, PG_DETOAST_DATUM(values[0]));
		if (repo == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("table \"repo\" has a repository that was not asked for")));
		read_repo(s, repo, values, nulls);
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < s->nrepos; i++)
		all = all && s->repos[i].row.found;
	return all;
}

static void
lock_or_add_repos(AtpRepos *s)
{
	if (!lock_repos(s))
	{
		Datum		missing = did_array(s, true);

		(void) atp_execute(s->apply->statements, &statements[ADD_REPOS], &missing, NULL);
		/* a repository that row security or a trigger hides cannot be followed */
		if (!lock_repos(s))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("rows of table \"atproto.repo\" cannot be seen or inserted by the subscription's owner")));
	}
}

/* Read the existing rows without a lock; atp_repos_store() fails if a row has changed since. */
static void
find_repos(AtpRepos *s)
{
	for (int i = 0; i < s->nrepos; i++)
	{
		AtpRepoState *repo = &s->repos[i];
		Datum		values[lengthof(columns)];
		bool		nulls[lengthof(columns)];

		if (atp_direct_find(s->direct, &(const Datum) {PointerGetDatum(repo->did)}, &repo->row.place, values, nulls))
			read_repo(s, repo, values, nulls);
		else
		{
			repo->account.active = true;
			atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
		}
	}
}

AtpRepos *
atp_repos_load(AtpApply *apply, int lo, int hi)
{
	AtpRepos   *s = palloc0(sizeof(AtpRepos));
	const AtpEvent *events = apply->batch->events;
	EventDid   *dids = palloc(sizeof(EventDid) * (hi - lo));
	int			n = 0;

	s->apply = apply;
	s->columns = atp_row_columns(&atp_repo_table, &s->ncolumns);
	s->first = lo;
	s->subscription = cstring_to_text(apply->sub->name);
	s->subscription_id = cstring_to_text(apply->sub->id);
	s->endpoint = cstring_to_text(atp_apply_endpoint(apply)->scope);
	for (int i = lo; i < hi; i++)
		if (!events[i].ignored)
			dids[n++] = did_of(events[i].did, i - lo);
	/* a held event that could not be decoded leaves atproto.held_event, too, and its repository's wait may end */
		else if (events[i].held != NULL)
			dids[n++] = did_of(events[i].held->did, i - lo);
	if (n == 0)
		return s;
	qsort(dids, n, sizeof(EventDid), compare_event_dids);
	s->repos = palloc0(sizeof(AtpRepoState) * n);
	s->of_event = palloc(sizeof(AtpRepoState *) * (hi - lo));
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || compare_event_dids(&dids[i - 1], &dids[i]) != 0)
			s->repos[s->nrepos++].did = dids[i].did;
		s->of_event[dids[i].event] = &s->repos[s->nrepos - 1];
	}
	if (apply->direct)
		s->direct = atp_direct_open(apply->statements, &atp_repo_table);
	if (s->direct != NULL)
		find_repos(s);
	else
		lock_or_add_repos(s);
	atp_admission_begin(s, lo, hi);
	ATP_INJECTION_POINT("states read");
	return s;
}

void
atp_repos_judged(AtpRepos *s)
{
	s->judged = true;
}

/*
 * Remember the newest revisions for the cache that lets other subscriptions of the target pass over known commits
 * (rev_cache.h).  Repositories are left out if an old commit may still have an effect: the repository is inactive, is
 * being refilled, or has a revision whose operations came in separate messages (repo_state.c).  The floor keeps old commits that
 * show missing records.
 */
static void
make_rev_entries(AtpRepos *s)
{
	AtpApply   *a = s->apply;
	int			room = a->nrev_entries + s->nrepos;
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);

	if (room > a->max_rev_entries)
	{
		a->rev_entries = a->rev_entries == NULL ? palloc(sizeof(AtpRevEntry) * room) : repalloc(a->rev_entries, sizeof(AtpRevEntry) * room);
		a->max_rev_entries = room;
	}
	MemoryContextSwitchTo(old);
	a->batch->shared = atp_target_table(a->statements, "repo");
	for (int i = 0; i < s->nrepos; i++)
	{
		const AtpRepoState *repo = &s->repos[i];

		if (repo->head.has_rev && repo->account.active && repo->refill.by == NULL && repo->head.rev_paths == NULL &&
			atp_rev_cache_make_entry(&a->rev_entries[a->nrev_entries], repo->did, repo->head.commit, repo->head.rev, atp_repo_floor(repo)))
			a->nrev_entries++;
	}
}

static AtpRows *
rows_for(const AtpRepos *s, int n)
{
	return atp_rows_of(s->apply->statements, &atp_repo_table, n);
}

static void
store_directly(AtpRepos *s)
{
	AtpRows    *changed = rows_for(s, 1);
	AtpRows    *added = rows_for(s, s->nrepos);

	for (int i = 0; i < s->nrepos; i++)
	{
		AtpRepoState *repo = &s->repos[i];

		if (!repo->row.found)
			put_repo(s, added, repo);
		else if (repo->row.changed)
		{
			changed->n = 0;
			put_repo(s, changed, repo);
			atp_direct_update(s->direct, &repo->row.place, changed, 0);
		}
	}
	atp_direct_insert(s->direct, added);
	atp_direct_close(s->direct);
}

static void
store_by_statement(AtpRepos *s)
{
	AtpRows    *changed = rows_for(s, s->nrepos);
	Datum		args[lengthof(columns)];

	for (int i = 0; i < s->nrepos; i++)
		if (s->repos[i].row.changed)
			put_repo(s, changed, &s->repos[i]);
	if (changed->n == 0)
		return;
	atp_rows_bind(changed, args);
	if (atp_execute(s->apply->statements, &statements[SET_REPOS], args, NULL) < changed->n &&
		atp_target_is_distributed(s->apply->statements, &atp_repo_table))
		ereport(ERROR,
				(errcode(ATP_ERRCODE_STOP),
				 errmsg("rows of table \"%s.repo\" were not written", atp_target(s->apply->statements)),
				 errdetail("They were locked before, on the servers that Citus keeps them on.")));
	SPI_freetuptable(SPI_tuptable);
}

/* V-27: request audits if this batch has made a repository one that the fetcher audits. */
static void
request_audits(const AtpRepos *s)
{
	for (int i = 0; i < s->nrepos; i++)
		if (s->repos[i].row.changed && !s->repos[i].row.audited && atp_repo_is_audited(&s->repos[i]))
		{
			atp_audit_request(atp_target(s->apply->statements));
			return;
		}
}

void
atp_repos_store(AtpRepos *s)
{
	for (int i = 0; i < s->nrepos; i++)
		s->repos[i].row.updated_at = GetCurrentTransactionStartTimestamp();
	if (s->direct != NULL)
		store_directly(s);
	else
		store_by_statement(s);
	if (s->apply->shared)
		make_rev_entries(s);
	/* V-27: only an audit can prove the records of an unproven repository */
	request_audits(s);
}

void
atp_repo_mark(AtpApply *a, struct varlena *did)
{
	Datum		value = PointerGetDatum(did);
	Datum		arg = atp_array(a->statements, ATP_TYPE_DID, &value, NULL, 1);

	(void) atp_execute(a->statements, &statements[MARK_REPO], &arg, NULL);
}

/* Execute a statement with an array of DIDs as its parameter; dids NULL: the parameter is null. */
static uint64
with_dids(AtpStatements *set, int statement, struct varlena *const *dids, int n)
{
	Datum		arg = dids == NULL ? (Datum) 0 : atp_array(set, ATP_TYPE_DID, (Datum *) dids, NULL, n);

	return atp_execute(set, &statements[statement], &arg, dids == NULL ? "n" : NULL);
}

/* The held events of these repositories are dropped: mark the repositories that lose by that (ATP_SQL_LOSES). */
static int
mark_losing(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked)
{
	int			found = with_dids(a->statements, MARK_DROPPED, dids, n);

	*marked = palloc(sizeof(struct varlena *) * Max(found, 1));
	return atp_sort_dids(*marked, atp_take_dids(*marked, found));
}

int
atp_repos_mark_dropped(AtpApply *a, struct varlena **dids, int n, struct varlena ***marked, int *nmarked)
{
	int			found = 0;

	*nmarked = 0;

	if (!atp_target_is_distributed(a->statements, &atp_repo_table))
		found = atp_take_dids(dids, with_dids(a->statements, LOCK_FREE, dids, n));
	else
		/* Citus supports SKIP LOCKED only in queries for a single node, so only for a single DID */
		for (int i = 0; i < n; i++)
			found += atp_take_dids(&dids[found], with_dids(a->statements, LOCK_FREE, &dids[i], 1));
	n = found;
	if (n == 0)
		return 0;
	*nmarked = mark_losing(a, dids, n, marked);
	return n;
}

int
atp_repos_mark_left(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked)
{
	(void) with_dids(a->statements, LOCK_HOLDING, dids, n);
	return mark_losing(a, dids, n, marked);
}

void
atp_repos_forget(AtpApply *a, struct varlena *const *dids, int n)
{
	(void) with_dids(a->statements, FORGET_REPOS, dids, n);
}

/* Take the n DIDs returned by the last statement, leave out repositories with held events; returns the number left. */
static int
without_held(AtpApply *a, uint64 n, struct varlena ***dids)
{
	AtpHeldCount *counts = palloc(sizeof(AtpHeldCount) * Max(n, 1));
	int			kept = 0;

	*dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	/* the statement returns the rows in any order, and atp_held_count() needs sorted DIDs */
	n = atp_sort_dids(*dids, atp_take_dids(*dids, n));
	atp_held_count(a, *dids, n, counts);
	for (uint64 i = 0; i < n; i++)
		if (counts[i].all == 0)
			(*dids)[kept++] = (*dids)[i];
	return kept;
}

void
atp_repos_unhold(AtpApply *a, struct varlena *const *some, int nsome)
{
	struct varlena **dids;
	int			n = without_held(a, with_dids(a->statements, HOLDING, some, nsome), &dids);

	if (n == 0)
		return;
	/* a transaction that holds an event has locked the row: after this lock its held event is visible, so count again */
	(void) with_dids(a->statements, LOCK_HOLDING, dids, n);
	n = without_held(a, with_dids(a->statements, HOLDING, dids, n), &dids);
	if (n == 0)
		return;
	(void) with_dids(a->statements, UNHOLD, dids, n);
	atp_repos_forget(a, dids, n);
}

void
atp_repos_give_up(AtpApply *a, struct varlena *const *dids, int n)
{
	AtpBatch   *batch = a->batch;
	AtpEvent   *events = palloc0(sizeof(AtpEvent) * n);
	AtpRepos   *s;

	/* stand for the repositories; never judged */
	for (int i = 0; i < n; i++)
	{
		events[i].kind = ATP_REPOS_IDENTITY;
		events[i].did = dids[i];
	}
	a->batch = &(AtpBatch) {.cxt = CurrentMemoryContext, .events = events, .nevents = n};
	s = atp_repos_load(a, 0, n);
	for (int i = 0; i < s->nrepos; i++)
		s->repos[i].row.changed |= atp_repo_give_up(a, &s->repos[i]);
	atp_repos_store(s);
	a->batch = batch;
}

int
atp_repos_released(const AtpSubscription *sub, AtpStatements *set, struct varlena **dids, int max)
{
	const AtpSettings *settings = &sub->settings;
	Datum		args[2] = {(Datum) 0, Int64GetDatum(max)};
	int			n;

	if (settings->ndids >= 0)
		args[0] = atp_array(set, ATP_TYPE_DID, (Datum *) settings->dids, NULL, settings->ndids);
	n = atp_execute(set, &statements[RELEASED], args, settings->ndids >= 0 ? NULL : "n ");
	return atp_take_dids(dids, n);
}

bool
atp_repo_leave_to_purge(AtpApply *a, const AtpEvent *event, uint64 rev)
{
	Datum		args[3] = {PointerGetDatum(event->did), AtpTidGetDatum(rev), Int64GetDatum(event->seq)};

	return atp_execute(a->statements, &statements[LEAVE_TO_PURGE], args, NULL) > 0;
}

void
atp_repo_end_purge(AtpApply *a)
{
	/* lock first: a second subscription may be about to set purge_rev of a row, and PURGE_DONE would clear that */
	(void) atp_execute(a->statements, &statements[LOCK_PURGED], NULL, NULL);
	(void) atp_execute(a->statements, &statements[PURGE_DONE], NULL, NULL);
}

bool
atp_repo_is_purged(AtpApply *a, struct varlena *did)
{
	Datum		arg = PointerGetDatum(did);

	return atp_execute(a->statements, &statements[IS_PURGED], &arg, NULL) > 0;
}
