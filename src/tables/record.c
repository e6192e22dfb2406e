/*
 * record.c
 *		Records, and what events of subscribeRepos do to the tables.
 *
 * The states of all repositories of the batch (repo.c) are written first,
 * in the order of their DIDs, so that two consumers that carry the same repository
 * take turns and the older revision is recognised (F-03).  Records are then
 * written in their order (F-16); a key that comes twice ends one statement and
 * begins another, so that triggers see every change.  Where direct.c can do it,
 * new records go without a statement, by key.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "core/recordkey.h"
#include "injection.h"
#include "tables/direct.h"
#include "tables/keyset.h"
#include "tables/repo.h"
#include "tables/repo_again.h"
#include "tables/rows.h"
#include "tables/statements.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* Records of a deleted account that go with its event, or in one purge. */
#define PURGE_MAX	10000

/* Values of rows that go to the tables in one step, which copies them several times. */
#define FLUSH_BYTES	(4 * 1024 * 1024)

/* An operation as record_event has it: with what it replaces or removes. */
typedef struct AtpOperation
{
	const AtpRecordRow *row;
	int64		seq;
	bool		again;			/* of an event that is read again */
	bool		found;			/* there is such a record ... */
	uint64		old_rev;
	struct varlena *old_cid;
	struct varlena *old_value;	/* ... as it lies in the table; NULL when jsonb cannot hold it */
} AtpOperation;

/* A range of events that is being applied. */
typedef struct Repos
{
	AtpApply	   *apply;
	AtpRepoStates *states;
	AtpKeySet  *keys;			/* of the pending statements */
	const AtpRecordRow **puts;
	int			nputs;
	const AtpRecordRow **deletes;
	int			ndeletes;
	AtpOperation *operations;	/* for record_event */
	int			noperations;
	Size		bytes;			/* of all those rows' values */
} Repos;

/* ------------------------------------------------------------------------
 * Records
 * ------------------------------------------------------------------------
 */
static void
prepare_rows(Repos *a, int nrows)
{
	nrows = Max(nrows, 1);
	a->keys = atp_keyset_create(nrows);
	a->puts = palloc(sizeof(AtpRecordRow *) * nrows);
	a->deletes = palloc(sizeof(AtpRecordRow *) * nrows);
	a->operations = palloc(sizeof(AtpOperation) * nrows);
	a->nputs = a->ndeletes = a->noperations = 0;
}

static const char *const record_columns[] = {"did", "collection", "rkey", "rev", "cid", "value", "raw"};
static const AtpArrayType record_types[] = {
	ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA
};
static const AtpTable record_table = {
	"record", record_columns, record_types, lengthof(record_types), false, 1, {ATP_SQL_PUT_RECORDS}
};

/* The columns of record_types, with which those of record_event end, too. */
static void
put_record(AtpRows *rows, const AtpRecordRow *row)
{
	atp_put_ref(rows, row->did);
	atp_put_ref(rows, row->collection);
	atp_put_ref(rows, row->rkey);
	atp_put(rows, AtpTidGetDatum(row->rev), false);
	atp_put_ref(rows, row->cid);
	atp_put_ref(rows, row->value);
	atp_put_ref(rows, row->raw);
}

static AtpRows *
record_rows(const AtpRecordRow **records, int n)
{
	AtpRows    *rows = atp_rows_create(record_types, lengthof(record_types), n);

	for (int i = 0; i < n; i++)
		put_record(rows, records[i]);
	return rows;
}

/* The primary key's order: neighbours share pages. */
static int
compare_records(const void *a, const void *b)
{
	const AtpRecordRow *x = *(const AtpRecordRow *const *) a;
	const AtpRecordRow *y = *(const AtpRecordRow *const *) b;
	int			cmp = atp_compare_dids(x->did, y->did);

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

/*
 * New records directly, where the table allows it; what is left in puts is for the
 * statement.  False: all are left.
 */
static bool
create_records(Repos *a)
{
	AtpDirect  *direct = a->apply->direct ? atp_direct_open(&record_table) : NULL;
	const AtpRecordRow **creates;
	int			ncreates = 0,
				rest = 0;

	if (direct == NULL)
		return false;
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
	return true;
}

static void
put_records(Repos *a)
{
	Datum		args[lengthof(record_types)];

	atp_rows_bind(record_rows(a->puts, a->nputs), args);
	(void) atp_execute(a->apply->again ? ATP_SQL_PUT_OLDER_RECORDS : ATP_SQL_PUT_RECORDS, args, NULL);
}

static void
delete_records(Repos *a)
{
	static const AtpArrayType types[] = {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID};
	AtpRows    *rows = atp_rows_create(types, lengthof(types), a->ndeletes);
	Datum		args[lengthof(types)];

	for (int i = 0; i < a->ndeletes; i++)
	{
		atp_put_ref(rows, a->deletes[i]->did);
		atp_put_ref(rows, a->deletes[i]->collection);
		atp_put_ref(rows, a->deletes[i]->rkey);
		atp_put(rows, AtpTidGetDatum(a->deletes[i]->rev), false);
	}
	atp_rows_bind(rows, args);
	a->apply->idle += a->ndeletes -
		(int64) atp_execute(a->apply->again ? ATP_SQL_DELETE_OLDER_RECORDS : ATP_SQL_DELETE_RECORDS, args, NULL);
}

/* What the operations will replace or remove; created: of those that create, it is known. */
static void
find_old_records(Repos *a, bool created)
{
	static const AtpArrayType types[] = {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_INT4};
	AtpRows    *rows = atp_rows_create(types, lengthof(types), a->noperations);
	Datum		args[lengthof(types)];
	uint64		n;

	for (int i = 0; i < a->noperations; i++)
	{
		const AtpRecordRow *row = a->operations[i].row;

		if (created && row->action == ATP_CREATE)
			continue;
		atp_put_ref(rows, row->did);
		atp_put_ref(rows, row->collection);
		atp_put_ref(rows, row->rkey);
		atp_put(rows, Int32GetDatum(i), false);
	}
	if (rows->n == 0)
		return;
	atp_rows_bind(rows, args);
	n = atp_execute(ATP_SQL_OLD_RECORDS, args, NULL);
	for (uint64 i = 0; i < n; i++)
	{
		Datum		v[4];
		bool		null[4];
		AtpOperation *operation;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		operation = &a->operations[DatumGetInt32(v[0])];
		operation->found = true;
		operation->old_rev = null[1] ? 0 : DatumGetAtpTid(v[1]);
		operation->old_cid = null[2] ? NULL : PG_DETOAST_DATUM_COPY(v[2]);
		/* many of them may be too much for memory */
		operation->old_value = null[3] ? NULL : (struct varlena *) DatumGetPointer(datumCopy(v[3], false, -1));
	}
	SPI_freetuptable(SPI_tuptable);
}

/* Did it change nothing?  Only what is read again can come too late. */
static bool
is_idle(const AtpOperation *operation)
{
	return operation->again &&
		(operation->found ? operation->old_rev >= operation->row->rev : operation->row->action == ATP_DELETE);
}

/* A statement that inserts into record_event, for its triggers alone or to stay. */
static uint64
insert_events(const AtpSubscription *sub, AtpStatement keep, AtpStatement hand, Datum *args)
{
	return sub->settings.events == ATP_EVENTS_HAND ? atp_hand_over(hand, args) : atp_execute(keep, args, NULL);
}

/* Operations from the given one on as rows of record_event (AtpEvents), until it is much; returns the next. */
static int
add_some_events(Repos *a, int from)
{
	static const char *const actions[] = {"create", "update", "delete"};
	static const AtpArrayType types[] = {
		ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID,
		ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA, ATP_ARRAY_CID, ATP_ARRAY_JSONB
	};
	AtpRows    *rows = atp_rows_create(types, lengthof(types), a->noperations - from);
	Datum		args[lengthof(types) + 1];
	Size		bytes = 0;

	for (; from < a->noperations && bytes <= FLUSH_BYTES; from++)
	{
		const AtpOperation *operation = &a->operations[from];
		struct varlena *old_value = operation->old_value;

		if (is_idle(operation))
			continue;
		atp_put(rows, Int64GetDatum(operation->seq), false);
		atp_put(rows, CStringGetTextDatum(actions[operation->row->action]), false);
		put_record(rows, operation->row);
		atp_put_ref(rows, operation->old_cid);
		if (old_value != NULL)
		{
			old_value = PG_DETOAST_DATUM(PointerGetDatum(old_value));
			bytes += VARSIZE(old_value);
		}
		atp_put_ref(rows, old_value);
	}
	if (rows->n > 0)
	{
		args[0] = CStringGetTextDatum(a->apply->sub->name);
		atp_rows_bind(rows, args + 1);
		(void) insert_events(a->apply->sub, ATP_SQL_ADD_EVENTS, ATP_SQL_HAND_EVENTS, args);
	}
	return from;
}

static void
add_events(Repos *a)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto events", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	for (int from = 0; from < a->noperations;)
	{
		from = add_some_events(a, from);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

static void
flush_rows(Repos *a)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto rows", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	bool		created = a->nputs > 0 && create_records(a);

	if (a->noperations > 0 && a->apply->sub->settings.keep_records)
		find_old_records(a, created);
	if (a->nputs > 0)
		put_records(a);
	if (a->ndeletes > 0)
		delete_records(a);
	if (a->noperations > 0)
		add_events(a);
	a->nputs = a->ndeletes = a->noperations = 0;
	a->bytes = 0;
	atp_keyset_clear(a->keys);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

static void
queue_row(Repos *a, const AtpRecordRow *row, int64 seq, bool again)
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
		a->operations[a->noperations++] = (AtpOperation) {.row = row, .seq = seq, .again = again || a->apply->again};
	if (row->value != NULL)
		a->bytes += VARSIZE(row->value);
	if (row->raw != NULL)
		a->bytes += VARSIZE(row->raw);
	a->apply->rows++;
	if (a->bytes > FLUSH_BYTES)
		flush_rows(a);
}

/* ------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------
 */

/* Some of the records up to a revision, of one deleted account; with the event's seq. */
static uint64
erase_some(const AtpSubscription *sub, struct varlena *did, uint64 rev, int64 seq)
{
	Datum		args[5] = {
		Int64GetDatum(PURGE_MAX), PointerGetDatum(did), AtpTidGetDatum(rev),
		CStringGetTextDatum(sub->name), Int64GetDatum(seq)
	};

	if (sub->settings.events == ATP_EVENTS_NONE)
		return atp_execute(ATP_SQL_ERASE_RECORDS, args, NULL);
	return insert_events(sub, ATP_SQL_ERASE_KEEP, ATP_SQL_ERASE_HAND, args);
}

/* The revision up to which records go; false: there are none. */
static bool
last_rev(const AtpEvent *event, const AtpVerdict *verdict, uint64 *rev)
{
	Datum		did = PointerGetDatum(event->did);
	bool		isnull = verdict->has_rev;

	*rev = verdict->rev;
	if (verdict->has_rev)
		return true;
	/* somebody has made the repository's state forget it */
	if (atp_execute(ATP_SQL_LAST_REV, &did, NULL) > 0)
		*rev = DatumGetAtpTid(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	else
		isnull = true;
	SPI_freetuptable(SPI_tuptable);
	return !isnull;
}

/*
 * The account was deleted: its records go, what is too much for now later (F-15),
 * by purge().
 */
static void
erase_repo(AtpApply *apply, const AtpEvent *event, const AtpVerdict *verdict, bool now)
{
	uint64		rev;
	Datum		args[3];

	if (!last_rev(event, verdict, &rev))
		return;
	if (now)
		(void) erase_some(apply->sub, event->did, rev, event->seq);
	args[0] = PointerGetDatum(event->did);
	args[1] = AtpTidGetDatum(rev);
	args[2] = Int64GetDatum(event->seq);
	if (atp_execute(ATP_SQL_LEAVE_TO_PURGE, args, NULL) > 0)
		apply->batch->purge = true;
}

static Repos *
begin_range(AtpApply *apply, int lo, int hi)
{
	Repos	   *a = palloc0(sizeof(Repos));
	int			nrows = 0;

	a->apply = apply;
	for (int i = lo; i < hi; i++)
		nrows += apply->batch->events[i].nrows;
	a->states = atp_repo_states_load(apply, lo, hi);
	prepare_rows(a, nrows);
	return a;
}

static void
apply(AtpApply *apply, int lo, int hi)
{
	AtpBatch   *batch = apply->batch;
	Repos	   *a = begin_range(apply, lo, hi);
	AtpVerdict *verdicts = palloc0(sizeof(AtpVerdict) * Max(hi - lo, 1));

	for (int i = lo; i < hi; i++)
		if (!batch->events[i].ignored)
			verdicts[i - lo] = atp_repo_states_take(a->states, i);
	atp_repo_states_store(a->states);
	ATP_INJECTION_POINT("records next");
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &batch->events[i];
		AtpVerdict *verdict = &verdicts[i - lo];

		for (int r = 0; verdict->rows && r < event->nrows; r++)
			queue_row(a, &batch->rows[event->first_row + r].record, event->seq, verdict->again);
		if (verdict->erase)
		{
			flush_rows(a);
			erase_repo(apply, event, verdict, true);
		}
	}
	flush_rows(a);
}

static bool
accepts(AtpApply *apply, int index)
{
	const AtpEvent *event = &apply->batch->events[index];

	return !event->ignored &&
		atp_repo_states_take(atp_repo_states_load(apply, index, index + 1), index).rows;
}

static void
apply_row(AtpApply *apply, int row, int event)
{
	Repos		a = {.apply = apply};

	prepare_rows(&a, 1);
	queue_row(&a, &apply->batch->rows[row].record, apply->batch->events[event].seq, false);
	flush_rows(&a);
}

static void
apply_rest(AtpApply *apply, int index, int unused)
{
	const AtpEvent *event = &apply->batch->events[index];
	AtpRepoStates *states;
	AtpVerdict	verdict;

	if (event->ignored)
		return;
	states = atp_repo_states_load(apply, index, index + 1);
	verdict = atp_repo_states_take(states, index);
	atp_repo_states_store(states);
	/* what cannot be removed must not keep the account's new state out: later */
	if (verdict.erase)
		erase_repo(apply, event, &verdict, false);
}

/* What no record's path is: it has a slash. */
static AtpSpan
name(const AtpEvent *event)
{
	static const char identity[] = "#identity";
	static const char account[] = "#account";

	switch (event->kind)
	{
		case ATP_REPOS_IDENTITY:
			return (AtpSpan) {identity, sizeof(identity) - 1};
		case ATP_REPOS_ACCOUNT:
			return (AtpSpan) {account, sizeof(account) - 1};
		default:
			return (AtpSpan) {NULL, 0};
	}
}

static void
put_overtaken(AtpRows *rows, const AtpEvent *event, AtpSpan path)
{
	atp_put_ref(rows, event->did);
	atp_put_ref(rows, path.len == 0 ? NULL : cstring_to_text_with_len(path.ptr, path.len));
	atp_put(rows, Int64GetDatum(event->seq), false);
}

/*
 * A record that is removed needs no letter any more about what could not be
 * written before: tried again, it would come back.  Nor does a handle or status
 * that is followed by another; and an account that is deleted needs none at all.
 */
static void
settle(AtpApply *a)
{
	static const AtpArrayType types[] = {ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_INT8};
	AtpBatch   *batch = a->batch;
	AtpRows    *rows = atp_rows_create(types, lengthof(types), batch->nrows + batch->nevents);
	Datum		args[lengthof(types) + 1];

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &batch->events[i];

		if (event->ignored)
			continue;
		for (int r = event->first_row; r < event->first_row + event->nrows; r++)
			if (batch->rows[r].record.action == ATP_DELETE)
				put_overtaken(rows, event, batch->rows[r].path);
		if (atp_is_deletion(event))
			put_overtaken(rows, event, (AtpSpan) {NULL, 0});
		else if (event->kind == ATP_REPOS_ACCOUNT || (event->kind == ATP_REPOS_IDENTITY && event->handle != NULL))
			put_overtaken(rows, event, name(event));
	}
	if (rows->n == 0)
		return;
	args[0] = CStringGetTextDatum(a->sub->name);
	atp_rows_bind(rows, args + 1);
	(void) atp_execute(ATP_SQL_FORGET_LETTERS, args, NULL);
}

static bool
purge(const AtpSubscription *sub)
{
	Datum		args[2] = {Int64GetDatum(PURGE_MAX), CStringGetTextDatum(sub->name)};
	uint64		n;

	if (sub->settings.events == ATP_EVENTS_NONE)
		n = atp_execute(ATP_SQL_PURGE_RECORDS, args, NULL);
	else
		n = insert_events(sub, ATP_SQL_PURGE_KEEP, ATP_SQL_PURGE_HAND, args);
	/* fewer than asked for need not be all: somebody else may have been faster */
	if (n > 0)
		return true;
	ATP_INJECTION_POINT("records purged");
	/* another subscription may have just begun: only rows that are locked are looked at */
	(void) atp_execute(ATP_SQL_LOCK_PURGED, NULL, NULL);
	(void) atp_execute(ATP_SQL_PURGE_DONE, NULL, NULL);
	return false;
}

const AtpSink atp_repos_sink = {
	.uses = ATP_USE_REPOS,
	.apply = apply,
	.accepts = accepts,
	.apply_row = apply_row,
	.apply_rest = apply_rest,
	.name = name,
	.settle = settle,
	.again = atp_again_repos,
	.again_row = atp_again_repos_row,
	.purge = purge,
};
