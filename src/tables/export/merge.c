/*
 * merge.c
 *		Writes an export into the rows of its repository.
 *
 * The records of the tree and the rows of the table record are both read in the order of paths.  A
 * record without a row is created, a row with a different CID is updated, a row without a record is
 * deleted; equal rows are not touched.  Changes take the same way as changes of a stream
 * (record_queue.c): triggers, partitions, derived tables, dead letters.
 *
 * Changes are collected in memory, and written in a subtransaction.  A row that the database
 * refuses is found by halving the range.
 */
#include "postgres.h"

#include <limits.h>

#include "common/clock.h"
#include "config/spi.h"
#include "core/syntax/nsid_code.h"
#include "core/syntax/printable.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "tables/base/derived.h"
#include "tables/base/error_class.h"
#include "tables/direct/direct.h"
#include "tables/repos/dead_letter.h"
#include "tables/export/merge.h"
#include "tables/export/merge_compare.h"
#include "tables/apply/passed.h"
#include "tables/records/link_count.h"
#include "tables/records/record.h"
#include "tables/export/stored_rows.h"
#include "tables/apply/validate.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* A step is written when its values have so many bytes, even if the caller allows more rows. */
#define STEP_BYTES	(4 * 1024 * 1024)

/* Memory of a dead letter, besides its bytes and path. */
#define LETTER_BYTES	256

/*
 * A transaction with more subtransactions overflows PostgreSQL's shared cache, and then all
 * sessions have to look up the subtransactions on disk.
 */
#define SUBTRANSACTIONS_MAX	64

/* Records compared between two looks at the clock. */
#define LOOK		256

#ifdef ATP_INJECTION_POINTS

/* For tests: a slice ends after so many paths; 0: no limit. */
static int	slice_paths;

void
atp_merge_init(void)
{
	DefineCustomIntVariable("atproto.test_merge_slice",
							"For tests: number of paths after which a slice of an export ends.",
							NULL, &slice_paths, 0, 0, INT_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
}

#else

#define slice_paths		0

#endif

/* Retries of a row whose error may be caused by the schema instead. */
#define SUSPECT_TRIES	2

typedef struct MergeSuspect
{
	int			row;			/* index in the step's batch */
	ErrorData  *error;
} MergeSuspect;

struct AtpMerge
{
	MemoryContext cxt;
	const AtpSubscription *sub;
	AtpStatements *statements;
	AtpExport  *export;
	AtpEvent	event;			/* stands for the export in dead letters and rows */
	bool		direct;			/* new rows may be inserted without a statement (direct.h) */

	AtpMergeCompare compare;	/* of tree and table */
	int64		expected;		/* rows the table must have at the end, if no trigger or policy
								 * keeps rows out */
	bool		rested;			/* the merge was interrupted, and the rows were read on behind the
								 * last path */
	AtpStoredRows *counted;		/* rows being counted at the end; NULL: not begun */
	int64		count;

	/* the current step */
	AtpBatch   *batch;
	Size		bytes;
	struct varlena *collection; /* collection of the last row, in the batch's memory */

	AtpMerged	merged;
	AtpMerged	step;			/* changes of the current step; added to merged once written */
	List	   *suspects;		/* Suspects of the current step */
	bool		passed[ATP_PASSED_KINDS];	/* rows of these kinds were written */

	/* what the transaction has to add to the counts of links, for atp_merge_counts() */
	struct AtpLinkCounts *counts;
	int			ncounts;
};

AtpMerge *
atp_merge_begin(MemoryContext parent, const AtpSubscription *sub, AtpStatements *statements,
				AtpExport *e, struct varlena *did)
{
	AtpMerge   *m = MemoryContextAllocZero(parent, sizeof(AtpMerge));

	m->cxt = AllocSetContextCreate(parent, "atproto merge", ALLOCSET_DEFAULT_SIZES);
	m->sub = sub;
	m->statements = statements;
	m->export = e;
	m->direct = true;
	m->event.did = did;
	m->event.rev = atp_export_head(e)->rev; /* new_row() copies the export's revision into each row */
	m->batch = atp_batch_create(m->cxt);
	atp_record_event_check(sub, statements);
	atp_compare_begin(&m->compare, m->cxt, statements, &sub->settings, e, did);
	return m;
}

void
atp_merge_free(AtpMerge *m)
{
	MemoryContextDelete(m->cxt);
	pfree(m);
}

AtpMerged
atp_merge_done(const AtpMerge *m)
{
	return m->merged;
}

/* ------------------------------------------------------------------------
 * Changes of a step
 * ------------------------------------------------------------------------
 */
static AtpBytes
copy_bytes(AtpBytes bytes)
{
	uint8_t    *copy = palloc(Max(bytes.len, 1));

	memcpy(copy, bytes.ptr, bytes.len);
	return (AtpBytes) {copy, bytes.len};
}

static AtpSpan
copy_path(AtpBytes path)
{
	AtpBytes	copy = copy_bytes(path);

	return (AtpSpan) {(const char *) copy.ptr, copy.len};
}

/* The collection's value, shared by consecutive rows of a collection. */
static struct varlena *
collection_of(AtpMerge *m, AtpSpan name)
{
	if (m->collection == NULL || atp_nsid_text_cmp(atp_nsid_span(m->collection), name) != 0)
		m->collection = atp_nsid_make(name.ptr, name.len);
	return m->collection;
}

static AtpRecordRow *
new_row(AtpMerge *m, AtpAction action, AtpSpan collection, AtpBytes path)
{
	AtpRow	   *row = atp_batch_new_row(m->batch);

	row->path = copy_path(path);
	row->record = (AtpRecordRow) {
		.action = action, .did = m->event.did, .collection = collection_of(m, collection), .rev = m->event.rev,
		.rkey = atp_rkey_make(row->path.ptr + collection.len + 1, row->path.len - collection.len - 1)
	};
	return &row->record;
}

static AtpBytes
tree_path(const AtpMerge *m)
{
	return (AtpBytes) {(const uint8_t *) m->compare.record.path.ptr, m->compare.record.path.len};
}

/*
 * Make a dead letter of a record that cannot be stored.  The tree's path may have any bytes, the
 * letter's path must be text.
 */
static void
add_letter(AtpMerge *m, AtpErr err, AtpBytes block, size_t at)
{
	AtpEvent	event = m->event;
	AtpSpan		path = copy_path(tree_path(m));
	AtpDeadLetter *letter;

	atp_make_printable(unconstify(char *, path.ptr), path.len);
	event.message = copy_bytes(block);
	letter = atp_dead_letter(m->batch, "record", &event, err, at);
	letter->path = path;
	/* the letter outlives this event, which only stands for the export */
	letter->event = NULL;
	m->merged.refused++;
	m->bytes += block.len + path.len + LETTER_BYTES;
}

/* Make a dead letter of the last row, which its Lexicon does not allow. */
static void
drop_row(AtpMerge *m, AtpBytes block)
{
	const AtpRow *row = &m->batch->rows[--m->batch->nrows];

	(void) atp_validate_dead_letter(m->batch, copy_bytes(block), NULL, row);
	m->merged.refused++;
	m->bytes += block.len + row->path.len + LETTER_BYTES;
}

/*
 * Write the current record of the tree.  A fault of the record becomes a dead letter, as on a
 * stream.
 */
static void
put_record(AtpMerge *m, AtpAction action)
{
	AtpBytes	block;
	AtpRecordRow *row;
	struct varlena *value = NULL;
	bytea	   *raw = NULL;
	size_t		at;
	AtpErr		err;

	if (!m->sub->settings.actions[action])
		return;
	if (!atp_export_block(m->export, m->compare.record.cid, &block))
		atp_export_error(m->export);
	err = atp_make_record(block, &m->sub->settings, &value, &raw, &at);
	if (err != ATP_OK)
	{
		add_letter(m, err, block, at);
		return;
	}
	row = new_row(m, action, m->compare.record.collection, tree_path(m));
	row->cid = atp_cidlink_make(m->compare.record.cid.ptr, m->compare.record.cid.len);
	row->value = value;
	row->raw = raw;
	if (!atp_validate_row(&m->sub->settings, row))
	{
		drop_row(m, block);
		return;
	}
	m->bytes += (value != NULL ? VARSIZE(value) : 0) + (raw != NULL ? VARSIZE(raw) : 0);
	*(action == ATP_CREATE ? &m->step.created : &m->step.updated) += 1;
	m->expected += action == ATP_CREATE;
}

static void
remove_row(AtpMerge *m, const AtpStoredRow *row)
{
	if (!m->sub->settings.actions[ATP_DELETE])
	{
		m->expected++;
		return;
	}
	(void) new_row(m, ATP_DELETE, atp_nsid_span(row->collection), row->path);
	m->step.deleted++;
}

/*
 * B-65: the path of the record has no valid collection, so no row can have this path.  A dead
 * letter is made only if the subscription wants all collections.
 */
static void
pass_path(AtpMerge *m)
{
	AtpBytes	block;

	if (m->sub->settings.ncollections >= 0)
		return;
	if (!atp_export_block(m->export, m->compare.record.cid, &block))
		atp_export_error(m->export);
	add_letter(m, ATP_E_PATH, block, 0);
}

/* Compare the next path of tree and table; false: both are at their ends. */
static bool
compare_one(AtpMerge *m)
{
	const AtpStoredRow *row;
	AtpCompared where = atp_compare_look(&m->compare, &row);

	switch (where)
	{
		case ATP_COMPARED_END:
			return false;
		case ATP_COMPARED_INVALID:
			pass_path(m);
			break;
		case ATP_COMPARED_UNWANTED:
			break;
		case ATP_COMPARED_TREE:
			put_record(m, ATP_CREATE);
			break;
		case ATP_COMPARED_TABLE:
			remove_row(m, row);
			break;
		case ATP_COMPARED_BOTH:
			m->expected++;
			if (atp_compare_is_same(&m->compare, row))
				m->merged.same++;
			else
				put_record(m, ATP_UPDATE);
	}
	atp_compare_next(&m->compare, where);
	return true;
}

/* ------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------
 */
/* rows of an export have no sequence number of the stream. */
static void
write_range(AtpApply *a, int lo, int hi)
{
	AtpRecords *records = atp_records_begin(a, hi - lo);

	for (int i = lo; i < hi; i++)
		atp_records_queue(records, &a->batch->rows[i].record, ATP_SEQ_NONE, false);
	atp_records_flush(records);
}

/*
 * Make a dead letter of a row that the database refused.  Its bytes are the record's block; for a
 * deletion, the block of the commit whose tree lacks the record.
 */
static void
refuse_row(AtpMerge *m, AtpApply *a, const AtpRow *row, const ErrorData *error)
{
	AtpDeadLetter *letter;
	AtpBytes	block;
	AtpBytes	cid = atp_export_head_cid(m->export);

	if (row->record.cid != NULL)
		cid = (AtpBytes) {(const uint8_t *) VARDATA_ANY(row->record.cid), VARSIZE_ANY_EXHDR(row->record.cid)};
	if (!atp_export_block(m->export, cid, &block))
		atp_export_error(m->export);
	letter = atp_batch_new_dead_letter(a->batch, "apply", copy_bytes(block), 0);
	strlcpy(letter->sqlstate, unpack_sql_state(error->sqlerrcode), sizeof(letter->sqlstate));
	letter->text = atp_error_text(error);
	letter->did = m->event.did;
	letter->path = row->path;
	m->merged.refused++;
	switch (row->record.action)
	{
		case ATP_CREATE:
			m->step.created--;
			m->expected--;
			break;
		case ATP_UPDATE:
			m->step.updated--;
			break;
		case ATP_DELETE:
			m->step.deleted--;
			m->expected++;
			break;
	}
}

static AtpPassed
passed_kind(const AtpRow *row)
{
	return row->record.action == ATP_DELETE ? ATP_PASSED_REMOVED : ATP_PASSED_PUT;
}

static void
note_passed(AtpMerge *m, const AtpApply *a, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
		m->passed[passed_kind(&a->batch->rows[i])] = true;
	for (int kind = 0; kind < ATP_PASSED_KINDS; kind++)
		if (m->passed[kind])
			atp_passed_note(atp_target(m->statements), kind);
}

/*
 * The error of this row may be caused by the schema: judge_suspects() decides after the remaining
 * rows of the step.
 */
static void
suspect_row(AtpMerge *m, int row, ErrorData *error)
{
	MergeSuspect *suspect = palloc(sizeof(MergeSuspect));

	*suspect = (MergeSuspect) {row, error};
	m->suspects = lappend(m->suspects, suspect);
}

/*
 * A suspect row becomes a dead letter if rows of its kind were written, in this export or before by
 * this process (passed.h), and if the row fails twice more.  Otherwise the schema is probably
 * wrong, and the whole export fails with the row's error.
 */
static void
judge_suspects(AtpMerge *m, AtpApply *a)
{
	ListCell   *lc;

	foreach(lc, m->suspects)
	{
		const MergeSuspect *suspect = lfirst(lc);
		const AtpRow *row = &a->batch->rows[suspect->row];
		ErrorData  *error = suspect->error;

		if (!m->passed[passed_kind(row)] && !atp_has_passed(atp_target(m->statements), passed_kind(row)))
			ReThrowError(error);
		for (int i = 0; i < SUSPECT_TRIES && error != NULL; i++)
			error = atp_attempt(a, write_range, suspect->row, suspect->row + 1);
		if (error != NULL)
			refuse_row(m, a, row, error);
	}
	m->suspects = NIL;
}

/* Write a range of rows; halve the range if the database refuses a row. */
static void
write_rows(AtpMerge *m, AtpApply *a, int lo, int hi)
{
	ErrorData  *error = atp_attempt(a, write_range, lo, hi);
	int			mid = lo + (hi - lo) / 2;

	CHECK_FOR_INTERRUPTS();
	/*
	 * a row exists already, maybe uncommitted: direct insertion cannot wait for that transaction,
	 * statements can
	 */
	if (error != NULL && error->sqlerrcode == ATP_ERRCODE_CONFLICT && a->direct)
	{
		a->direct = m->direct = false;
		error = atp_attempt(a, write_range, lo, hi);
	}
	if (error == NULL)
	{
		a->subxacts++;
		note_passed(m, a, lo, hi);
	}
	else if (!atp_error_may_be_row(a, error))
		ReThrowError(error);
	else if (hi - lo == 1 && atp_error_class(error->sqlerrcode) != ATP_ERROR_ROW)
		suspect_row(m, lo, error);
	else if (hi - lo == 1)
		refuse_row(m, a, &a->batch->rows[lo], error);
	else
	{
		write_rows(m, a, lo, mid);
		write_rows(m, a, mid, hi);
	}
}

/* Write the current step; returns the number of subtransactions used. */
static int
write_step(AtpMerge *m)
{
	AtpApply	a = {
		.sub = m->sub, .sink = &atp_repos_sink, .statements = m->statements, .batch = m->batch,
		.direct = m->direct, .counts = m->counts, .ncounts = m->ncounts,
		/* the rows become those of the export, whatever wrote them: nothing but an export is newer than the repository */
		.force = true
	};

	/* allocations live as long as the step */
	MemoryContext old = MemoryContextSwitchTo(m->batch->cxt);

	atp_derived_prepare(&a);
	if (m->batch->nrows > 0)
		write_rows(m, &a, 0, m->batch->nrows);
	judge_suspects(m, &a);
	atp_dead_letters_store(&a, m->batch->letters);
	m->counts = a.counts;
	m->ncounts = a.ncounts;
	MemoryContextSwitchTo(old);
	m->merged.created += m->step.created;
	m->merged.updated += m->step.updated;
	m->merged.deleted += m->step.deleted;
	m->step = (AtpMerged) {0};
	m->bytes = 0;
	m->collection = NULL;
	atp_batch_reset(m->batch);
	return a.subxacts;
}

/* Collect changes until the step is full or the time is over.  False: no changes are left. */
static bool
fill_step(AtpMerge *m, int rows, AtpTime until)
{
	MemoryContext old = MemoryContextSwitchTo(m->batch->cxt);
	bool		more = true;

	for (int i = 1; more && m->batch->nrows < rows && m->bytes < STEP_BYTES; i++)
	{
		more = compare_one(m);
		if (i == slice_paths)
			break;
		if (i % LOOK != 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (atp_now() >= until)
			break;
	}
	MemoryContextSwitchTo(old);
	return more;
}

/* ------------------------------------------------------------------------
 * Counting the rows
 * ------------------------------------------------------------------------
 */

/*
 * May a rule, policy or row trigger of the user keep rows out of the table, or change their keys?
 * Then counting rows proves nothing.
 */
static bool
keeps_rows_out(const AtpMerge *m)
{
	Oid			table = atp_target_table(m->statements, "record");

	return atp_run("SELECT FROM pg_catalog.pg_class c WHERE c.oid = $1 AND (c.relkind NOT IN ('r', 'p') OR c.relhasrules OR c.relrowsecurity"
				   "  OR EXISTS (SELECT FROM pg_catalog.pg_trigger t"
				   "   WHERE t.tgrelid IN (SELECT c.oid UNION ALL SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p)"
				   "    AND NOT t.tgisinternal AND t.tgtype & 3 = 3))",
				   ATP_ARGS((AtpArg) {ObjectIdGetDatum(table), OIDOID, false})) > 0;
}

/*
 * between two slices any session could write to the table, behind the position up to which
 * the merge had read.  So before the repository counts as synchronized, the rows are counted.
 * False: the count is not finished.
 */
static bool
count_rows(AtpMerge *m, AtpTime until)
{
	if (m->counted == NULL)
		m->counted = atp_stored_begin(m->cxt, m->statements, &m->sub->settings, m->event.did);
	while (atp_stored_row(m->counted) != NULL)
	{
		atp_stored_next(m->counted);
		if (++m->count % LOOK != 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (atp_now() >= until)
		{
			atp_stored_rest(m->counted);
			return false;
		}
	}
	/*
	 * a class of errors that is not retried with this export (error_class.c): the export is fetched
	 * again
	 */
	if (m->count != m->expected && !keeps_rows_out(m))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("the repository has " INT64_FORMAT " rows after an export that makes " INT64_FORMAT,
						m->count, m->expected),
				 errdetail("Its rows were changed while the export came into the tables.")));
	return true;
}

void
atp_merge_counts(AtpMerge *m)
{
	AtpApply	a = {.sub = m->sub, .statements = m->statements, .counts = m->counts, .ncounts = m->ncounts};

	m->counts = NULL;
	m->ncounts = 0;
	atp_link_counts_write(&a);
}

bool
atp_merge_some(AtpMerge *m, int rows, int64 changes, AtpTime until)
{
	int64		before = m->merged.created + m->merged.updated + m->merged.deleted + m->merged.refused;
	int			subtransactions = 0;
	bool		more = m->counted == NULL;

	while (more)
	{
		more = fill_step(m, rows, until);
		subtransactions += write_step(m);
		if (more && (atp_now() >= until || subtransactions >= SUBTRANSACTIONS_MAX || slice_paths > 0 ||
					 m->merged.created + m->merged.updated + m->merged.deleted + m->merged.refused - before >= changes))
		{
			m->rested = true;
			break;
		}
	}
	if (!more && m->rested)
		more = !count_rows(m, until);
	atp_compare_rest(&m->compare);
	return more;
}
