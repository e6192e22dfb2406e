/*
 * label.c
 *		The table label, and the sink for events of subscribeLabels.
 *
 * Signatures are label_judge.c's task.  Invariant: the table has a row for each (subject, labeler, value), and the
 * row is the label with the latest creation time, or the later event if creation times are equal, whatever the
 * order in which labels come (F-33).  A repeated label changes nothing.
 */
#include "postgres.h"

#include "tables/base/keyset.h"
#include "tables/apply/label_judge.h"
#include "tables/base/rows.h"
#include "tables/base/sink.h"
#include "utils/timestamp.h"

static const AtpColumn columns[] = {
	{"src", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "DID of the labeler"},
	{"uri", ATP_TYPE_TEXT, ATP_KEY, "NOT NULL", "subject: an AT URI or a DID"},
	{"val", ATP_TYPE_TEXT, ATP_KEY, "NOT NULL", "the label itself, such as spam"},
	{"cid", ATP_TYPE_CID, ATP_VALUE, NULL, "version of the subject that the label is about; NULL: all versions"},
	{"neg", ATP_TYPE_BOOL, ATP_VALUE, "NOT NULL", "true: the label was taken back"},
	{"cts", ATP_TYPE_TIMESTAMP, ATP_VALUE, "NOT NULL", "when the labeler created the label"},
	{"exp", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL, "when the label expires; NULL: never"},
	{"ver", ATP_TYPE_INT4, ATP_VALUE, NULL, "version of the label's format"},
	{"sig", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "the labeler's signature of the label"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL, "sequence number of the event with the label"},
	{"verified", ATP_TYPE_BOOL, ATP_VALUE, NULL, "true: at level full, the labeler's signature was verified; null: not checked"},
	{"indexed_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database stored the label"},
};

static const AtpStatement put_labels = {
	"INSERT INTO #.label AS l ({columns}) SELECT * FROM unnest({arrays})"
	" ON CONFLICT (uri, src, val) DO UPDATE SET {set excluded}, indexed_at = excluded.indexed_at"
	" WHERE (excluded.cts, excluded.seq) > (l.cts, l.seq)"
	/* a label that is stored unverified may come again and be verified */
	" OR (excluded.verified AND l.verified IS NULL AND (excluded.cts, excluded.seq) = (l.cts, l.seq))",
	SPI_OK_INSERT, {0}, {0}, &atp_label_table, ATP_ROWS_IN
};

const AtpTable atp_label_table = {
	.name = "label",
	.use = ATP_USE_LABELS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "PRIMARY KEY (uri, src, val)",
	.comment = "the last label of each labeler on each subject with each value, negations included",
	.view = "current_label",
	.view_query = "SELECT * FROM #.label WHERE NOT neg AND (exp IS NULL OR exp > now())",
	.view_comment = "labels that hold now: not taken back, not expired",
	.statements = &put_labels,
	.nstatements = 1,
	.shard_by = "uri",
};

typedef struct Labels
{
	AtpApply   *apply;
	AtpKeySet  *keys;
	const AtpLabelRow **rows;
	int64	   *seqs;
	int			n;
} Labels;

static void
flush_labels(Labels *l)
{
	AtpStatements *set = l->apply->statements;
	AtpRows    *rows = atp_rows_of(set, &atp_label_table, l->n);
	Datum		args[ATP_STATEMENT_ARGS];

	if (l->n == 0)
		return;
	for (int i = 0; i < l->n; i++)
	{
		const AtpLabelRow *row = l->rows[i];

		atp_put_ref(rows, row->src);
		atp_put_ref(rows, row->uri);
		atp_put_ref(rows, row->val);
		atp_put_ref(rows, row->cid);
		atp_put(rows, BoolGetDatum(row->neg), false);
		atp_put(rows, TimestampTzGetDatum(row->cts), false);
		atp_put(rows, TimestampTzGetDatum(row->exp), !row->has_exp);
		atp_put(rows, Int32GetDatum(row->ver), row->ver < 0);
		atp_put_ref(rows, row->sig);
		atp_put(rows, Int64GetDatum(l->seqs[i]), false);
		atp_put(rows, BoolGetDatum(true), row->part == NULL);
	}
	atp_rows_bind(rows, args);
	/* a label that is not newer than the stored one changes no row */
	l->apply->skips[ATP_SKIP_OLD] += l->n - (int64) atp_execute(set, &put_labels, args, NULL);
	l->n = 0;
	atp_keyset_clear(l->keys);
}

static void
begin_labels(Labels *l, AtpApply *apply, int n)
{
	l->apply = apply;
	l->keys = atp_keyset_create(n);
	l->rows = palloc(sizeof(AtpLabelRow *) * Max(n, 1));
	l->seqs = palloc(sizeof(int64) * Max(n, 1));
	l->n = 0;
}

static void
queue_label(Labels *l, const AtpLabelRow *row, int64 seq)
{
	AtpKey		key = {{row->uri, row->src, row->val}};

	if (row->blocked || !atp_label_is_taken(row))
		return;
	if (!atp_keyset_add(l->keys, key))
	{
		flush_labels(l);
		(void) atp_keyset_add(l->keys, key);
	}
	l->seqs[l->n] = seq;
	l->rows[l->n++] = row;
	l->apply->rows++;
}

static void
apply_labels(AtpApply *apply, int lo, int hi)
{
	Labels		l;
	int			n = 0;

	atp_labels_judge(apply, lo, hi);
	atp_labels_count(apply, lo, hi);
	for (int i = lo; i < hi; i++)
		n += apply->batch->events[i].nrows;
	begin_labels(&l, apply, n);
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &apply->batch->events[i];

		for (int r = 0; r < event->nrows; r++)
			queue_label(&l, &apply->batch->rows[event->first_row + r].label, event->seq);
	}
	flush_labels(&l);
}

static void
apply_label(AtpApply *apply, int row, int event)
{
	Labels		l;

	begin_labels(&l, apply, 1);
	queue_label(&l, &apply->batch->rows[row].label, apply->batch->events[event].seq);
	flush_labels(&l);
}

static bool
accepts_labels(AtpApply *apply, int event)
{
	atp_labels_judge(apply, event, event + 1);
	return !apply->batch->events[event].ignored;
}

/* The rows were written by apply_label() according to the verdicts, so only the verdicts are left to be counted. */
static void
apply_rest(AtpApply *apply, int event, int unused)
{
	atp_labels_count(apply, event, event + 1);
}

/* Labels may come in any order, so a replayed label counts as new; at level full each row is judged by row_standing(). */
static AtpStanding
label_standing(AtpApply *apply, int event)
{
	return apply->batch->events[event].nparts > 0 ? ATP_STANDING_LAST : ATP_STANDING_NEW;
}

static AtpStanding
row_standing(AtpApply *apply, int index)
{
	const AtpLabelRow *row = &apply->batch->rows[index].label;
	AtpEvent   *event = &apply->batch->events[0];

	atp_labels_judge(apply, 0, 1);
	if (atp_label_is_taken(row))
		return ATP_STANDING_NEW;
	/* atp_admission_reason() reads the reason from the event */
	event->verdict.judged = row->part->verdict.judged == ATP_JUDGED_IGNORED ? ATP_JUDGED_IGNORED : ATP_JUDGED_HELD;
	event->verdict.why_held = row->signature == NULL ? ATP_HELD_SIGNATURE : row->part->verdict.why_held;
	return ATP_STANDING_UNJUDGED;
}

const AtpSink atp_labels_sink = {
	.uses = ATP_USE_LABELS,
	.apply = apply_labels,
	.accepts = accepts_labels,
	.apply_row = apply_label,
	.apply_rest = apply_rest,
	.reject_unsigned = atp_labels_reject_unsigned,
	.after_apply = atp_labels_after_apply,
	.standing = label_standing,
	.row_standing = row_standing,
};
