/*
 * change_position.c
 *		The position after a transaction: in WAL, and in the streams of the sources (O-23).
 */
#include "postgres.h"

#include "changes/change_position.h"
#include "changes/change_write.h"
#include "utils/memutils.h"

static AtpChangeSource *
find_source(const AtpChangeTxn *txn, const char *subscription, const char *endpoint, int32 shard)
{
	ListCell   *cell;

	foreach(cell, txn->sources)
	{
		AtpChangeSource *source = lfirst(cell);

		if (source->shard == shard && strcmp(source->subscription, subscription) == 0 && strcmp(source->endpoint, endpoint) == 0)
			return source;
	}
	return NULL;
}

static AtpChangeSource *
add_source(AtpChangeTxn *txn, const char *subscription, const char *endpoint, int32 shard)
{
	MemoryContext before = MemoryContextSwitchTo(txn->context);
	AtpChangeSource *source = palloc0(sizeof(AtpChangeSource));

	source->subscription = pstrdup(subscription);
	source->endpoint = pstrdup(endpoint);
	source->shard = shard;
	txn->sources = lappend(txn->sources, source);
	MemoryContextSwitchTo(before);
	return source;
}

/* A cursor without a seq has not begun. */
void
atp_change_of_cursor(const AtpRowChange *change)
{
	const AtpChangeRow *row = change->has;
	char	   *subscription,
			   *endpoint;
	int32		shard;
	AtpChangeSource *source;

	if (row == NULL || row->nulls[ATP_CURSOR_SEQ])
		return;
	subscription = atp_change_text(row, ATP_CURSOR_SUBSCRIPTION);
	endpoint = atp_change_text(row, ATP_CURSOR_ENDPOINT);
	shard = DatumGetInt32(row->values[ATP_CURSOR_SHARD]);
	source = find_source(change->txn, subscription, endpoint, shard);
	if (source == NULL)
		source = add_source(change->txn, subscription, endpoint, shard);
	source->seq = DatumGetInt64(row->values[ATP_CURSOR_SEQ]);
}

void
atp_change_tell_position(const AtpChanges *changes, AtpChangeTxn *txn, TimestampTz time)
{
	StringInfo	out = atp_message_begin(changes, txn, "position", NULL, NULL);
	ListCell   *cell;

	appendStringInfoString(out, ",\"time\":");
	atp_append_time(out, time);
	appendStringInfoString(out, ",\"sources\":[");
	foreach(cell, txn->sources)
	{
		const AtpChangeSource *source = lfirst(cell);

		appendStringInfoString(out, foreach_current_index(cell) > 0 ? ",{" : "{");
		atp_append_text(out, "", "subscription", source->subscription);
		appendStringInfo(out, ",\"cursor\":" INT64_FORMAT, source->seq);
		atp_append_text(out, ",", "endpoint", source->endpoint);
		if (source->shard != 0)
			appendStringInfo(out, ",\"shard\":%d", source->shard);
		appendStringInfoChar(out, '}');
	}
	appendStringInfoChar(out, ']');
	atp_message_end(changes);
}
