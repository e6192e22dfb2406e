/*
 * message.c
 *		The table message, and its sink: messages of streams without tables of their own, kept as jsonb.
 *
 * Invariant: a message with a sequence number is stored once for each subscription and stream.
 */
#include "postgres.h"

#include "tables/base/rows.h"
#include "tables/base/sink.h"
#include "utils/builtins.h"

static const AtpColumn columns[] = {
	{"id", ATP_TYPE_INT8, ATP_APART, "GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "number in the order in which the messages came"},
	{"subscription", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "the subscription that received the message"},
	{"endpoint", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "the stream of the message, as in atproto.cursor"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL,
	"sequence number in the stream; a message that is received again is not stored again; NULL: the stream has no sequence numbers"},
	{"type", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL", "type of the message in short form, such as #event"},
	{"payload", ATP_TYPE_JSONB, ATP_VALUE, NULL, "the message; NULL: jsonb cannot hold the message, see raw"},
	{"raw", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "DAG-CBOR of the message, if payload is NULL or the subscription has keep_raw"},
	{"received_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database stored the message"},
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
	/* no shard_by: the two unique keys have no column in common, but Citus needs the distribution column in each */
	.key = "UNIQUE (subscription, endpoint, seq)",
	.comment = "messages of streams that this extension has no tables for",
	.statements = &add_messages,
	.nstatements = 1,
};

/* Insert rows [lo, hi) of the batch; the rows belong to the events from index first on. */
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
	args[1] = CStringGetTextDatum(atp_apply_endpoint(a)->scope);
	atp_rows_bind(rows, args + 2);
	/* a repeated message has the same sequence number (E-43); without sequence numbers, repeats cannot be recognised (D30) */
	added = atp_execute(a->statements, &add_messages, args, NULL);
	a->rows += added;
	a->skips[ATP_SKIP_OLD] += hi - lo - added;
}

static void
apply_messages(AtpApply *a, int lo, int hi)
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
apply_message(AtpApply *a, int row, int event)
{
	insert_rows(a, row, row + 1, event);
}

const AtpSink atp_message_sink = {.uses = ATP_USE_MESSAGES, .apply = apply_messages, .apply_row = apply_message};
