/*
 * apply_message.c
 *		Events into tables: messages kept as jsonb.
 */
#include "postgres.h"

#include "stream/apply_message.h"
#include "stream/statements.h"
#include "utils/builtins.h"

/* Rows [lo, hi) of the batch, which belong to events from first on. */
static void
insert_rows(Apply *a, int lo, int hi, int first)
{
	AtpBatch   *batch = a->batch;
	int			n = hi - lo;
	Datum	   *seqs = palloc(sizeof(Datum) * n);
	Datum	   *types = palloc(sizeof(Datum) * n);
	Datum	   *payloads = palloc(sizeof(Datum) * n);
	Datum	   *raws = palloc(sizeof(Datum) * n);
	bool	   *no_seq = palloc(sizeof(bool) * n);
	bool	   *no_payload = palloc(sizeof(bool) * n);
	bool	   *no_raw = palloc(sizeof(bool) * n);
	Datum		args[5];

	for (int i = 0; i < n; i++)
	{
		const AtpMessageRow *row = &batch->rows[lo + i].message;

		while (batch->events[first].first_row + batch->events[first].nrows <= lo + i)
			first++;
		seqs[i] = Int64GetDatum(batch->events[first].seq);
		no_seq[i] = batch->events[first].seq == 0;
		types[i] = PointerGetDatum(row->type);
		payloads[i] = PointerGetDatum(row->payload);
		no_payload[i] = row->payload == NULL;
		raws[i] = PointerGetDatum(row->raw);
		no_raw[i] = row->raw == NULL;
	}
	args[0] = CStringGetTextDatum(a->sub->name);
	args[1] = atp_array(ATP_ARRAY_INT8, seqs, no_seq, n);
	args[2] = atp_array(ATP_ARRAY_TEXT, types, NULL, n);
	args[3] = atp_array(ATP_ARRAY_JSONB, payloads, no_payload, n);
	args[4] = atp_array(ATP_ARRAY_BYTEA, raws, no_raw, n);
	(void) atp_execute(ATP_SQL_ADD_MESSAGES, args, NULL);
	a->rows += n;
}

void
atp_apply_messages(Apply *a, int lo, int hi)
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

void
atp_apply_messages_row(Apply *a, int row, int event)
{
	insert_rows(a, row, row + 1, event);
}
