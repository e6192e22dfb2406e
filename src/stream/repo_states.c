/*
 * repo_states.c
 *		States of repositories: read, moved by events, written.
 *
 * They are read and written in the order of their DIDs.  Statements lock the rows
 * when they read them; where direct.c can do it, the rows are only locked when
 * they are written, which fails if somebody else was faster.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "core/did.h"
#include "executor/spi.h"
#include "stream/direct.h"
#include "stream/injection.h"
#include "stream/repo_states.h"
#include "stream/rows.h"
#include "stream/statements.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* State of a repository, as its row has it and the events change it. */
typedef struct RepoState
{
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	struct varlena *commit;
	struct varlena *data;
	bool		active;
	text	   *status;
	bool		has_status;		/* an #account event was seen */
	TimestampTz status_at;		/* never in the future, whatever the event says */
	text	   *host;
	struct varlena *handle;
	bool		desynchronized;
	bool		found;
	ItemPointerData place;		/* when it was read directly */
	bool		changed;
} RepoState;

struct AtpRepoStates
{
	Apply	   *apply;
	int			first;			/* event */
	RepoState **of_event;		/* from the first one on; not set when it is ignored */
	RepoState  *repos;			/* by DID */
	int			nrepos;
	AtpDirect  *direct;			/* the table repo; NULL: with statements */
};

int
atp_compare_dids(const struct varlena *a, const struct varlena *b)
{
	return atp_did_cmp((const uint8_t *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
					   (const uint8_t *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
}

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
	"did", "rev", "commit", "data", "active", "status", "status_at", "host", "handle", "desynchronized", "updated_at"
};
static const AtpArrayType repo_types[] = {
	ATP_ARRAY_DID, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_CID, ATP_ARRAY_BOOL, ATP_ARRAY_TEXT,
	ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TEXT, ATP_ARRAY_HANDLE, ATP_ARRAY_BOOL, ATP_ARRAY_TIMESTAMP
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

/* From the row's columns. */
static void
read_repo(RepoState *repo, const Datum *v, const bool *null)
{
	repo->found = true;
	repo->has_rev = !null[1];
	repo->rev = DatumGetAtpTid(v[1]);
	repo->commit = copy_of(v[2], null[2]);
	repo->data = copy_of(v[3], null[3]);
	repo->active = DatumGetBool(v[4]);
	repo->status = copy_of(v[5], null[5]);
	repo->has_status = !null[6];
	repo->status_at = DatumGetTimestampTz(v[6]);
	repo->host = copy_of(v[7], null[7]);
	repo->handle = copy_of(v[8], null[8]);
	repo->desynchronized = DatumGetBool(v[9]);
}

static void
put_repo(AtpRows *rows, const RepoState *repo)
{
	atp_put_ref(rows, repo->did);
	atp_put(rows, AtpTidGetDatum(repo->rev), !repo->has_rev);
	atp_put_ref(rows, repo->commit);
	atp_put_ref(rows, repo->data);
	atp_put(rows, BoolGetDatum(repo->active), false);
	atp_put_ref(rows, repo->status);
	atp_put(rows, TimestampTzGetDatum(repo->status_at), !repo->has_status);
	atp_put_ref(rows, repo->host);
	atp_put_ref(rows, repo->handle);
	atp_put(rows, BoolGetDatum(repo->desynchronized), false);
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

/* Lock and read those that exist; returns how many. */
static int
lock_repos(AtpRepoStates *s)
{
	Datum		arg = did_array(s, false);
	uint64		n = atp_execute(ATP_SQL_LOCK_REPOS, &arg, NULL);

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[REPO_COLUMNS];
		bool		nulls[REPO_COLUMNS];
		RepoState  *repo;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		repo = repo_of(s, PG_DETOAST_DATUM(values[0]));
		if (repo == NULL)
			elog(ERROR, "a repository was found that was not asked for");
		read_repo(repo, values, nulls);
	}
	SPI_freetuptable(SPI_tuptable);
	return n;
}

static void
lock_or_add_repos(AtpRepoStates *s)
{
	if (lock_repos(s) < s->nrepos)
	{
		Datum		missing = did_array(s, true);

		(void) atp_execute(ATP_SQL_ADD_REPOS, &missing, NULL);
		/* a repository that row security or a trigger hides cannot be followed */
		if (lock_repos(s) < s->nrepos)
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
atp_repo_states_load(Apply *apply, int lo, int hi)
{
	AtpRepoStates *s = palloc0(sizeof(AtpRepoStates));
	const AtpEvent *events = apply->batch->events;
	EventDid   *dids = palloc(sizeof(EventDid) * (hi - lo));
	int			n = 0;

	s->apply = apply;
	s->first = lo;
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
	return event->kind == ATP_MSG_ACCOUNT && !event->active && is_deleted(event->status);
}

AtpAgain
atp_repo_states_standing(AtpRepoStates *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	const RepoState *repo = s->of_event[index - s->first];

	if (event->kind != ATP_MSG_COMMIT && event->kind != ATP_MSG_SYNC)
		return ATP_AGAIN_NEW;
	if (!repo->active)
		return is_deleted(repo->status) ? ATP_AGAIN_OBSOLETE : ATP_AGAIN_INACTIVE;
	if (!repo->has_rev || event->rev > repo->rev)
		return ATP_AGAIN_NEW;
	if (event->kind == ATP_MSG_SYNC)
		return ATP_AGAIN_OBSOLETE;
	return event->rev == repo->rev ? ATP_AGAIN_LAST : ATP_AGAIN_LATE;
}

AtpVerdict
atp_repo_states_take(AtpRepoStates *s, int index)
{
	Apply	   *a = s->apply;
	const AtpEvent *event = &a->batch->events[index];
	RepoState  *repo = s->of_event[index - s->first];
	AtpVerdict	verdict = {.rev = repo->rev};
	TimestampTz status_at;

	switch (event->kind)
	{
		case ATP_MSG_COMMIT:
		case ATP_MSG_SYNC:
			/* F-05, F-03, F-12 */
			if (!repo->active)
			{
				a->skips[ATP_SKIP_INACTIVE]++;
				return verdict;
			}
			if (repo->has_rev && event->rev <= repo->rev)
			{
				a->skips[ATP_SKIP_OLD]++;
				return verdict;
			}
			/* F-12: contents that did not come as commits */
			if (event->kind == ATP_MSG_SYNC && repo->data != NULL && !same_bytes(repo->data, event->data))
				repo->desynchronized = true;
			repo->has_rev = true;
			repo->rev = event->rev;
			repo->commit = event->commit;
			repo->data = event->data;
			break;
		case ATP_MSG_IDENTITY:
			if (event->handle != NULL)
				repo->handle = event->handle;
			break;
		case ATP_MSG_ACCOUNT:
			/*
			 * A replay, or a source that lags behind: a deletion must not
			 * remove what came after it.
			 */
			status_at = GetCurrentTimestamp();
			if (event->time != 0)
				status_at = Min(status_at, event->time - ATP_UNIX_TO_POSTGRES);
			if (repo->has_status && status_at < repo->status_at)
			{
				a->skips[ATP_SKIP_OLD]++;
				return verdict;
			}
			repo->active = event->active;
			repo->status = event->status;
			repo->status_at = status_at;
			repo->has_status = true;
			repo->host = cstring_to_text(a->sub->ep->host);
			verdict.erase = repo->has_rev && atp_is_deletion(event);
			break;
		case ATP_MSG_INFO:
		case ATP_MSG_UNKNOWN:
			return verdict;
	}
	repo->changed = true;
	verdict.rows = event->nrows > 0;
	return verdict;
}

