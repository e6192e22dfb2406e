/*
 * stored_rows.c
 *		Reads the rows of a repository in the order of paths, which is the order of the tree.
 *
 * A path is "collection/rkey".  '-' and '.', which may follow in a longer collection's name, sort
 * before '/': so in the tree the records of "a.b.c.d" come before the records of "a.b.c", and in
 * the table's primary key after.  Within a collection both orders agree.  So collections are looked
 * up one after the other, with a descent of the index for each, and a collection waits on a stack
 * while longer names that begin with its name come first.  No row is sorted, and no list of passed
 * paths is needed, however many collections a stranger has made.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "tables/records/record.h"
#include "tables/export/stored_rows.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Rows fetched at a time. */
#define FETCH		1000

/* Each waiting collection is longer than the one below it by two characters at least. */
#define WAITING_MAX	(ATP_NSID_MAX / 2 + 1)

struct AtpStoredRows
{
	MemoryContext cxt;
	AtpStatements *set;
	const AtpSettings *settings;
	struct varlena *did;

	/* collections */
	struct varlena *found;		/* last collection the index gave; NULL: not begun, or no more */
	bool		looked;
	bool		taken;			/* found is on the stack, or was */
	int			nwaiting;
	struct varlena *waiting[WAITING_MAX];

	/* rows of the collection on top of the stack, if current */
	bool		current;
	bool		asked;			/* the portal is open */
	Portal		portal;
	SPITupleTable *table;
	uint64		n;
	uint64		i;
	MemoryContext rows_cxt;		/* for detoasted values of the rows */

	bool		ready;			/* row is valid */
	bool		done;
	AtpStoredRow row;
	uint8_t		path[ATP_MST_KEY_MAX];
	uint8_t		passed[ATP_MST_KEY_MAX];	/* last path passed ... */
	Size		passed_len;		/* ... and the length of the path; 0: no path */
};

AtpStoredRows *
atp_stored_begin(MemoryContext parent, AtpStatements *set, const AtpSettings *settings, struct varlena *did)
{
	AtpStoredRows *s = MemoryContextAllocZero(parent, sizeof(AtpStoredRows));

	s->cxt = parent;
	s->rows_cxt = AllocSetContextCreate(parent, "atproto stored rows", ALLOCSET_SMALL_SIZES);
	s->set = set;
	s->settings = settings;
	s->did = did;
	return s;
}

/* ------------------------------------------------------------------------
 * Collections
 * ------------------------------------------------------------------------
 */
static struct varlena *
keep_value(AtpStoredRows *s, Datum value)
{
	MemoryContext old = MemoryContextSwitchTo(s->cxt);
	struct varlena *copy = PG_DETOAST_DATUM_COPY(value);

	MemoryContextSwitchTo(old);
	return copy;
}

/* Find the next collection, in the order of the key, that the filter wants; NULL: no more. */
static void
find_collection(AtpStoredRows *s)
{
	do
	{
		struct varlena *before = s->found;
		Datum		args[2] = {PointerGetDatum(s->did), PointerGetDatum(before)};
		int			statement = before == NULL ? ATP_FIRST_COLLECTION : ATP_NEXT_COLLECTION;
		bool		isnull;

		s->found = NULL;
		if (atp_execute(s->set, &atp_record_table.statements[statement], args, NULL) > 0)
		{
			Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

			if (!isnull)
				s->found = keep_value(s, value);
		}
		SPI_freetuptable(SPI_tuptable);
		if (before != NULL)
			pfree(before);
		CHECK_FOR_INTERRUPTS();
	} while (s->found != NULL && !atp_wants_collection(s->settings, atp_nsid_span(s->found)));
	s->looked = true;
	s->taken = false;
}

/*
 * Does the longer name continue the shorter with a character below '/', so that its paths come
 * first?
 */
static bool
comes_first(const struct varlena *longer, const struct varlena *shorter)
{
	AtpSpan		l = atp_nsid_span(longer);
	AtpSpan		s = atp_nsid_span(shorter);

	return l.len > s.len && memcmp(l.ptr, s.ptr, s.len) == 0 && l.ptr[s.len] < '/';
}

/* Put the next collection on top of the stack; false: no collection is left. */
static bool
next_collection(AtpStoredRows *s)
{
	for (;;)
	{
		if (!s->looked || (s->taken && s->found != NULL))
			find_collection(s);
		if (s->found == NULL)
			return s->nwaiting > 0;
		if (s->nwaiting > 0 && !comes_first(s->found, s->waiting[s->nwaiting - 1]))
			return true;
		if (s->nwaiting == WAITING_MAX)
			elog(ERROR, "collections of a repository are not in order");
		s->waiting[s->nwaiting++] = keep_value(s, PointerGetDatum(s->found));
		s->taken = true;
	}
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */

/* Record key of the last passed path, if the path is in this collection; else NULL. */
static struct varlena *
passed_key(const AtpStoredRows *s, const struct varlena *collection)
{
	AtpSpan		name = atp_nsid_span(collection);

	if (s->passed_len <= name.len + 1 || memcmp(s->passed, name.ptr, name.len) != 0 || s->passed[name.len] != '/')
		return NULL;
	return atp_rkey_make((const char *) s->passed + name.len + 1, s->passed_len - name.len - 1);
}

/*
 * Open the portal behind the last passed path, which need not be the path of a row that was read.
 * Otherwise, after an interruption, rows that the caller itself has inserted would come next; the
 * caller would take these for rows that the tree lacks, and delete them.
 */
static void
open_rows(AtpStoredRows *s)
{
	struct varlena *collection = s->waiting[s->nwaiting - 1];
	struct varlena *after = passed_key(s, collection);
	Datum		args[3] = {PointerGetDatum(s->did), PointerGetDatum(collection), PointerGetDatum(after)};
	int			statement = after != NULL ? ATP_ROWS_AFTER : ATP_ROWS_OF;

	s->portal = atp_open(s->set, &atp_record_table.statements[statement], args);
	s->asked = true;
	s->n = s->i = 0;
}

static void
close_rows(AtpStoredRows *s)
{
	if (s->table != NULL)
		SPI_freetuptable(s->table);
	if (s->asked)
		SPI_cursor_close(s->portal);
	s->table = NULL;
	s->asked = false;
	s->ready = false;
}

static bool
fetch_rows(AtpStoredRows *s)
{
	MemoryContext old = CurrentMemoryContext;

	if (!s->asked)
		open_rows(s);
	if (s->i < s->n)
		return true;
	if (s->table != NULL)
		SPI_freetuptable(s->table);
	MemoryContextReset(s->rows_cxt);
	SPI_cursor_fetch(s->portal, true, FETCH);
	/* SPI has changed the current memory context */
	MemoryContextSwitchTo(old);
	s->table = SPI_tuptable;
	s->n = SPI_processed;
	s->i = 0;
	return s->n > 0;
}

static void
read_row(AtpStoredRows *s)
{
	Datum		v[3];
	bool		null[3];
	AtpSpan		collection;
	struct varlena *cid;
	MemoryContext old;
	Size		len;

	heap_deform_tuple(s->table->vals[s->i], s->table->tupdesc, v, null);
	/* the user may have replaced the table by a view, whose columns can be null */
	if (null[0] || null[1] || null[2])
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("\"%s\" of a row of table \"record\" is null", null[0] ? "rkey" : null[1] ? "cid" : "rev")));
	s->row.collection = s->waiting[s->nwaiting - 1];
	/* the caller may reset its own context before the row has been passed */
	old = MemoryContextSwitchTo(s->rows_cxt);
	s->row.rkey = PG_DETOAST_DATUM_PACKED(v[0]);
	cid = PG_DETOAST_DATUM_PACKED(v[1]);
	MemoryContextSwitchTo(old);
	s->row.rev = DatumGetAtpTid(v[2]);
	s->row.cid = (AtpBytes) {(const uint8_t *) VARDATA_ANY(cid), VARSIZE_ANY_EXHDR(cid)};
	collection = atp_nsid_span(s->row.collection);
	memcpy(s->path, collection.ptr, collection.len);
	s->path[collection.len] = '/';
	len = collection.len + 1;
	len += atp_rkey_copy(s->row.rkey, (char *) s->path + len);
	s->row.path = (AtpBytes) {s->path, len};
	/*
	 * a row before the last passed path would be deleted by the caller, although its record was
	 * compared already
	 */
	if (s->passed_len > 0 && atp_mst_compare(s->row.path, (AtpBytes) {s->passed, s->passed_len}) <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("rows of table \"record\" are not in the order of their keys"),
				 errhint("Its primary key may need REINDEX.")));
	s->ready = true;
}

const AtpStoredRow *
atp_stored_row(AtpStoredRows *s)
{
	while (!s->ready && !s->done)
	{
		if (!s->current && !(s->current = next_collection(s)))
			s->done = true;
		else if (fetch_rows(s))
			read_row(s);
		else
		{
			/* the collection has no more rows */
			close_rows(s);
			pfree(s->waiting[--s->nwaiting]);
			s->current = false;
		}
	}
	return s->done ? NULL : &s->row;
}

void
atp_stored_next(AtpStoredRows *s)
{
	Assert(s->ready);
	atp_stored_pass(s, s->row.path);
	s->i++;
	s->ready = false;
}

void
atp_stored_pass(AtpStoredRows *s, AtpBytes path)
{
	Assert(path.len <= sizeof(s->passed));
	memcpy(s->passed, path.ptr, path.len);
	s->passed_len = path.len;
}

void
atp_stored_rest(AtpStoredRows *s)
{
	close_rows(s);
}
