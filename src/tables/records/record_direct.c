/*
 * record_direct.c
 *		Records into the table record in key order, without statements where direct_open.c allows
 *		that.
 *
 * Where no trigger sees the steps between two operations on the same key, only their final result
 * is written.  A record is looked up before it is replaced or removed, and a newer record is left
 * alone, as in the statements of record.c.  ExecOnConflictUpdate() (nodeModifyTable.c) locks the
 * row first; direct_update.c instead ends the transaction if the row has changed.
 */
#include "postgres.h"

#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "tables/records/record_direct.h"
#include "types/types.h"

/* ------------------------------------------------------------------------
 * Order
 * ------------------------------------------------------------------------
 */
typedef struct Sorted
{
	uint64		abbrev;			/* abbreviated DID: few are equal */
	int			n;
	const AtpRecordRow *row;
} Sorted;

/* The order of the primary key. */
static int
compare_keys(const AtpRecordRow *x, const AtpRecordRow *y)
{
	int			cmp = x->did == y->did ? 0 : atp_compare_dids(x->did, y->did);

	if (cmp == 0)
		cmp = atp_compare_nsids(x->collection, y->collection);
	if (cmp == 0)
		cmp = atp_rkey_cmp((const uint8_t *) VARDATA_ANY(x->rkey), VARSIZE_ANY_EXHDR(x->rkey),
						   (const uint8_t *) VARDATA_ANY(y->rkey), VARSIZE_ANY_EXHDR(y->rkey));
	return cmp;
}

static int
compare_items(const Sorted *x, const Sorted *y)
{
	int			cmp;

	if (x->abbrev != y->abbrev)
		return x->abbrev < y->abbrev ? -1 : 1;
	cmp = compare_keys(x->row, y->row);
	return cmp != 0 ? cmp : x->n - y->n;
}

#define ST_SORT sort_items
#define ST_ELEMENT_TYPE Sorted
#define ST_COMPARE(a, b) compare_items(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

void
atp_records_sort(const AtpRecordRow **records, int n)
{
	Sorted	   *items = palloc(sizeof(Sorted) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		const struct varlena *did = records[i]->did;

		items[i] = (Sorted) {
			atp_did_abbrev((const uint8_t *) VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did)), i, records[i]
		};
	}
	sort_items(items, n);
	for (int i = 0; i < n; i++)
		records[i] = items[i].row;
	pfree(items);
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */
static void
put_row(AtpRows *rows, const AtpRecordRow *row)
{
	atp_put_ref(rows, row->did);
	atp_put_ref(rows, row->collection);
	atp_put_ref(rows, row->rkey);
	atp_put_ref(rows, row->cid);
	atp_put(rows, AtpTidGetDatum(row->rev), false);
	atp_put_ref(rows, row->value);
	atp_put_ref(rows, row->raw);
	atp_put_ref(rows, row->fault);
}

AtpRows *
atp_record_rows(AtpStatements *set, const AtpRecordRow **records, int n)
{
	AtpRows    *rows = atp_rows_of(set, &atp_record_table, n);

	for (int i = 0; i < n; i++)
		put_row(rows, records[i]);
	return rows;
}

/* ------------------------------------------------------------------------
 * Operations
 * ------------------------------------------------------------------------
 */
typedef struct RecordWriter
{
	AtpApply   *apply;
	AtpDirect  *direct;
	int			rev;			/* indexes of columns */
	int			cid;
	int			raw;
	int			fault;
	Datum		values[ATP_STATEMENT_ARGS]; /* the row that was found */
	bool		nulls[ATP_STATEMENT_ARGS];
	AtpRows    *come;			/* rows to insert, all at the end */
	AtpRows    *changed;		/* a single row to update */
} RecordWriter;

static int
column_of(const char *name)
{
	int			n;
	const AtpColumn **columns = atp_row_columns(&atp_record_table, &n);
	int			c = 0;

	while (strcmp(columns[c]->name, name) != 0)
		c++;
	Assert(c < n);
	return c;
}

/* Look up the stored record.  *rev is its revision; *null: the column is null. */
static bool
find_stored(RecordWriter *w, const AtpRecordRow *row, ItemPointer place, bool *null, uint64 *rev)
{
	const Datum key[] = {PointerGetDatum(row->did), PointerGetDatum(row->collection), PointerGetDatum(row->rkey)};

	if (!atp_direct_find(w->direct, key, place, w->values, w->nulls))
		return false;
	*null = w->nulls[w->rev];
	*rev = *null ? 0 : DatumGetAtpTid(w->values[w->rev]);
	return true;
}

/*
 * May the operation replace or remove the stored record?  The same rule as in ATP_PUT_RECORDS and ATP_DELETE_RECORDS;
 * for an event that is read again, as in ATP_PUT_OLDER_RECORDS and ATP_DELETE_OLDER_RECORDS; with force, as in
 * ATP_FORCE_RECORDS.
 */
static bool
gives_way(const RecordWriter *w, bool null, uint64 rev, const AtpRecordRow *to)
{
	return w->apply->force || (!null && (rev < to->rev || (rev == to->rev && !to->reread)));
}

static bool
is_same(const RecordWriter *w, int column, const void *value)
{
	if (value == NULL || w->nulls[column])
		return value == NULL && w->nulls[column];
	return atp_same_bytes(PG_DETOAST_DATUM_PACKED(w->values[column]), value);
}

/* H-42: does a record of an archive stand unchanged?  The same rule as in ATP_PUT_CHANGED_RECORDS. */
static bool
stands_unchanged(const RecordWriter *w, uint64 rev, const AtpRecordRow *to)
{
	return to->may_stand && !w->apply->force && rev == to->rev && is_same(w, w->cid, to->cid) &&
		is_same(w, w->fault, to->fault) && w->nulls[w->raw] == (to->raw == NULL);
}

/* Write the result of all operations on a key. */
static void
write_key(RecordWriter *w, const AtpRecordRow **ops, int n)
{
	const AtpRecordRow *last = ops[n - 1];
	const AtpRecordRow *removal = NULL;
	ItemPointerData place;
	bool		null;
	uint64		rev;

	for (int i = 0; i < n; i++)
		if (ops[i]->action == ATP_DELETE)
			removal = ops[i];
	if ((removal == NULL && ops[0]->action == ATP_CREATE) || !find_stored(w, ops[0], &place, &null, &rev))
	{
		if (last->action == ATP_DELETE)
			w->apply->noop_rows++;
		else
			put_row(w->come, last);
	}
	else if (removal != NULL && gives_way(w, null, rev, removal))
	{
		atp_direct_delete(w->direct, &place);
		if (removal != last)
			put_row(w->come, last);
		else
			w->apply->removed++;
	}
	else if (removal == last)
		w->apply->noop_rows++;
	else if (gives_way(w, null, rev, last) && !stands_unchanged(w, rev, last))
	{
		w->changed->n = 0;
		put_row(w->changed, last);
		atp_direct_update(w->direct, &place, w->changed, 0);
	}
}

bool
atp_records_write(AtpApply *a, const AtpRecordRow **records, int n)
{
	RecordWriter w = {.apply = a};

	/* messages processed again need rules that only the statements have */
	w.direct = a->direct && !a->replay ? atp_direct_open(a->statements, &atp_record_table) : NULL;
	if (w.direct == NULL)
		return false;
	if (!atp_direct_finds(w.direct))
	{
		atp_direct_close(w.direct);
		return false;
	}
	w.rev = column_of("rev");
	w.cid = column_of("cid");
	w.raw = column_of("raw");
	w.fault = column_of("fault");
	w.come = atp_rows_of(a->statements, &atp_record_table, n);
	w.changed = atp_rows_of(a->statements, &atp_record_table, 1);
	atp_records_sort(records, n);
	for (int i = 0, end; i < n; i = end)
	{
		for (end = i + 1; end < n && compare_keys(records[i], records[end]) == 0; end++)
			;
		write_key(&w, records + i, end - i);
	}
	/* inserted last: a new record may have the key of a record removed above */
	atp_direct_insert(w.direct, w.come);
	atp_direct_close(w.direct);
	return true;
}
