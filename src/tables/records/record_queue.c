/*
 * record_queue.c
 *		Records that are put and removed, collected and written many at a time.
 *
 * The operations are written in their order (F-16).  Where no trigger sees the difference, only the
 * result of all operations on a key is written (record_direct.c).  Elsewhere a key that comes twice
 * ends one statement and begins another, so that triggers see every change.  New records may be
 * inserted without a statement, sorted by key unless a trigger fires for each row.  Derived tables
 * are told of every change (derived.h).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "core/syntax/tid.h"
#include "tables/base/derived.h"
#include "tables/base/keyset.h"
#include "tables/records/record_direct.h"
#include "tables/records/sweep_deletion.h"
#include "types/types.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/* Bytes of values written in one step, which copies the values several times. */
#define FLUSH_BYTES	(4 * 1024 * 1024)

struct AtpRecords
{
	AtpApply   *apply;
	int			max;			/* greatest number of rows between two flushes */
	/* all pending operations */
	const AtpRecordRow **rows;
	AtpChange  *changes;		/* a change for each of rows, for derived tables; NULL: no derived table */
	int			n;
	Size		bytes;			/* bytes of the values of rows */
	/* the operations of the statements being prepared, with distinct keys */
	AtpKeySet  *keys;			/* NULL until the first statement */
	const AtpRecordRow **puts;
	int			nputs;
	const AtpRecordRow **deletes;
	int			ndeletes;
};

AtpRecords *
atp_records_begin(AtpApply *a, int n)
{
	AtpRecords *r = palloc0(sizeof(AtpRecords));

	n = Max(n, 1);
	r->apply = a;
	r->max = n;
	r->rows = palloc(sizeof(AtpRecordRow *) * n);
	if (atp_derived_uses(a->sub) != 0)
		r->changes = palloc(sizeof(AtpChange) * n);
	return r;
}

/* ------------------------------------------------------------------------
 * Put and remove
 * ------------------------------------------------------------------------
 */

/*
 * Insert records without looking for existing ones: a plain INSERT, which Citus carries out by COPY into the shards.
 * If a record exists, or is refused, the transaction ends with ATP_ERRCODE_CONFLICT and is done again with
 * statements, because Citus passes on the text and not the SQLSTATE of an error of such a COPY.
 */
static void
copy_records(AtpStatements *set, const AtpRecordRow **creates, int n)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum		args[ATP_STATEMENT_ARGS];

	if (n == 0)
		return;
	atp_rows_bind(atp_record_rows(set, creates, n), args);
	PG_TRY();
	{
		(void) atp_execute(set, &atp_record_table.statements[ATP_CREATE_RECORDS], args, NULL);
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_UNIQUE_VIOLATION && geterrcode() != ERRCODE_INTERNAL_ERROR)
			PG_RE_THROW();
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
		ereport(ERROR,
				(errcode(ATP_ERRCODE_CONFLICT), errmsg("a row of table \"record\" is there already, or is refused")));
	}
	PG_END_TRY();
}

/*
 * Insert new records directly, or by a plain INSERT into a distributed table.  The records left in puts need an
 * upsert.  False: no record was inserted.
 */
static bool
create_records(AtpRecords *r)
{
	AtpStatements *set = r->apply->statements;
	AtpDirect  *direct = r->apply->direct ? atp_direct_open(set, &atp_record_table) : NULL;
	const AtpRecordRow **creates;
	int			ncreates = 0,
				rest = 0;

	if (direct == NULL && !(r->apply->direct && atp_target_is_distributed(set, &atp_record_table)))
		return false;
	creates = palloc(sizeof(AtpRecordRow *) * r->nputs);
	for (int i = 0; i < r->nputs; i++)
		if (r->puts[i]->action == ATP_CREATE)
			creates[ncreates++] = r->puts[i];
		else
			r->puts[rest++] = r->puts[i];
	r->nputs = rest;
	if (direct == NULL || !atp_direct_fires_each_row(direct))
		atp_records_sort(creates, ncreates);
	if (direct == NULL)
	{
		copy_records(set, creates, ncreates);
		return true;
	}
	atp_direct_insert(direct, atp_record_rows(set, creates, ncreates));
	atp_direct_close(direct);
	return true;
}

static void
put_some(AtpRecords *r, AtpRecordStatement statement, const AtpRecordRow **puts, int n)
{
	AtpStatements *set = r->apply->statements;
	Datum		args[ATP_STATEMENT_ARGS];

	if (n == 0)
		return;
	atp_rows_bind(atp_record_rows(set, puts, n), args);
	(void) atp_execute(set, &atp_record_table.statements[r->apply->force ? ATP_FORCE_RECORDS : statement], args, NULL);
}

/*
 * A record of an event that is read again is not written over an equal revision: the stored row came from the same
 * commit, and stays as it is.  In an archive, records of one revision may differ: there, an equal row stays.
 */
static void
put_records(AtpRecords *r)
{
	const AtpRecordRow **reread = palloc(sizeof(AtpRecordRow *) * r->nputs);
	const AtpRecordRow **may_stand = palloc(sizeof(AtpRecordRow *) * r->nputs);
	int			nreread = 0;
	int			nmay_stand = 0;
	int			n = 0;

	for (int i = 0; i < r->nputs; i++)
		if (r->apply->replay || r->puts[i]->reread)
			reread[nreread++] = r->puts[i];
		else if (r->puts[i]->may_stand)
			may_stand[nmay_stand++] = r->puts[i];
		else
			r->puts[n++] = r->puts[i];
	put_some(r, ATP_PUT_OLDER_RECORDS, reread, nreread);
	put_some(r, ATP_PUT_CHANGED_RECORDS, may_stand, nmay_stand);
	put_some(r, ATP_PUT_RECORDS, r->puts, n);
}

/* Rows of record keys with a fourth column. */
static AtpRows *
key_rows(AtpStatements *set, AtpType more, int n)
{
	const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_NSID, ATP_TYPE_RKEY, more, ATP_TYPE_END};

	return atp_rows_create(set, types, n);
}

static void
put_key(AtpRows *rows, const AtpRecordRow *row)
{
	atp_put_ref(rows, row->did);
	atp_put_ref(rows, row->collection);
	atp_put_ref(rows, row->rkey);
}

/* Delete the records of the operations that an event does, or does not, read again. */
static int64
delete_some(AtpRecords *r, bool reread)
{
	AtpApply   *a = r->apply;
	AtpRows    *rows = key_rows(a->statements, ATP_TYPE_TID, r->ndeletes);
	Datum		args[4];

	for (int i = 0; i < r->ndeletes; i++)
	{
		if ((a->replay || r->deletes[i]->reread) != reread)
			continue;
		put_key(rows, r->deletes[i]);
		atp_put(rows, AtpTidGetDatum(a->force ? ATP_TID_MAX_CANONICAL : r->deletes[i]->rev), false);
	}
	if (rows->n == 0)
		return 0;
	atp_rows_bind(rows, args);
	return atp_execute(a->statements, &atp_record_table.statements[reread ? ATP_DELETE_OLDER_RECORDS : ATP_DELETE_RECORDS], args, NULL);
}

/*
 * A removal that is read again does not remove a record of an equal revision: an export of this revision has brought the
 * record, so the commit of this revision has not removed it.  gives_way() of record_direct.c and is_idle() of derived.c
 * have the same rule.
 */
static void
delete_records(AtpRecords *r)
{
	int64		removed = delete_some(r, true) + delete_some(r, false);

	r->apply->removed += removed;
	r->apply->noop_rows += r->ndeletes - removed;
}

/*
 * Look up the stored records that n operations will replace or remove.  created: records of ATP_CREATE were inserted
 * already, so no stored record existed.
 */
static void
find_old_records(AtpRecords *r, AtpChange *changes, int n, bool created)
{
	AtpStatements *set = r->apply->statements;
	AtpRows    *rows = key_rows(set, ATP_TYPE_INT4, n);
	bool		remember = atp_derived_remembers(r->apply->sub);
	Datum		args[4];
	uint64		found;

	for (int i = 0; i < n; i++)
	{
		const AtpRecordRow *row = changes[i].row;

		if ((created && row->action == ATP_CREATE) || !(remember || changes[i].reread || row->may_stand))
			continue;
		put_key(rows, row);
		atp_put(rows, Int32GetDatum(i), false);
	}
	if (rows->n == 0)
		return;
	atp_rows_bind(rows, args);
	found = atp_execute(set, &atp_record_table.statements[ATP_OLD_RECORDS], args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		Datum		v[5];
		bool		null[5];
		AtpChange  *change;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		change = &changes[DatumGetInt32(v[0])];
		change->found = true;
		change->old_rev = null[1] ? 0 : DatumGetAtpTid(v[1]);
		change->old_cid = null[2] ? NULL : PG_DETOAST_DATUM_COPY(v[2]);
		/* values stay TOASTed: many detoasted values may exceed the memory */
		change->old_value = null[3] ? NULL : (struct varlena *) DatumGetPointer(datumCopy(v[3], false, -1));
		change->old_raw = null[4] ? NULL : (struct varlena *) DatumGetPointer(datumCopy(v[4], false, -1));
	}
	SPI_freetuptable(SPI_tuptable);
}

/* Collect operations from "from" on until a key comes again; returns the next operation. */
static int
take_some(AtpRecords *r, int from)
{
	int			i = from;

	if (r->keys == NULL)
	{
		r->keys = atp_keyset_create(r->max);
		r->puts = palloc(sizeof(AtpRecordRow *) * r->max);
		r->deletes = palloc(sizeof(AtpRecordRow *) * r->max);
	}
	atp_keyset_clear(r->keys);
	r->nputs = r->ndeletes = 0;
	for (; i < r->n; i++)
	{
		const AtpRecordRow *row = r->rows[i];
		AtpKey		key = {{row->did, row->collection, row->rkey}};

		if (!atp_keyset_add(r->keys, key))
			break;
		if (row->action == ATP_DELETE)
			r->deletes[r->ndeletes++] = row;
		else
			r->puts[r->nputs++] = row;
	}
	return i;
}

/* Take the operations out of a list that a kept deletion is newer than; returns how many stay. */
static int
leave_passed(AtpRecords *r, const AtpRecordRow **rows, int n)
{
	bool	   *passed = palloc(sizeof(bool) * Max(n, 1));
	int			left = 0;

	atp_sweep_find(r->apply, rows, n, passed);
	for (int i = 0; i < n; i++)
		if (!passed[i])
			rows[left++] = rows[i];
		else
		{
			r->apply->skips[ATP_SKIP_OLD]++;
			r->apply->noop_rows += rows[i]->action == ATP_DELETE;
		}
	return left;
}

static int
compare_pointers(const void *a, const void *b)
{
	const AtpRecordRow *x = *(const AtpRecordRow *const *) a;
	const AtpRecordRow *y = *(const AtpRecordRow *const *) b;

	return x < y ? -1 : x > y;
}

/* Derived tables are not told of an operation that is in neither list any more. */
static void
note_passed(AtpRecords *r, AtpChange *changes, int n)
{
	int			nleft = r->nputs + r->ndeletes;
	const AtpRecordRow **left = palloc(sizeof(AtpRecordRow *) * Max(nleft, 1));

	memcpy(left, r->puts, sizeof(AtpRecordRow *) * r->nputs);
	memcpy(left + r->nputs, r->deletes, sizeof(AtpRecordRow *) * r->ndeletes);
	qsort(left, nleft, sizeof(AtpRecordRow *), compare_pointers);
	for (int i = 0; i < n; i++)
		changes[i].passed = bsearch(&changes[i].row, left, nleft, sizeof(AtpRecordRow *), compare_pointers) == NULL;
}

/* H-43: leave out what is older than a kept deletion, and keep the other deletions. */
static void
obey_sweep(AtpRecords *r, int from, int to)
{
	const AtpRecordRow **kept = palloc(sizeof(AtpRecordRow *) * Max(r->ndeletes, 1));
	int			nkept = 0;

	r->nputs = leave_passed(r, r->puts, r->nputs);
	/* a deletion that another source has brought is known, and its record is gone */
	r->ndeletes = leave_passed(r, r->deletes, r->ndeletes);
	if (r->changes != NULL)
		note_passed(r, r->changes + from, to - from);
	for (int i = 0; i < r->ndeletes; i++)
		if (!r->deletes[i]->unkept)
			kept[nkept++] = r->deletes[i];
	atp_sweep_keep(r->apply, kept, nkept);
}

/* Write operations with distinct keys by statements, and tell derived tables. */
static void
write_some(AtpRecords *r, int from, int to)
{
	bool		keep = r->apply->sub->settings.keep_records;
	bool		created;

	if (keep && r->apply->sweep == ATP_SWEEP_SHARED)
		obey_sweep(r, from, to);
	created = keep && r->nputs > 0 && create_records(r);
	if (r->changes != NULL && keep)
		find_old_records(r, r->changes + from, to - from, created);
	if (keep && r->nputs > 0)
		put_records(r);
	if (keep && r->ndeletes > 0)
		delete_records(r);
	if (r->changes != NULL)
		atp_derived_flush(r->apply, r->changes + from, to - from);
}

/* Write all pending operations directly; false: nothing was written. */
static bool
write_directly(AtpRecords *r)
{
	return r->changes == NULL && r->apply->sub->settings.keep_records && atp_records_write(r->apply, r->rows, r->n);
}

void
atp_records_flush(AtpRecords *r)
{
	MemoryContext cxt,
				old;

	if (r->n == 0)
		return;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto rows", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	if (!write_directly(r))
		for (int from = 0, to; from < r->n; from = to)
		{
			MemoryContextSwitchTo(old);
			to = take_some(r, from);
			MemoryContextReset(cxt);
			MemoryContextSwitchTo(cxt);
			write_some(r, from, to);
		}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	r->n = 0;
	r->bytes = 0;
}

void
atp_records_queue(AtpRecords *r, const AtpRecordRow *row, int64 seq, bool reread)
{
	Assert(r->n < r->max);
	if (r->changes != NULL)
		r->changes[r->n] = (AtpChange) {.row = row, .seq = seq, .reread = reread || r->apply->replay};
	r->rows[r->n++] = row;
	if (row->value != NULL)
		r->bytes += VARSIZE(row->value);
	if (row->raw != NULL)
		r->bytes += VARSIZE(row->raw);
	r->apply->rows++;
	if (r->bytes > FLUSH_BYTES)
		atp_records_flush(r);
}
