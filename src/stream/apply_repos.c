/*
 * apply_repos.c
 *		Events into tables: repository states and records.
 *
 * The states of all repositories of the batch are written first, in the order
 * of their DIDs, so that two consumers that carry the same repository take
 * turns and the older revision is recognised (F-03).  Records are then written
 * in their order (F-16); a key that comes twice ends one statement and begins
 * another, so that triggers see every change.  Where direct.c can do it, states
 * are not locked when they are read, and new records go without a statement, by
 * key.
 */
#include "postgres.h"

#include "core/did.h"
#include "core/recordkey.h"
#include "core/tid.h"
#include "executor/spi.h"
#include "stream/apply_repos.h"
#include "stream/direct.h"
#include "stream/keyset.h"
#include "stream/rows.h"
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
	TimestampTz status_at;		/* never in the future, whatever the event says */
	text	   *host;
	struct varlena *handle;
	bool		desynchronized;
	bool		found;
	ItemPointerData place;		/* when it was read directly */
	bool		changed;
} RepoState;

/* What an event does besides changing the state. */
typedef struct Verdict
{
	bool		rows;			/* its rows are applied */
	bool		erase;			/* all records of the repository go */
	uint64		rev;			/* the repository's, then */
} Verdict;

/* A range of events that is being applied. */
typedef struct Repos
{
	Apply	   *apply;
	RepoState  *repos;			/* by DID */
	int			nrepos;
	RepoState **of_event;		/* from the first event of the range on; not set when it is ignored */
	AtpDirect  *direct;			/* the table repo; NULL: with statements */
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

typedef struct EventDid
{
	struct varlena *did;
	int			event;
} EventDid;

static int
compare_event_dids(const void *a, const void *b)
{
	return compare_dids(((const EventDid *) a)->did, ((const EventDid *) b)->did);
}

static RepoState *
repo_of(Repos *a, struct varlena *did)
{
	RepoState	key = {.did = did};

	return bsearch(&key, a->repos, a->nrepos, sizeof(RepoState), compare_repos);
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

	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[REPO_COLUMNS];
		bool		nulls[REPO_COLUMNS];
		RepoState  *repo;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, values, nulls);
		repo = repo_of(a, PG_DETOAST_DATUM(values[0]));
		if (repo == NULL)
			elog(ERROR, "a repository was found that was not asked for");
		read_repo(repo, values, nulls);
	}
	SPI_freetuptable(SPI_tuptable);
	return n;
}

static void
lock_or_add_repos(Repos *a)
{
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

/* Read those that exist; store_repos() sees whether that was still true. */
static void
find_repos(Repos *a)
{
	for (int i = 0; i < a->nrepos; i++)
	{
		RepoState  *repo = &a->repos[i];
		Datum		values[REPO_COLUMNS];
		bool		nulls[REPO_COLUMNS];

		if (atp_direct_find(a->direct, PointerGetDatum(repo->did), &repo->place, values, nulls))
			read_repo(repo, values, nulls);
		else
			repo->active = true;
	}
}

static void
load_repos(Repos *a, int lo, int hi)
{
	const AtpEvent *events = a->apply->batch->events;
	EventDid   *dids = palloc(sizeof(EventDid) * (hi - lo));
	int			n = 0;

	for (int i = lo; i < hi; i++)
		if (!events[i].ignored)
			dids[n++] = (EventDid) {events[i].did, i - lo};
	if (n == 0)
		return;
	qsort(dids, n, sizeof(EventDid), compare_event_dids);
	a->repos = palloc0(sizeof(RepoState) * n);
	a->of_event = palloc(sizeof(RepoState *) * (hi - lo));
	for (int i = 0; i < n; i++)
	{
		if (i == 0 || compare_event_dids(&dids[i - 1], &dids[i]) != 0)
			a->repos[a->nrepos++].did = dids[i].did;
		a->of_event[dids[i].event] = &a->repos[a->nrepos - 1];
	}
	if (a->apply->direct)
		a->direct = atp_direct_open(&repo_table);
	if (a->direct != NULL)
		find_repos(a);
	else
		lock_or_add_repos(a);
}

static void
store_repos(Repos *a)
{
	AtpRows    *changed = atp_rows_create(repo_types, REPO_COLUMNS, a->nrepos);
	AtpRows    *added = atp_rows_create(repo_types, REPO_COLUMNS, a->nrepos);
	ItemPointer places = palloc(sizeof(ItemPointerData) * Max(a->nrepos, 1));

	for (int i = 0; i < a->nrepos; i++)
	{
		const RepoState *repo = &a->repos[i];

		if (!repo->found)
			put_repo(added, repo);
		else if (repo->changed)
		{
			places[changed->n] = repo->place;
			put_repo(changed, repo);
		}
	}
	if (a->direct != NULL)
	{
		atp_direct_update(a->direct, places, changed);
		atp_direct_insert(a->direct, added);
		atp_direct_close(a->direct);
	}
	else if (changed->n > 0)
	{
		Datum		args[REPO_COLUMNS];

		atp_rows_bind(changed, args);
		(void) atp_execute(ATP_SQL_SET_REPOS, args, NULL);
	}
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

static const char *const record_columns[] = {"did", "collection", "rkey", "rev", "cid", "value", "raw"};
static const AtpArrayType record_types[] = {
	ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA
};
static const AtpTable record_table = {
	"record", record_columns, record_types, lengthof(record_types), false, 1, {ATP_SQL_PUT_RECORDS}
};

static AtpRows *
record_rows(const AtpRecordRow **records, int n)
{
	AtpRows    *rows = atp_rows_create(record_types, lengthof(record_types), n);

	for (int i = 0; i < n; i++)
	{
		const AtpRecordRow *row = records[i];

		atp_put_ref(rows, row->did);
		atp_put_ref(rows, row->collection);
		atp_put_ref(rows, row->rkey);
		atp_put(rows, AtpTidGetDatum(row->rev), false);
		atp_put_ref(rows, row->cid);
		atp_put_ref(rows, row->value);
		atp_put_ref(rows, row->raw);
	}
	return rows;
}

/* The primary key's order: neighbours share pages. */
static int
compare_records(const void *a, const void *b)
{
	const AtpRecordRow *x = *(const AtpRecordRow *const *) a;
	const AtpRecordRow *y = *(const AtpRecordRow *const *) b;
	int			cmp = compare_dids(x->did, y->did);

	if (cmp == 0)
		cmp = memcmp(VARDATA_ANY(x->collection), VARDATA_ANY(y->collection),
					 Min(VARSIZE_ANY_EXHDR(x->collection), VARSIZE_ANY_EXHDR(y->collection)));
	if (cmp == 0)
		cmp = (int) VARSIZE_ANY_EXHDR(x->collection) - (int) VARSIZE_ANY_EXHDR(y->collection);
	if (cmp == 0)
		cmp = atp_rkey_cmp((const uint8_t *) VARDATA_ANY(x->rkey), VARSIZE_ANY_EXHDR(x->rkey),
						   (const uint8_t *) VARDATA_ANY(y->rkey), VARSIZE_ANY_EXHDR(y->rkey));
	return cmp;
}

/* New records directly, where the table allows it; what is left in puts is for the statement. */
static void
create_records(Repos *a)
{
	AtpDirect  *direct = a->apply->direct ? atp_direct_open(&record_table) : NULL;
	const AtpRecordRow **creates;
	int			ncreates = 0,
				rest = 0;

	if (direct == NULL)
		return;
	creates = palloc(sizeof(AtpRecordRow *) * a->nputs);
	for (int i = 0; i < a->nputs; i++)
		if (a->puts[i]->action == ATP_CREATE)
			creates[ncreates++] = a->puts[i];
		else
			a->puts[rest++] = a->puts[i];
	a->nputs = rest;
	qsort(creates, ncreates, sizeof(AtpRecordRow *), compare_records);
	atp_direct_insert(direct, record_rows(creates, ncreates));
	atp_direct_close(direct);
}

static void
put_records(Repos *a)
{
	Datum		args[lengthof(record_types)];

	create_records(a);
	if (a->nputs == 0)
		return;
	atp_rows_bind(record_rows(a->puts, a->nputs), args);
	(void) atp_execute(ATP_SQL_PUT_RECORDS, args, NULL);
}

static void
delete_records(Repos *a)
{
	static const AtpArrayType types[] = {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY};
	AtpRows    *rows = atp_rows_create(types, lengthof(types), a->ndeletes);
	Datum		args[lengthof(types)];

	for (int i = 0; i < a->ndeletes; i++)
	{
		atp_put_ref(rows, a->deletes[i]->did);
		atp_put_ref(rows, a->deletes[i]->collection);
		atp_put_ref(rows, a->deletes[i]->rkey);
	}
	atp_rows_bind(rows, args);
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
	AtpRows    *rows = atp_rows_create(types, lengthof(types), a->nhanded);
	Datum		args[lengthof(types) + 1];

	for (int i = 0; i < a->nhanded; i++)
	{
		const AtpRecordRow *row = a->handed[i];

		atp_put(rows, Int64GetDatum(a->handed_seqs[i]), false);
		atp_put(rows, CStringGetTextDatum(actions[row->action]), false);
		atp_put_ref(rows, row->did);
		atp_put_ref(rows, row->collection);
		atp_put_ref(rows, row->rkey);
		atp_put(rows, AtpTidGetDatum(row->rev), false);
		atp_put_ref(rows, row->cid);
		atp_put_ref(rows, row->value);
		atp_put_ref(rows, row->raw);
	}
	args[0] = CStringGetTextDatum(a->apply->sub->name);
	atp_rows_bind(rows, args + 1);
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

/* Move the repository's state. */
static Verdict
take_event(Apply *a, const AtpEvent *event, RepoState *repo)
{
	Verdict		verdict = {.rev = repo->rev};
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
			verdict.erase = repo->has_rev && is_deletion(event);
			break;
		case ATP_MSG_INFO:
		case ATP_MSG_UNKNOWN:
			return verdict;
	}
	repo->changed = true;
	verdict.rows = event->nrows > 0;
	return verdict;
}

/* More records to remove than go with the event: see atp_purge_repos(). */
static void
leave_to_purge(Apply *apply, struct varlena *did, uint64 rev)
{
	Datum		dids[1] = {PointerGetDatum(did)};
	Datum		revs[1] = {AtpTidGetDatum(rev)};
	Datum		args[2] = {atp_array(ATP_ARRAY_DID, dids, NULL, 1), atp_array(ATP_ARRAY_TID, revs, NULL, 1)};

	(void) atp_execute(ATP_SQL_LEAVE_TO_PURGE, args, NULL);
	apply->batch->purge = true;
}

/* The account was deleted: its records go, the rest of them later (F-15). */
static void
erase_repo(Apply *apply, struct varlena *did, uint64 rev)
{
	Datum		args[2] = {PointerGetDatum(did), Int64GetDatum(PURGE_MAX)};

	if (atp_execute(ATP_SQL_ERASE_RECORDS, args, NULL) == PURGE_MAX)
		leave_to_purge(apply, did, rev);
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
	Verdict    *verdicts = palloc0(sizeof(Verdict) * Max(hi - lo, 1));

	for (int i = lo; i < hi; i++)
		if (!batch->events[i].ignored)
			verdicts[i - lo] = take_event(apply, &batch->events[i], a->of_event[i - lo]);
	/* before the rows: who gets the repositories' rows first may write the records */
	store_repos(a);
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &batch->events[i];
		Verdict    *verdict = &verdicts[i - lo];

		for (int r = 0; verdict->rows && r < event->nrows; r++)
			queue_row(a, &batch->rows[event->first_row + r].record, event->seq);
		if (verdict->erase)
		{
			flush_rows(a);
			erase_repo(apply, event->did, verdict->rev);
		}
	}
	flush_rows(a);
}

bool
atp_accepts_repos(Apply *apply, int index)
{
	const AtpEvent *event = &apply->batch->events[index];
	Repos	   *a;

	if (event->ignored)
		return false;
	a = begin_range(apply, index, index + 1);
	return take_event(apply, event, a->of_event[0]).rows;
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
	Verdict		verdict;
	Repos	   *a;

	if (event->ignored)
		return;
	a = begin_range(apply, index, index + 1);
	verdict = take_event(apply, event, a->of_event[0]);
	store_repos(a);
	/* what cannot be removed must not keep the account's new state out: later */
	if (verdict.erase)
		leave_to_purge(apply, event->did, verdict.rev);
}

/*
 * A record that is removed needs no letter any more about what could not be
 * written before: tried again, it would come back.
 */
void
atp_settle_repos(Apply *a)
{
	static const AtpArrayType types[] = {ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_INT8};
	AtpBatch   *batch = a->batch;
	AtpRows    *rows = atp_rows_create(types, lengthof(types), batch->nrows + batch->nevents);
	Datum		args[lengthof(types) + 1];

	for (int i = 0; i < batch->nevents; i++)
	{
		const AtpEvent *event = &batch->events[i];

		if (event->ignored)
			continue;
		for (int r = 0; r <= event->nrows; r++)
		{
			const AtpRow *row = &batch->rows[event->first_row + r];
			bool		all = r == event->nrows;

			if (all ? !is_deletion(event) : row->record.action != ATP_DELETE)
				continue;
			atp_put_ref(rows, event->did);
			atp_put_ref(rows, all ? NULL : cstring_to_text_with_len(row->path.ptr, row->path.len));
			atp_put(rows, Int64GetDatum(event->seq), false);
		}
	}
	if (rows->n == 0)
		return;
	args[0] = CStringGetTextDatum(a->sub->name);
	atp_rows_bind(rows, args + 1);
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
