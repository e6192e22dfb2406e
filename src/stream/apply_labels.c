/*
 * apply_labels.c
 *		Events into tables: labels.
 *
 * One row for each (subject, labeler, value); the latest creation time wins,
 * and of equal ones the later event, whatever the order in which labels come
 * (F-33).  The same label once more changes nothing.
 */
#include "postgres.h"

#include "stream/apply_labels.h"
#include "stream/keyset.h"
#include "stream/statements.h"
#include "utils/timestamp.h"

typedef struct Labels
{
	Apply	   *apply;
	AtpKeySet  *keys;
	const AtpLabelRow **rows;
	int64	   *seqs;
	int			n;
} Labels;

#define CELL(c)		((c) * max + n)

static void
flush_labels(Labels *l)
{
	static const AtpArrayType types[] = {
		ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_TEXT, ATP_ARRAY_CID, ATP_ARRAY_BOOL, ATP_ARRAY_TIMESTAMP,
		ATP_ARRAY_TIMESTAMP, ATP_ARRAY_INT4, ATP_ARRAY_BYTEA, ATP_ARRAY_INT8
	};
	const int	columns = lengthof(types);
	int			max = Max(l->n, 1);
	Datum	   *v = palloc(sizeof(Datum) * columns * max);
	bool	   *null = palloc0(sizeof(bool) * columns * max);
	Datum		args[lengthof(types)];

	if (l->n == 0)
		return;
	for (int n = 0; n < l->n; n++)
	{
		const AtpLabelRow *row = l->rows[n];

		v[CELL(0)] = PointerGetDatum(row->src);
		v[CELL(1)] = PointerGetDatum(row->uri);
		v[CELL(2)] = PointerGetDatum(row->val);
		v[CELL(3)] = PointerGetDatum(row->cid);
		null[CELL(3)] = row->cid == NULL;
		v[CELL(4)] = BoolGetDatum(row->neg);
		v[CELL(5)] = TimestampTzGetDatum(row->cts);
		v[CELL(6)] = TimestampTzGetDatum(row->exp);
		null[CELL(6)] = !row->has_exp;
		v[CELL(7)] = Int32GetDatum(row->ver);
		null[CELL(7)] = row->ver < 0;
		v[CELL(8)] = PointerGetDatum(row->sig);
		null[CELL(8)] = row->sig == NULL;
		v[CELL(9)] = Int64GetDatum(l->seqs[n]);
	}
	for (int c = 0; c < columns; c++)
		args[c] = atp_array(types[c], v + c * max, null + c * max, l->n);
	(void) atp_execute(ATP_SQL_PUT_LABELS, args, NULL);
	l->n = 0;
	atp_keyset_clear(l->keys);
}

static void
begin_labels(Labels *l, Apply *apply, int n)
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

	if (!atp_keyset_add(l->keys, key))
	{
		flush_labels(l);
		(void) atp_keyset_add(l->keys, key);
	}
	l->seqs[l->n] = seq;
	l->rows[l->n++] = row;
	l->apply->rows++;
}

void
atp_apply_labels(Apply *apply, int lo, int hi)
{
	Labels		l;
	int			n = 0;

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

void
atp_apply_labels_row(Apply *apply, int row, int event)
{
	Labels		l;

	begin_labels(&l, apply, 1);
	queue_label(&l, &apply->batch->rows[row].label, apply->batch->events[event].seq);
	flush_labels(&l);
}
