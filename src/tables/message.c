/*
 * message.c
 *		Events into tables: messages kept as jsonb.
 */
#include "postgres.h"

#include "tables/rows.h"
#include "tables/sink.h"
#include "tables/statements.h"
#include "utils/builtins.h"

/* Rows [lo, hi) of the batch, which belong to events from first on. */
static void
insert_rows(AtpApply *a, int lo, int hi, int first)
{
	static const AtpArrayType types[] = {ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA};
	AtpBatch   *batch = a->batch;
	AtpRows    *rows = atp_rows_create(types, lengthof(types), hi - lo);
	Datum		args[lengthof(types) + 2];
	int64		added;

	for (int i = lo; i < hi; i++)
	{
		const AtpMessageRow *row = &batch->rows[i].message;
		int64		seq;

		while (batch->events[first].first_row + batch->events[first].nrows <= i)
			first++;
		seq = batch->events[first].seq;
		atp_put(rows, Int64GetDatum(seq), seq == 0);
		atp_put_ref(rows, row->type);
		atp_put_ref(rows, row->payload);
		atp_put_ref(rows, row->raw);
	}
	args[0] = CStringGetTextDatum(a->sub->name);
	args[1] = CStringGetTextDatum(a->sub->ep->scope);
	atp_rows_bind(rows, args + 2);
	/* the same message once more has the same number (E-43); without numbers nothing is known of repeats (D30) */
	added = atp_execute(ATP_SQL_ADD_MESSAGES, args, NULL);
	a->rows += added;
	a->skips[ATP_SKIP_OLD] += hi - lo - added;
}

static void
apply(AtpApply *a, int lo, int hi)
{
	const AtpEvent *last;
	int			from;

	if (lo == hi)
		return;
	last = &a->batch->events[hi - 1];
	from = a->batch->events[lo].first_row;
	if (last->first_row + last->nrows > from)
		insert_rows(a, from, last->first_row + last->nrows, lo);
}

static void
apply_row(AtpApply *a, int row, int event)
{
	insert_rows(a, row, row + 1, event);
}

const AtpSink atp_message_sink = {.uses = ATP_USE_MESSAGES, .apply = apply, .apply_row = apply_row};
