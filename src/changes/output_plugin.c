/*
 * output_plugin.c
 *		The output plugin "atproto": the changes of the tables of all targets, for readers of a logical replication slot
 *		(O-20).
 *
 * doc/use/plugin.md has the messages and the options.  The plugin has no callbacks for transactions in progress: PostgreSQL
 * then keeps a large transaction on disk, and hands it over after its commit.  So each message can have the end of the commit
 * record, where a reader begins again.  Likewise a prepared transaction comes with COMMIT PREPARED.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "changes/announce.h"
#include "changes/change.h"
#include "changes/change_bounds.h"
#include "changes/change_position.h"
#include "changes/change_write.h"
#include "changes/untold.h"
#include "common/compat.h"
#include "data/error.h"
#include "types/types.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *cb);

static void
start_reader(LogicalDecodingContext *ctx, OutputPluginOptions *options, bool is_init)
{
	AtpChanges *changes = palloc0(sizeof(AtpChanges));

	/* messages are JSON */
	atp_require_utf8();
	changes->ctx = ctx;
	changes->options = atp_change_options(ctx->output_plugin_options);
	changes->row = AllocSetContextCreate(ctx->context, "atproto change", ALLOCSET_DEFAULT_SIZES);
	ctx->output_plugin_private = changes;
	options->output_type = OUTPUT_PLUGIN_TEXTUAL_OUTPUT;
	atp_change_tables_begin();
}

static void
begin_txn(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	MemoryContext context = AllocSetContextCreate(ctx->context, "atproto transaction", ALLOCSET_SMALL_SIZES);
	AtpChangeTxn *state = MemoryContextAllocZero(context, sizeof(AtpChangeTxn));

	state->context = context;
	state->repo_context = AllocSetContextCreate(context, "atproto repositories", ALLOCSET_SMALL_SIZES);
	state->lsn = txn->end_lsn;
	txn->output_plugin_private = state;
}

static void
commit_txn(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	AtpChanges *changes = ctx->output_plugin_private;
	AtpChangeTxn *state = txn->output_plugin_private;
	bool		tell;

	atp_tell_drops(changes, state);
	tell = state->n > 0 || (changes->options.positions && (state->sources != NIL || state->more_sources));
	OutputPluginUpdateProgress(ctx, !tell);
	if (tell)
		atp_change_tell_position(changes, state, ATP_COMMIT_TIME(txn));
	txn->output_plugin_private = NULL;
	MemoryContextDelete(state->context);
}

/* The columns of a row.  A large value that the UPDATE left alone is taken from the old row (was), if WAL has the value there. */
static void
read_row(AtpChangeRow *row, const AtpChangeTable *table, HeapTuple tuple, TupleDesc desc, const AtpChangeRow *was)
{
	Datum	   *values = palloc(sizeof(Datum) * desc->natts);
	bool	   *nulls = palloc(sizeof(bool) * desc->natts);

	heap_deform_tuple(tuple, desc, values, nulls);
	row->table = table;
	/* columns that tables of this kind do not have */
	memset(row->nulls, true, sizeof(row->nulls));
	for (int i = 0; i < atp_change_columns(table->kind); i++)
	{
		AttrNumber	attnum = table->attnums[i];
		bool		isnull = attnum == 0 || nulls[attnum - 1];
		Datum		value = isnull ? (Datum) 0 : values[attnum - 1];
		bool		left = !isnull && table->varlena[i] && VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value));
		bool		found = left && was != NULL && !was->nulls[i];

		row->unchanged[i] = left && !found;
		row->nulls[i] = isnull || row->unchanged[i];
		row->values[i] = found ? was->values[i] : value;
	}
}

/* The owner of a table may have dropped the primary key, or chosen another replica identity. */
static bool
has_key(const AtpChangeRow *row)
{
	bool		all = true;

	for (int i = 0; row != NULL && i < atp_change_key_columns(row->table->kind); i++)
		all &= !row->nulls[i];
	return all;
}

static void
tell_row(AtpRowChange *change)
{
	switch (change->table->kind)
	{
		case ATP_CHANGE_RECORD:
			atp_change_of_record(change);
			break;
		case ATP_CHANGE_REPO:
			atp_change_of_repo(change);
			break;
		case ATP_CHANGE_LABEL:
			atp_change_of_label(change);
			break;
		case ATP_CHANGE_CURSOR:
			atp_change_of_cursor(change);
			break;
		case ATP_CHANGE_NOTHING:
			break;
	}
}

bool
atp_change_is_wanted(const AtpChanges *changes, const AtpChangeTable *table)
{
	return table->kind == ATP_CHANGE_CURSOR ||
		(table->kind != ATP_CHANGE_NOTHING && atp_change_has_target(&changes->options, table->target));
}

bool
atp_change_is_asked(const AtpChanges *changes, const AtpChangeTable *table)
{
	static const int kinds[] = {
		[ATP_CHANGE_NOTHING] = 0,
		[ATP_CHANGE_RECORD] = ATP_CHANGE_COMMITS,
		[ATP_CHANGE_REPO] = ATP_CHANGE_IDENTITIES | ATP_CHANGE_ACCOUNTS,
		[ATP_CHANGE_LABEL] = ATP_CHANGE_LABELS,
		[ATP_CHANGE_CURSOR] = 0
	};

	return (changes->options.kinds & kinds[table->kind]) != 0 && atp_change_is_wanted(changes, table);
}

/* The owner has altered the table, WAL does not say which row was deleted, or a message would be too long. */
void
atp_change_tell_unknown(const AtpChanges *changes, AtpChangeTxn *txn, const AtpChangeTable *table)
{
	MemoryContext before;
	StringInfo	out;

	if (list_member_oid(txn->unknown, table->root) || !atp_change_is_asked(changes, table))
		return;
	before = MemoryContextSwitchTo(txn->context);
	txn->unknown = lappend_oid(txn->unknown, table->root);
	MemoryContextSwitchTo(before);
	out = atp_message_begin(changes, txn, "unknown", table->target, NULL);
	atp_append_text(out, ",", "table", table->name);
	atp_message_end(changes);
}

static void
change_row(AtpChanges *changes, AtpChangeTxn *txn, const AtpChangeTable *table, Relation relation, ReorderBufferChange *change)
{
	HeapTuple	had = ATP_CHANGE_TUPLE(change->data.tp.oldtuple);
	HeapTuple	has = ATP_CHANGE_TUPLE(change->data.tp.newtuple);
	AtpChangeRow old_row,
				new_row;
	AtpRowChange	told = {
		.changes = changes,
		.txn = txn,
		.table = table,
		.update = change->action == REORDER_BUFFER_CHANGE_UPDATE,
		.had = had != NULL ? &old_row : NULL,
		.has = has != NULL ? &new_row : NULL,
		.whole = relation->rd_rel->relreplident == REPLICA_IDENTITY_FULL
	};

	if (!table->readable || (had == NULL && has == NULL))
	{
		atp_change_tell_unknown(changes, txn, table);
		return;
	}
	if (had != NULL)
		read_row(&old_row, table, had, RelationGetDescr(relation), NULL);
	if (has != NULL)
		read_row(&new_row, table, has, RelationGetDescr(relation), told.had);
	if (has_key(told.had) && has_key(told.has))
		tell_row(&told);
	else
		atp_change_tell_unknown(changes, txn, table);
}

/*
 * Before 16, only the plugin can let the walsender look after the connection while a large transaction is decoded of which
 * little is told: the walsender asks the reader for an answer in time, and reads it.  As often as pgoutput.
 */
static void
keep_alive(LogicalDecodingContext *ctx)
{
	static int	calls = 0;

	if (!ATP_PLUGIN_KEEPS_ALIVE || ++calls < 100)
		return;
	calls = 0;
	OutputPluginUpdateProgress(ctx, false);
}

static void
tell_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation, ReorderBufferChange *change)
{
	AtpChanges *changes = ctx->output_plugin_private;
	const AtpChangeTable *table;
	MemoryContext before;

	keep_alive(ctx);
	before = MemoryContextSwitchTo(changes->row);
	atp_tell_drops_in_time(changes, txn->output_plugin_private);
	table = atp_change_table(relation);
	if (atp_change_is_wanted(changes, table))
		change_row(changes, txn->output_plugin_private, table, relation, change);
	MemoryContextSwitchTo(before);
	MemoryContextReset(changes->row);
}

/* Was the whole table truncated, or only a partition? */
static bool
has_root(int nrelations, Relation relations[], Oid root)
{
	for (int i = 0; i < nrelations; i++)
		if (RelationGetRelid(relations[i]) == root)
			return true;
	return false;
}

static void
tell_truncate(const AtpChanges *changes, AtpChangeTxn *txn, const AtpChangeTable *table, bool whole)
{
	StringInfo	out;

	/* the entry of the partitioned table stands for the partitions */
	if (whole && table->relid != table->root)
		return;
	out = atp_message_begin(changes, txn, whole ? "truncate" : "purge", table->target, NULL);
	atp_append_text(out, ",", "table", table->name);
	if (!whole)
		atp_append_partition(changes, out, table);
	atp_message_end(changes);
}

static void
truncate_tables(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int nrelations, Relation relations[], ReorderBufferChange *change)
{
	AtpChanges *changes = ctx->output_plugin_private;
	MemoryContext before;

	keep_alive(ctx);
	before = MemoryContextSwitchTo(changes->row);
	atp_tell_drops_in_time(changes, txn->output_plugin_private);
	for (int i = 0; i < nrelations; i++)
	{
		const AtpChangeTable *table = atp_change_table(relations[i]);

		if (atp_change_is_asked(changes, table))
			tell_truncate(changes, txn->output_plugin_private, table, has_root(nrelations, relations, table->root));
	}
	MemoryContextSwitchTo(before);
	MemoryContextReset(changes->row);
}

static void
hear_message(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn, bool transactional, const char *prefix, Size n, const char *message)
{
	AtpChanges *changes = ctx->output_plugin_private;
	MemoryContext before;

	keep_alive(ctx);
	if (!transactional || strcmp(prefix, ATP_ANNOUNCE_PREFIX) != 0 || n > ATP_ANNOUNCE_MAX)
		return;
	before = MemoryContextSwitchTo(changes->row);
	atp_hear_announcement(changes, txn->output_plugin_private, message, n);
	MemoryContextSwitchTo(before);
	MemoryContextReset(changes->row);
}

static bool
filter_origin(LogicalDecodingContext *ctx, AtpOriginId origin)
{
	return atp_is_untold(origin);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = start_reader;
	cb->begin_cb = begin_txn;
	cb->change_cb = tell_change;
	cb->truncate_cb = truncate_tables;
	cb->commit_cb = commit_txn;
	cb->message_cb = hear_message;
	cb->filter_by_origin_cb = filter_origin;
}
