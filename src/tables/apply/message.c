/*
 * message.c
 *		The table message: messages kept as jsonb.
 */
#include "postgres.h"

#include "tables/base/rows.h"
#include "tables/base/sink.h"
#include "utils/builtins.h"

static const AtpColumn columns[] = {
	{"id", ATP_TYPE_INT8, ATP_APART, "GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "a number of its own, in the order in which they came"},
	{"subscription", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "that has brought it"},
	{"endpoint", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "stream that it is of, as in atproto.cursor"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL,
	"its number there: one that comes again is passed over; NULL: the stream has none"},
	{"type", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL", "short form, such as #event"},
	{"payload", ATP_TYPE_JSONB, ATP_VALUE, NULL, "the message; NULL where jsonb cannot hold it, see raw"},
	{"raw", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "its DAG-CBOR, where payload is NULL or the subscription keeps it"},
	{"received_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database took it in"},
};

static const AtpStatement add_messages = {
	"INSERT INTO #.message (subscription, endpoint, {columns}) SELECT $1, $2, * FROM unnest({arrays})"
	" ON CONFLICT (subscription, endpoint, seq) DO NOTHING",
	SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT}, {0}, &atp_message_table, ATP_ROWS_IN
};

const AtpTable atp_message_table = {
	.name = "message",
	.use = ATP_USE_MESSAGES,
	.columns = columns,
	.ncolumns = lengthof(columns),
	/* two keys without a column in common: no column says which server has a row (shard_by) */
	.key = "UNIQUE (subscription, endpoint, seq)",
	.comment = "messages of streams that this extension has no tables for",
	.statements = &add_messages,
	.nstatements = 1,
};

/* Rows [lo, hi) of the batch, which belong to events from first on. */
static void
insert_rows(AtpApply *a, int lo, int hi, int first)
{
	AtpBatch   *batch = a->batch;
	AtpRows    *rows = atp_rows_of(a->statements, &atp_message_table, hi - lo);
	Datum		args[ATP_STATEMENT_ARGS];
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
	added = atp_execute(a->statements, &add_messages, args, NULL);
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
