/*
 * repo.c
 *		Read and write the states of repositories: rows of the table repo.
 *
 * How events change a state is repo_effect.c's task.  Rows are read and written in the order of their DIDs, so
 * that two consumers cannot deadlock.  Statements lock the rows when reading; direct access
 * (tables/direct/direct.h) locks a row only when writing, and fails if the row has changed since it was
 * read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "changes/announce.h"
#include "common/injection.h"
#include "core/syntax/did.h"
#include "executor/spi.h"
#include "storage/lmgr.h"
#include "stream/rev_cache.h"
#include "tables/base/audit_request.h"
#include "tables/base/error_class.h"
#include "tables/base/rows.h"
#include "tables/base/sweep.h"
#include "tables/repos/admission.h"
#include "tables/repos/proved_claim.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/table_repo.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

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
	repo->row.synchronized = atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED);
	repo->row.active = repo->account.active;
	repo->row.status = repo->account.status;
	repo->row.handle = repo->account.handle;
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

static bool
lacks_row(const AtpRepoState *repo)
{
	return repo->row.needed && !repo->row.found;
}

static Datum
did_array(AtpRepos *s, bool only_lacking)
{
	Datum	   *dids = palloc(sizeof(Datum) * Max(s->nrepos, 1));
	int			n = 0;

	for (int i = 0; i < s->nrepos; i++)
		if (!only_lacking || lacks_row(&s->repos[i]))
			dids[n++] = PointerGetDatum(s->repos[i].did);
	return atp_array(s->apply->statements, ATP_TYPE_DID, dids, NULL, n);
}

/* The state of an account without a row. */
static void
init_repo(AtpRepoState *repo)
{
	repo->account.active = true;
	atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
}

/* Lock and read the rows that exist; false: some repositories have no row that they need. */
static bool
lock_repos(AtpRepos *s)
{
	Datum		arg = did_array(s, false);
	uint64		n = atp_execute(s->apply->statements, &atp_repo_table.statements[ATP_LOCK_REPOS], &arg, NULL);
	bool		all = true;

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[ATP_REPO_COLUMNS_MAX];
		bool		nulls[ATP_REPO_COLUMNS_MAX];
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
	{
		all = all && !lacks_row(&s->repos[i]);
		if (!s->repos[i].row.found)
			init_repo(&s->repos[i]);
	}
	return all;
}

static void
lock_or_add_repos(AtpRepos *s)
{
	if (!lock_repos(s))
	{
		Datum		missing = did_array(s, true);

		for (int i = 0; i < s->nrepos; i++)
			s->repos[i].row.added = lacks_row(&s->repos[i]);
		(void) atp_execute(s->apply->statements, &atp_repo_table.statements[ATP_ADD_REPOS], &missing, NULL);
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
		Datum		values[ATP_REPO_COLUMNS_MAX];
		bool		nulls[ATP_REPO_COLUMNS_MAX];

		if (atp_direct_find(s->direct, &(const Datum) {PointerGetDatum(repo->did)}, &repo->row.place, values, nulls))
			read_repo(s, repo, values, nulls);
		else
			init_repo(repo);
	}
}

/*
 * H-43: does a sweep run?  Asked behind the lock that atp_sweep_begins() waits for, which most callers have.  While deletions are
 * kept, the locks on the repositories' rows come first, and rows are written by statements, which look at the kept deletions.
 */
static void
obey_sweep(AtpApply *apply)
{
	Oid			relid = atp_target_table(apply->statements, "repo");

	if (OidIsValid(relid))
		LockRelationOid(relid, RowExclusiveLock);
	apply->sweep = atp_sweep_of(atp_target(apply->statements));
	if (apply->sweep == ATP_SWEEP_SHARED)
		apply->direct = false;
}

/*
 * H-43: until the sweep of the subscription ends, the events of the stream count as rows of the archive.  Another subscription may be
 * behind the stream.  If the stream moved repo.rev, older commits that only the other subscription brings would count as old.
 */
static void
mark_archived(AtpApply *apply, int lo, int hi)
{
	if (apply->sweep != ATP_SWEEP_SHARED || !apply->sub->has_archive || !atp_sweep_is_of(apply->sub->name))
		return;
	for (int i = lo; i < hi; i++)
		apply->batch->events[i].archived |= apply->batch->events[i].held == NULL;
}

AtpRepos *
atp_repos_load(AtpApply *apply, int lo, int hi, bool all)
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
		s->repos[s->nrepos - 1].row.needed |= all || atp_repo_makes_row(s, &events[lo + dids[i].event]);
	}
	obey_sweep(apply);
	mark_archived(apply, lo, hi);
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
		{
			if (repo->row.needed)
				put_repo(s, added, repo);
		}
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

static bool
is_same(const struct varlena *a, const struct varlena *b)
{
	return a == b || (a != NULL && b != NULL && atp_same_bytes(a, b));
}

/* Readers of slots are told of the account's new handle or status. */
static void
announce_account(const AtpRepoState *repo)
{
	const AtpRepoRow *row = &repo->row;
	const AtpRepoAccount *account = &repo->account;
	int			what = (is_same(row->handle, account->handle) ? 0 : ATP_CHANGE_HANDLE) |
		(row->active == account->active && is_same(row->status, account->status) ? 0 : ATP_CHANGE_STATUS);

	if (row->found && row->changed && what != 0)
		atp_announce_account(repo->did, what);
}

static void
store_by_statement(AtpRepos *s)
{
	AtpRows    *changed = rows_for(s, s->nrepos);
	Datum		args[ATP_REPO_COLUMNS_MAX];

	for (int i = 0; i < s->nrepos; i++)
		if (s->repos[i].row.changed)
			put_repo(s, changed, &s->repos[i]);
	if (changed->n == 0)
		return;
	atp_rows_bind(changed, args);
	if (atp_execute(s->apply->statements, &atp_repo_table.statements[ATP_SET_REPOS], args, NULL) < changed->n &&
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
	{
		s->repos[i].row.updated_at = GetCurrentTransactionStartTimestamp();
		if (s->repos[i].row.changed)
			atp_proved_judge(s, &s->repos[i]);
		announce_account(&s->repos[i]);
	}
	if (s->direct != NULL)
		store_directly(s);
	else
		store_by_statement(s);
	/* H-43: the archive's rows are older than the repositories, and count all the same */
	if (s->apply->shared && s->apply->sweep != ATP_SWEEP_SHARED)
		make_rev_entries(s);
	/* V-27: only an audit can prove the records of an unproven repository */
	request_audits(s);
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
	s = atp_repos_load(a, 0, n, true);
	for (int i = 0; i < s->nrepos; i++)
		s->repos[i].row.changed |= atp_repo_give_up(a, &s->repos[i]);
	atp_repos_store(s);
	a->batch = batch;
}
