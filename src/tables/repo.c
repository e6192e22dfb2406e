/*
 * repo.c
 *		States of repositories: read, moved by events, written.
 *
 * They are read and written in the order of their DIDs.  Statements lock the rows
 * when they read them; where direct.c can do it, the rows are only locked when
 * they are written, which fails if somebody else was faster.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "clock.h"
#include "executor/spi.h"
#include "injection.h"
#include "tables/direct.h"
#include "tables/repo.h"
#include "tables/rows.h"
#include "tables/statements.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* State of a repository, as its row has it and the events change it. */
typedef struct RepoState
{
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	bool		has_first;
	uint64		first_rev;		/* of what was before nothing is known */
	struct varlena *commit;
	struct varlena *data;
	bool		active;
	text	   *status;
	bool		has_status;		/* an #account event was seen */
	TimestampTz status_at;		/* never in the future, whatever the event says */
	text	   *status_endpoint;	/* the stream that said so ... */
	bool		has_status_seq;
	int64		status_seq;		/* ... and which event of it */
	text	   *host;
	struct varlena *handle;
	bool		desynchronized;
	bool		deleted;		/* at some time, with all records up to deleted_rev */
	uint64		deleted_rev;
	text	   *refill_by;		/* subscription that reads the repository again; NULL: none */
	bool		refilled;		/* as far as refill_rev */
	uint64		refill_rev;
	bool		found;
	ItemPointerData place;		/* when it was read directly */
	bool		changed;
} RepoState;

struct AtpRepoStates
{
	AtpApply	   *apply;
	int			first;			/* event */
	RepoState **of_event;		/* from the first one on; not set when it is ignored */
	RepoState  *repos;			/* by DID */
	int			nrepos;
	text	   *subscription;
	text	   *endpoint;
	AtpDirect  *direct;			/* the table repo; NULL: with statements */
};

static int
compare_repos(const void *a, const void *b)
{
	return atp_compare_dids(((const RepoState *) a)->did, ((const RepoState *) b)->did);
}

typedef struct EventDid
{
	struct varlena *did;
	int			event;
} EventDid;

static int
compare_event_dids(const void *a, const void *b)
{
	return atp_compare_dids(((const EventDid *) a)->did, ((const EventDid *) b)->did);
}

static RepoState *
repo_of(AtpRepoStates *s, struct varlena *did)
{
	RepoState	key = {.did = did};

	return bsearch(&key, s->repos, s->nrepos, sizeof(RepoState), compare_repos);
}

static const char *const repo_columns[] = {
	"did", "rev", "first_rev", "commit", "data", "active", "status", "status_at", "status_endpoint", "status_seq", "host", "handle",
	"desynchronized", "deleted_rev", "refill_by", "refill_rev", "updated_at"
};
static const AtpArrayType repo_types[] = {
	ATP_ARRAY_DID, ATP_ARRAY_TID, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_CID, ATP_ARRAY_BOOL, ATP_ARRAY_TEXT,
	ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TEXT, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_HANDLE,
	ATP_ARRAY_BOOL, ATP_ARRAY_TID, ATP_ARRAY_TEXT, ATP_ARRAY_TID, ATP_ARRAY_TIMESTAMP
};
#define REPO_COLUMNS	lengthof(repo_types)

static const AtpTable repo_table = {
	"repo", repo_columns, repo_types, REPO_COLUMNS, true,
	3, {ATP_SQL_LOCK_REPOS, ATP_SQL_ADD_REPOS, ATP_SQL_SET_REPOS}
};

static void *
copy_of(Datum value, bool isnull)
{
	return isnull ? NULL : PG_DETOAST_DATUM_COPY(value);
}

/* A user may have dropped the constraint. */
static Datum
not_null(int column, const Datum *v, const bool *null)
{
	if (null[column])
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" of a row of table \"repo\" is null", repo_columns[column])));
	return v[column];
}

/* From the row's columns, whose types are right. */
static void
read_repo(RepoState *repo, const Datum *v, const bool *null)
{
	int			c = 1;

#define READ_TID(has, tid) ((has) = !null[c], (tid) = null[c] ? 0 : DatumGetAtpTid(v[c]), c++)
#define READ_REF(ref) ((ref) = copy_of(v[c], null[c]), c++)
#define READ_BOOL(flag) ((flag) = DatumGetBool(not_null(c, v, null)), c++)
	repo->found = true;
	READ_TID(repo->has_rev, repo->rev);
	READ_TID(repo->has_first, repo->first_rev);
	READ_REF(repo->commit);
	READ_REF(repo->data);
	READ_BOOL(repo->active);
	READ_REF(repo->status);
	repo->has_status = !null[c];
	repo->status_at = null[c] ? 0 : DatumGetTimestampTz(v[c]);
	c++;
	READ_REF(repo->status_endpoint);
	repo->has_status_seq = !null[c];
	repo->status_seq = null[c] ? 0 : DatumGetInt64(v[c]);
	c++;
	READ_REF(repo->host);
	READ_REF(repo->handle);
	READ_BOOL(repo->desynchronized);
	READ_TID(repo->deleted, repo->deleted_rev);
	READ_REF(repo->refill_by);
	READ_TID(repo->refilled, repo->refill_rev);
}

static void
put_repo(AtpRows *rows, const RepoState *repo)
{
	atp_put_ref(rows, repo->did);
	atp_put(rows, AtpTidGetDatum(repo->rev), !repo->has_rev);
	atp_put(rows, AtpTidGetDatum(repo->first_rev), !repo->has_first);
	atp_put_ref(rows, repo->commit);
	atp_put_ref(rows, repo->data);
	atp_put(rows, BoolGetDatum(repo->active), false);
	atp_put_ref(rows, repo->status);
	atp_put(rows, TimestampTzGetDatum(repo->status_at), !repo->has_status);
	atp_put_ref(rows, repo->status_endpoint);
	atp_put(rows, Int64GetDatum(repo->status_seq), !repo->has_status_seq);
	atp_put_ref(rows, repo->host);
	atp_put_ref(rows, repo->handle);
	atp_put(rows, BoolGetDatum(repo->desynchronized), false);
	atp_put(rows, AtpTidGetDatum(repo->deleted_rev), !repo->deleted);
	atp_put_ref(rows, repo->refill_by);
	atp_put(rows, AtpTidGetDatum(repo->refill_rev), !repo->refilled);
	atp_put(rows, TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), false);
}

static Datum
did_array(AtpRepoStates *s, bool only_missing)
{
	Datum	   *dids = palloc(sizeof(Datum) * Max(s->nrepos, 1));
	int			n = 0;

	for (int i = 0; i < s->nrepos; i++)
		if (!only_missing || !s->repos[i].found)
			dids[n++] = PointerGetDatum(s->repos[i].did);
	return atp_array(ATP_ARRAY_DID, dids, NULL, n);
}

/* Lock and read those that exist; false when some do not. */
static bool
lock_repos(AtpRepoStates *s)
{
	Datum		arg = did_array(s, false);
	uint64		n = atp_execute(ATP_SQL_LOCK_REPOS, &arg, NULL);
	bool		all = true;

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[REPO_COLUMNS];
		bool		nulls[REPO_COLUMNS];
		RepoState  *repo;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		/* a view may show anything */
		repo = nulls[0] ? NULL : repo_of(s, PG_DETOAST_DATUM(values[0]));
		if (repo == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("table \"repo\" has a repository that was not asked for")));
		read_repo(repo, values, nulls);
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < s->nrepos; i++)
		all = all && s->repos[i].found;
	return all;
}

static void
lock_or_add_repos(AtpRepoStates *s)
{
	if (!lock_repos(s))
	{
		Datum		missing = did_array(s, true);

		(void) atp_execute(ATP_SQL_ADD_REPOS, &missing, NULL);
		/* a repository that row security or a trigger hides cannot be followed */
		if (!lock_repos(s))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("rows of table \"atproto.repo\" cannot be seen or inserted by the subscription's owner")));
	}
}

/* Read those that exist; atp_repo_states_store() sees whether that was still true. */
static void
find_repos(AtpRepoStates *s)
{
	for (int i = 0; i < s->nrepos; i++)
	{
		RepoState  *repo = &s->repos[i];
		Datum		values[REPO_COLUMNS];
		bool		nulls[REPO_COLUMNS];

		if (atp_direct_find(s->direct, PointerGetDatum(repo->did), &repo->place, values, nulls))
			read_repo(repo, values, nulls);
		else
			repo->active = true;
	}
}

AtpRepoStates *
atp_repo_states_load(AtpApply *apply, int lo, int hi)
{
	AtpRepoStates *s = palloc0(sizeof(AtpRepoStates));
	const AtpEvent *events = apply->batch->events;
	EventDid   *dids = palloc(sizeof(EventDid) * (hi - lo));
	int			n = 0;

	s->apply = apply;
	s->first = lo;
	s->subscription = cstring_to_text(apply->sub->name);
	s->endpoint = cstring_to_text(apply->sub->ep->scope);
	for (int i = lo; i < hi; i++)
		if (!events[i].ignored)
			dids[n++] = (EventDid) {events[i].did, i - lo};
	if (n == 0)
		return s;
	qsort(dids, n, sizeof(EventDid), compare_event_dids);
	s->repos = palloc0(sizeof(RepoState) * n);
	s->of_event = palloc(sizeof(RepoState *) * (hi - lo));
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || compare_event_dids(&dids[i - 1], &dids[i]) != 0)
			s->repos[s->nrepos++].did = dids[i].did;
		s->of_event[dids[i].event] = &s->repos[s->nrepos - 1];
	}
	if (apply->direct)
		s->direct = atp_direct_open(&repo_table);
	if (s->direct != NULL)
		find_repos(s);
	else
		lock_or_add_repos(s);
	ATP_INJECTION_POINT("states read");
	return s;
}

void
atp_repo_states_store(AtpRepoStates *s)
{
	AtpRows    *changed = atp_rows_create(repo_types, REPO_COLUMNS, s->nrepos);
	AtpRows    *added = atp_rows_create(repo_types, REPO_COLUMNS, s->nrepos);
	ItemPointer places = palloc(sizeof(ItemPointerData) * Max(s->nrepos, 1));

	for (int i = 0; i < s->nrepos; i++)
	{
		const RepoState *repo = &s->repos[i];

		if (!repo->found)
			put_repo(added, repo);
		else if (repo->changed)
		{
			places[changed->n] = repo->place;
			put_repo(changed, repo);
		}
	}
	if (s->direct != NULL)
	{
		atp_direct_update(s->direct, places, changed);
		atp_direct_insert(s->direct, added);
		atp_direct_close(s->direct);
	}
	else if (changed->n > 0)
	{
		Datum		args[REPO_COLUMNS];

		atp_rows_bind(changed, args);
		(void) atp_execute(ATP_SQL_SET_REPOS, args, NULL);
	}
}

static bool
same_bytes(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static bool
is_deleted(const text *status)
{
	return status != NULL && VARSIZE_ANY_EXHDR(status) == 7 && memcmp(VARDATA_ANY(status), "deleted", 7) == 0;
}

bool
atp_is_deletion(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_ACCOUNT && !event->active && is_deleted(event->status);
}

AtpAgain
atp_repo_states_standing(AtpRepoStates *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	const RepoState *repo = s->of_event[index - s->first];

	if (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC)
		return ATP_AGAIN_NEW;
	if (!repo->active)
		return is_deleted(repo->status) ? ATP_AGAIN_OBSOLETE : ATP_AGAIN_INACTIVE;
	if (!repo->has_rev || event->rev > repo->rev)
		return ATP_AGAIN_NEW;
	if (event->kind == ATP_REPOS_SYNC)
		return ATP_AGAIN_OBSOLETE;
	return event->rev == repo->rev ? ATP_AGAIN_LAST : ATP_AGAIN_LATE;
}

/*
 * Is what the table says of the account newer than the event?  In one stream its
 * order tells, whatever its server's clock does; between streams there is nothing
 * but the time.  A deletion that is old must not remove what came after it.
 */
static bool
is_old_status(AtpRepoStates *s, const RepoState *repo, const AtpEvent *event, TimestampTz status_at)
{
	if (repo->status_endpoint != NULL && repo->has_status_seq && same_bytes(repo->status_endpoint, s->endpoint))
		return event->seq <= repo->status_seq;
	return repo->has_status && status_at < repo->status_at;
}

static void
take_account(AtpRepoStates *s, RepoState *repo, const AtpEvent *event, AtpVerdict *verdict)
{
	TimestampTz status_at = atp_time_of_day();

	if (event->time != 0)
		status_at = Min(status_at, event->time - ATP_UNIX_TO_POSTGRES);
	if (is_old_status(s, repo, event, status_at))
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		return;
	}
	repo->active = event->active;
	repo->status = event->status;
	repo->status_at = status_at;
	repo->has_status = true;
	repo->status_endpoint = s->endpoint;
	repo->status_seq = event->seq;
	repo->has_status_seq = true;
	repo->host = cstring_to_text(s->apply->sub->ep->host);
	repo->changed = true;
	if (!atp_is_deletion(event))
		return;
	verdict->erase = true;
	verdict->has_rev = repo->has_rev;
	verdict->rev = repo->rev;
	/* what is gone is not read again, either */
	if (repo->has_rev)
	{
		repo->deleted = true;
		repo->deleted_rev = repo->rev;
	}
	repo->refill_by = NULL;
	repo->refilled = false;
}

/*
 * Of what was before the first event nothing is known.  A #sync (F-12) names its
 * revision, but does not bring what was written there.
 */
static void
note_first(RepoState *repo, const AtpEvent *event)
{
	uint64		first = event->rev + (event->kind == ATP_REPOS_SYNC);

	repo->first_rev = repo->has_first ? Min(repo->first_rev, first) : first;
	repo->has_first = true;
}

/* Does the event come again because of atproto.refill()?  Then the refill is as far as it. */
static bool
take_again(AtpRepoStates *s, RepoState *repo, const AtpEvent *event)
{
	if (repo->refill_by == NULL || !same_bytes(repo->refill_by, s->subscription))
		return false;
	repo->changed = true;
	if (!repo->has_rev || event->rev >= repo->rev)
	{
		repo->refill_by = NULL;
		repo->refilled = false;
		if (!repo->has_rev || event->rev > repo->rev)
			return false;
		note_first(repo, event);
		return true;
	}
	if (repo->refilled && event->rev <= repo->refill_rev)
		return false;
	repo->refilled = true;
	repo->refill_rev = event->rev;
	note_first(repo, event);
	return true;
}

/* Commits were missed, and what they wrote. */
static void
note_break(AtpRepoStates *s, RepoState *repo)
{
	s->apply->skips[ATP_SKIP_BREAK]++;
	repo->changed = repo->changed || !repo->desynchronized;
	repo->desynchronized = true;
}

/*
 * F-08: a commit that does not continue what is known tells that others were
 * missed.  The tree's root decides; where one is not known, the revision.
 */
static void
check_continuity(AtpRepoStates *s, RepoState *repo, const AtpEvent *event)
{
	bool		rev_fits = event->has_since && event->since == repo->rev;
	bool		known = event->prev_data != NULL && repo->data != NULL;
	bool		data_fits = known && same_bytes(event->prev_data, repo->data);

	/* after a deletion there are no records: only a repository that begins anew fits */
	if (repo->deleted && repo->deleted_rev == repo->rev)
	{
		rev_fits = !event->has_since;
		known = data_fits = false;
	}
	if (rev_fits && (data_fits || !known))
		return;
	if (data_fits)
		s->apply->skips[ATP_SKIP_BREAK]++;
	else
		note_break(s, repo);
}

static void
take_commit(AtpRepoStates *s, RepoState *repo, const AtpEvent *event, AtpVerdict *verdict)
{
	int64	   *skips = s->apply->skips;

	verdict->again = take_again(s, repo, event);
	verdict->rows = verdict->again && event->nrows > 0;
	if (verdict->again)
		return;
	/* F-05, F-03 */
	if (!repo->active)
	{
		skips[ATP_SKIP_INACTIVE]++;
		return;
	}
	if (repo->has_rev && event->rev <= repo->rev)
	{
		skips[ATP_SKIP_OLD]++;
		/* another source had more, or a replay goes further back */
		if (event->kind == ATP_REPOS_COMMIT && repo->has_first && event->rev < repo->first_rev && !repo->deleted)
			note_break(s, repo);
		return;
	}
	if (event->kind == ATP_REPOS_COMMIT && repo->has_rev)
		check_continuity(s, repo, event);
	/* F-12: contents that did not come as commits */
	else if (event->kind == ATP_REPOS_SYNC && repo->data != NULL && !same_bytes(repo->data, event->data))
		repo->desynchronized = true;
	if (!repo->has_rev)
		note_first(repo, event);
	repo->has_rev = true;
	repo->rev = event->rev;
	repo->commit = event->commit;
	repo->data = event->data;
	repo->changed = true;
	verdict->rows = event->nrows > 0;
}

AtpVerdict
atp_repo_states_take(AtpRepoStates *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	RepoState  *repo = s->of_event[index - s->first];
	AtpVerdict	verdict = {0};

	switch (event->kind)
	{
		case ATP_REPOS_COMMIT:
		case ATP_REPOS_SYNC:
			take_commit(s, repo, event, &verdict);
			break;
		case ATP_REPOS_IDENTITY:
			if (event->handle != NULL)
				repo->handle = event->handle;
			repo->changed = true;
			break;
		case ATP_REPOS_ACCOUNT:
			take_account(s, repo, event, &verdict);
			break;
		case ATP_REPOS_INFO:
		case ATP_REPOS_UNKNOWN:
			break;
	}
	return verdict;
}
