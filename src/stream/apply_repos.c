/*
 * apply_repos.c
 *		Events into tables: repository states and records.
 *
 * The states of all repositories of the batch are locked first, in the order
 * of their DIDs, so that two consumers that carry the same repository take
 * turns and the older revision is recognised (F-03).  Records are then written
 * in their order (F-16); a key that comes twice ends one statement and begins
 * another, so that triggers see every change.
 */
#include "postgres.h"

#include "core/did.h"
#include "core/tid.h"
#include "executor/spi.h"
#include "stream/apply_repos.h"
#include "stream/keyset.h"
#include "stream/statements.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

/* Records of a deleted account that go with its event, or in one purge. */
#define PURGE_MAX	10000

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
	bool		status_changed;
	TimestampTz status_at;		/* never in the future, whatever the event says */
	struct varlena *handle;
	bool		desynchronized;
	bool		purge;			/* more records to remove than went with the event */
	bool		found;
	bool		changed;
} RepoState;

/* A range of events that is being applied. */
typedef struct Repos
{
	Apply	   *apply;
	RepoState  *repos;
	int			nrepos;
	AtpKeySet  *keys;			/* of the pending statements */
	const AtpRecordRow **puts;
	int			nputs;
	const AtpRecordRow **deletes;
	int			ndeletes;
	/* for record_event */
	const AtpRecordRow **handed;
	int64	   *handed_seqs;
	int			nhanded;
} Repos;

/* ------------------------------------------------------------------------
 * Repository states
 * ------------------------------------------------------------------------
 */
static int
compare_dids(const struct varlena *a, const struct varlena *b)
{
	return atp_did_cmp((const uint8_t *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
					   (const uint8_t *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
}

static int
compare_repos(const void *a, const void *b)
{
	return compare_dids(((const RepoState *) a)->did, ((const RepoState *) b)->did);
}

static RepoState *
repo_of(Repos *a, struct varlena *did)
{
	RepoState	key = {.did = did};

	return bsearch(&key, a->repos, a->nrepos, sizeof(RepoState), compare_repos);
}

static struct varlena *
varlena_column(HeapTuple tuple, TupleDesc desc, int column)
{
	bool		isnull;
	Datum		d = SPI_getbinval(tuple, desc, column, &isnull);

	return isnull ? NULL : (struct varlena *) PG_DETOAST_DATUM_COPY(d);
}

static bool
bool_column(HeapTuple tuple, TupleDesc desc, int column)
{
	bool		isnull;

	return DatumGetBool(SPI_getbinval(tuple, desc, column, &isnull));
}

static Datum
did_array(Repos *a, bool only_missing)
{
	Datum	   *dids = palloc(sizeof(Datum) * Max(a->nrepos, 1));
	int			n = 0;

	for (int i = 0; i < a->nrepos; i++)
		if (!only_missing || !a->repos[i].found)
			dids[n++] = PointerGetDatum(a->repos[i].did);
	return atp_array(ATP_ARRAY_DID, dids, NULL, n);
}

/* Lock and read those that exist; returns how many. */
static int
lock_repos(Repos *a)
{
	Datum		arg = did_array(a, false);
	uint64		n = atp_execute(ATP_SQL_LOCK_REPOS, &arg, NULL);
	TupleDesc	desc = SPI_tuptable->tupdesc;

	for (uint64 i = 0; i < n; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		RepoState  *repo = repo_of(a, varlena_column(tuple, desc, 1));
		bool		norev,
					never;

		if (repo == NULL)
			elog(ERROR, "a repository was found that was not asked for");
		repo->found = true;
		repo->rev = DatumGetAtpTid(SPI_getbinval(tuple, desc, 2, &norev));
		repo->has_rev = !norev;
		repo->commit = varlena_column(tuple, desc, 3);
		repo->data = varlena_column(tuple, desc, 4);
		repo->active = bool_column(tuple, desc, 5);
		repo->status = (text *) varlena_column(tuple, desc, 6);
		repo->handle = varlena_column(tuple, desc, 7);
		repo->desynchronized = bool_column(tuple, desc, 8);
		repo->status_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 9, &never));
		repo->has_status = !never;
	}
	SPI_freetuptable(SPI_tuptable);
	return n;
}

static void
load_repos(Repos *a, int lo, int hi)
{
	int			n = 0;

	a->nrepos = 0;
	a->repos = palloc0(sizeof(RepoState) * (hi - lo));
	for (int i = lo; i < hi; i++)
		if (!a->apply->batch->events[i].ignored)
			a->repos[n++].did = a->apply->batch->events[i].did;
	if (n == 0)
		return;
	qsort(a->repos, n, sizeof(RepoState), compare_repos);
	for (int i = 0; i < n; i++)
		if (a->nrepos == 0 || compare_repos(&a->repos[a->nrepos - 1], &a->repos[i]) != 0)
			a->repos[a->nrepos++].did = a->repos[i].did;
	if (lock_repos(a) < a->nrepos)
	{
		Datum		missing = did_array(a, true);

		(void) atp_execute(ATP_SQL_ADD_REPOS, &missing, NULL);
		/* a repository that row security or a trigger hides cannot be followed */
		if (lock_repos(a) < a->nrepos)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("rows of table \"atproto.repo\" cannot be seen or inserted by the subscription's owner")));
	}
}

/* Column c of row i of n, in an array that holds one column after the other. */
#define CELL(c)		((c) * max + n)

static void
store_repos(Repos *a)
{
	static const AtpArrayType types[] = {
		ATP_ARRAY_DID, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_CID, ATP_ARRAY_BOOL, ATP_ARRAY_TEXT,
		ATP_ARRAY_TIMESTAMP, ATP_ARRAY_HANDLE, ATP_ARRAY_BOOL, ATP_ARRAY_BOOL
	};
	const int	columns = lengthof(types);
	int			max = Max(a->nrepos, 1);
	Datum	   *v = palloc(sizeof(Datum) * columns * max);
	bool	   *null = palloc0(sizeof(bool) * columns * max);
	Datum		args[lengthof(types) + 1];
	int			n = 0;

	for (int i = 0; i < a->nrepos; i++)
	{
		const RepoState *repo = &a->repos[i];

		if (!repo->changed)
			continue;
		v[CELL(0)] = PointerGetDatum(repo->did);
		v[CELL(1)] = AtpTidGetDatum(repo->rev);
		null[CELL(1)] = !repo->has_rev;
		v[CELL(2)] = PointerGetDatum(repo->commit);
		null[CELL(2)] = repo->commit == NULL;
		v[CELL(3)] = PointerGetDatum(repo->data);
		null[CELL(3)] = repo->data == NULL;
		v[CELL(4)] = BoolGetDatum(repo->active);
		v[CELL(5)] = PointerGetDatum(repo->status);
		null[CELL(5)] = repo->status == NULL;
		v[CELL(6)] = TimestampTzGetDatum(repo->status_at);
		null[CELL(6)] = !repo->status_changed;
		v[CELL(7)] = PointerGetDatum(repo->handle);
		null[CELL(7)] = repo->handle == NULL;
		v[CELL(8)] = BoolGetDatum(repo->desynchronized);
		v[CELL(9)] = BoolGetDatum(repo->purge);
		n++;
	}
	if (n == 0)
		return;
	for (int c = 0; c < columns; c++)
		args[c] = atp_array(types[c], v + c * max, null + c * max, n);
	args[columns] = CStringGetTextDatum(a->apply->sub->ep->host);
	(void) atp_execute(ATP_SQL_SET_REPOS, args, NULL);
}

/* ------------------------------------------------------------------------
 * Records
 * ------------------------------------------------------------------------
 */
static bool
same_bytes(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static void
prepare_rows(Repos *a, int nrows)
{
	nrows = Max(nrows, 1);
	a->keys = atp_keyset_create(nrows);
	a->puts = palloc(sizeof(AtpRecordRow *) * nrows);
	a->deletes = palloc(sizeof(AtpRecordRow *) * nrows);
	a->handed = palloc(sizeof(AtpRecordRow *) * nrows);
	a->handed_seqs = palloc(sizeof(int64) * nrows);
	a->nputs = a->ndeletes = a->nhanded = 0;
}

static void
put_records(Repos *a)
{
	int			n = a->nputs;
	Datum	   *v = palloc(sizeof(Datum) * 7 * n);
	bool	   *null = palloc0(sizeof(bool) * 7 * n);
	Datum		args[7];
	static const AtpArrayType types[7] = {
		ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID, ATP_ARRAY_CID,
		ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA
	};

	for (int i = 0; i < n; i++)
	{
		const AtpRecordRow *row = a->puts[i];

		v[0 * n + i] = PointerGetDatum(row->did);
		v[1 * n + i] = PointerGetDatum(row->collection);
		v[2 * n + i] = PointerGetDatum(row->rkey);
		v[3 * n + i] = AtpTidGetDatum(row->rev);
		v[4 * n + i] = PointerGetDatum(row->cid);
		v[5 * n + i] = PointerGetDatum(row->value);
		null[5 * n + i] = row->value == NULL;
		v[6 * n + i] = PointerGetDatum(row->raw);
		null[6 * n + i] = row->raw == NULL;
	}
	for (int i = 0; i < 7; i++)
		args[i] = atp_array(types[i], v + i * n, null + i * n, n);
	(void) atp_execute(ATP_SQL_PUT_RECORDS, args, NULL);
	for (int i = 0; i < 7; i++)
		pfree(DatumGetPointer(args[i]));
	pfree(v);
	pfree(null);
}

static void
delete_records(Repos *a)
{
	int			n = a->ndeletes;
	Datum	   *v = palloc(sizeof(Datum) * 3 * n);
	Datum		args[3];
	static const AtpArrayType types[3] = {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY};

	for (int i = 0; i < n; i++)
	{
		v[0 * n + i] = PointerGetDatum(a->deletes[i]->did);
		v[1 * n + i] = PointerGetDatum(a->deletes[i]->collection);
		v[2 * n + i] = PointerGetDatum(a->deletes[i]->rkey);
	}
	for (int i = 0; i < 3; i++)
		args[i] = atp_array(types[i], v + i * n, NULL, n);
	(void) atp_execute(ATP_SQL_DELETE_RECORDS, args, NULL);
}

/* Each operation as a row of record_event (AtpEvents). */
static void
hand_records(Repos *a)
{
	static const char *const actions[] = {"create", "update", "delete"};
	static const AtpArrayType types[] = {
		ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID,
		ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA
	};
	const int	columns = lengthof(types);
	int			max = a->nhanded;
	Datum	   *v = palloc(sizeof(Datum) * columns * max);
	bool	   *null = palloc0(sizeof(bool) * columns * max);
	Datum		args[lengthof(types) + 1];

	for (int n = 0; n < max; n++)
	{
		const AtpRecordRow *row = a->handed[n];

		v[CELL(0)] = Int64GetDatum(a->handed_seqs[n]);
		v[CELL(1)] = CStringGetTextDatum(actions[row->action]);
		v[CELL(2)] = PointerGetDatum(row->did);
		v[CELL(3)] = PointerGetDatum(row->collection);
		v[CELL(4)] = PointerGetDatum(row->rkey);
		v[CELL(5)] = AtpTidGetDatum(row->rev);
		v[CELL(6)] = PointerGetDatum(row->cid);
		null[CELL(6)] = row->cid == NULL;
		v[CELL(7)] = PointerGetDatum(row->value);
		null[CELL(7)] = row->value == NULL;
		v[CELL(8)] = PointerGetDatum(row->raw);
		null[CELL(8)] = row->raw == NULL;
	}
	args[0] = CStringGetTextDatum(a->apply->sub->name);
	for (int c = 0; c < columns; c++)
		args[c + 1] = atp_array(types[c], v + c * max, null + c * max, max);
	if (a->apply->sub->settings.events == ATP_EVENTS_HAND)
		atp_hand_over(args);
	else
		(void) atp_execute(ATP_SQL_ADD_EVENTS, args, NULL);
}

static void
flush_rows(Repos *a)
{
	if (a->nputs > 0)
		put_records(a);
	if (a->ndeletes > 0)
		delete_records(a);
	if (a->nhanded > 0)
		hand_records(a);
	a->nputs = a->ndeletes = a->nhanded = 0;
	atp_keyset_clear(a->keys);
}

static void
queue_row(Repos *a, const AtpRecordRow *row, int64 seq)
{
	AtpKey		key = {{row->did, row->collection, row->rkey}};

	if (!atp_keyset_add(a->keys, key))
	{
		flush_rows(a);
		(void) atp_keyset_add(a->keys, key);
	}
	if (a->apply->sub->settings.keep_records)
	{
		if (row->action == ATP_DELETE)
			a->deletes[a->ndeletes++] = row;
		else
			a->puts[a->nputs++] = row;
	}
	if (a->apply->sub->settings.events != ATP_EVENTS_NONE)
	{
		a->handed_seqs[a->nhanded] = seq;
		a->handed[a->nhanded++] = row;
	}
	a->apply->rows++;
}

/* ------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------
 */

/* F-15: the account is gone for good. */
static bool
is_deletion(const AtpEvent *event)
{
	return event->kind == ATP_MSG_ACCOUNT && !event->active && event->status != NULL &&
		VARSIZE_ANY_EXHDR(event->status) == 7 &&
		memcmp(VARDATA_ANY(event->status), "deleted", 7) == 0;
}

/*
 * Move the repository's state.  True when the event's rows are to be applied;
 * *erase when all records of the repository are to go.
 */
static bool
take_event(Apply *a, const AtpEvent *event, RepoState *repo, bool *erase)
{
	TimestampTz status_at;

	*erase = false;
	switch (event->kind)
	{
		case ATP_MSG_COMMIT:
		case ATP_MSG_SYNC:
			/* F-05, F-03, F-12 */
			if (!repo->active)
			{
				a->skips[ATP_SKIP_INACTIVE]++;
				return false;
			}
			if (repo->has_rev && event->rev <= repo->rev)
			{
				a->skips[ATP_SKIP_OLD]++;
				return false;
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
				return false;
			}
			repo->active = event->active;
			repo->status = event->status;
			repo->status_at = status_at;
			repo->has_status = repo->status_changed = true;
			*erase = is_deletion(event);
			break;
		case ATP_MSG_INFO:
		case ATP_MSG_UNKNOWN:
			return false;
	}
	repo->changed = true;
	return event->nrows > 0;
}

/* The account was deleted: its records go, the rest of them later (F-15). */
static void
erase_repo(Apply *apply, const AtpEvent *event, RepoState *repo)
{
	Datum		args[2] = {PointerGetDatum(event->did), Int64GetDatum(PURGE_MAX)};

	repo->purge = repo->has_rev && atp_execute(ATP_SQL_ERASE_RECORDS, args, NULL) == PURGE_MAX;
	apply->batch->purge |= repo->purge;
}

static Repos *
begin_range(Apply *apply, int lo, int hi)
{
	Repos	   *a = palloc0(sizeof(Repos));
	int			nrows = 0;

	a->apply = apply;
	for (int i = lo; i < hi; i++)
		nrows += apply->batch->events[i].nrows;
	load_repos(a, lo, hi);
	prepare_rows(a, nrows);
	return a;
}

void
atp_apply_repos(Apply *apply, int lo, int hi)
{
	AtpBatch   *batch = apply->batch;
	Repos	   *a = begin_range(apply, lo, hi);

	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &batch->events[i];
		RepoState  *repo;
		bool		erase;

		if (event->ignored)
			continue;
		repo = repo_of(a, event->did);
		if (take_event(apply, event, repo, &erase))
			for (int r = 0; r < event->nrows; r++)
				queue_row(a, &batch->rows[event->first_row + r].record, event->seq);
		if (erase)
		{
			flush_rows(a);
			erase_repo(apply, event, repo);
		}
	}
	flush_rows(a);
	store_repos(a);
}

bool
atp_accepts_repos(Apply *apply, int index)
{
	const AtpEvent *event = &apply->batch->events[index];
	Repos	   *a;
	bool		erase;

	if (event->ignored)
		return false;
	a = begin_range(apply, index, index + 1);
	return take_event(apply, event, repo_of(a, event->did), &erase);
}

void
atp_apply_repos_row(Apply *apply, int row, int event)
{
	Repos		a = {.apply = apply};

	prepare_rows(&a, 1);
	queue_row(&a, &apply->batch->rows[row].record, apply->batch->events[event].seq);
	flush_rows(&a);
}

void
atp_apply_repos_rest(Apply *apply, int index, int unused)
{
	const AtpEvent *event = &apply->batch->events[index];
	RepoState  *repo;
	Repos	   *a;
	bool		erase;

	if (event->ignored)
		return;
	a = begin_range(apply, index, index + 1);
	repo = repo_of(a, event->did);
	(void) take_event(apply, event, repo, &erase);
	/* what cannot be removed must not keep the account's new state out: later */
	repo->purge = erase && repo->has_rev;
	apply->batch->purge |= repo->purge;
	store_repos(a);
}

/*
 * A record that is removed needs no letter any more about what could not be
 * written before: tried again, it would come back.
 */
void
atp_settle_repos(Apply *a)
{
	AtpBatch   *batch = a->batch;
	int			max = batch->nrows + batch->nevents;
	Datum	   *v = palloc(sizeof(Datum) * 3 * Max(max, 1));
	bool	   *null = palloc0(sizeof(bool) * 3 * Max(max, 1));
	Datum		args[4];
	int			n = 0;

	for (int i = 0; i < batch->nevents; i++)
	{
		const AtpEvent *event = &batch->events[i];

		if (event->ignored)
			continue;
		for (int r = 0; r <= event->nrows; r++)
		{
			const AtpRow *row = &batch->rows[event->first_row + r];

			if (r == event->nrows ? !is_deletion(event) : row->record.action != ATP_DELETE)
				continue;
			v[CELL(0)] = PointerGetDatum(event->did);
			null[CELL(1)] = r == event->nrows;
			if (!null[CELL(1)])
				v[CELL(1)] = PointerGetDatum(cstring_to_text_with_len(row->path.ptr, row->path.len));
			v[CELL(2)] = Int64GetDatum(event->seq);
			n++;
		}
	}
	if (n == 0)
		return;
	args[0] = CStringGetTextDatum(a->sub->name);
	args[1] = atp_array(ATP_ARRAY_DID, v, NULL, n);
	args[2] = atp_array(ATP_ARRAY_TEXT, v + max, null + max, n);
	args[3] = atp_array(ATP_ARRAY_INT8, v + 2 * max, NULL, n);
	(void) atp_execute(ATP_SQL_FORGET_LETTERS, args, NULL);
}

bool
atp_repos_row_is_newer(const AtpRow *row)
{
	Datum		did = PointerGetDatum(row->record.did);
	Datum		collection = PointerGetDatum(row->record.collection);
	Datum		rkey = PointerGetDatum(row->record.rkey);
	Datum		rev = AtpTidGetDatum(row->record.rev);
	Datum		args[4] = {
		atp_array(ATP_ARRAY_DID, &did, NULL, 1), atp_array(ATP_ARRAY_NSID, &collection, NULL, 1),
		atp_array(ATP_ARRAY_RKEY, &rkey, NULL, 1), atp_array(ATP_ARRAY_TID, &rev, NULL, 1)
	};

	return atp_execute(ATP_SQL_NEWER_RECORD, args, NULL) > 0;
}

bool
atp_purge_repos(void)
{
	Datum		args[1] = {Int64GetDatum(PURGE_MAX)};

	if (atp_execute(ATP_SQL_PURGE_RECORDS, args, NULL) == PURGE_MAX)
		return true;
	(void) atp_execute(ATP_SQL_PURGE_DONE, NULL, NULL);
	return false;
}
