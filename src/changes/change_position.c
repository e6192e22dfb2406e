/*
 * change_position.c
 *		The position after a transaction: in WAL, and in the streams of the sources (O-23).
 */
#include "postgres.h"

#include "changes/change_position.h"
#include "changes/change_size.h"
#include "changes/change_write.h"
#include "common/hashfn.h"
#include "utils/memutils.h"

typedef struct SourceKey
{
	const char *subscription;
	const char *endpoint;
	int32		shard;
} SourceKey;

/* How far the transaction has moved in the stream of a source. */
typedef struct MovedSource
{
	SourceKey	key;
	int64		seq;
} MovedSource;

/* Bytes of the message beside the sources, and of a source beside the two texts, at most. */
#define AROUND_SOURCES	256
#define AROUND_SOURCE	96

static uint32
hash_key(const void *a, Size size)
{
	const SourceKey *key = a;

	return hash_combine(hash_combine(string_hash(key->subscription, SIZE_MAX), string_hash(key->endpoint, SIZE_MAX)), key->shard);
}

static int
match_key(const void *a, const void *b, Size size)
{
	const SourceKey *one = a;
	const SourceKey *two = b;

	return one->shard != two->shard || strcmp(one->subscription, two->subscription) != 0 || strcmp(one->endpoint, two->endpoint) != 0;
}

static void
create_index(AtpChangeTxn *txn)
{
	HASHCTL		ctl = {
		.keysize = sizeof(SourceKey),
		.entrysize = sizeof(MovedSource),
		.hash = hash_key,
		.match = match_key,
		.hcxt = txn->context
	};

	txn->source_index = hash_create("atproto sources of a transaction", 16, &ctl, HASH_ELEM | HASH_FUNCTION | HASH_COMPARE | HASH_CONTEXT);
}

/* NULL: the source does not fit into the message. */
static MovedSource *
add_source(AtpChangeTxn *txn, const SourceKey *key, uint64 most)
{
	uint64		size = AROUND_SOURCE + atp_change_string_size(key->subscription, strlen(key->subscription)) +
		atp_change_string_size(key->endpoint, strlen(key->endpoint));
	MemoryContext before;
	SourceKey	copy;
	MovedSource *source;

	if (txn->source_size + size > most)
	{
		txn->more_sources = true;
		return NULL;
	}
	txn->source_size += size;
	before = MemoryContextSwitchTo(txn->context);
	copy = (SourceKey) {pstrdup(key->subscription), pstrdup(key->endpoint), key->shard};
	source = hash_search(txn->source_index, &copy, HASH_ENTER, NULL);
	txn->sources = lappend(txn->sources, source);
	MemoryContextSwitchTo(before);
	return source;
}

/* A cursor without a seq has not begun. */
void
atp_change_of_cursor(const AtpRowChange *change)
{
	const AtpChangeRow *row = change->has;
	AtpChangeTxn *txn = change->txn;
	SourceKey	key;
	MovedSource *source;

	if (row == NULL || row->nulls[ATP_CURSOR_SEQ])
		return;
	key.subscription = atp_change_text(row, ATP_CURSOR_SUBSCRIPTION);
	key.endpoint = atp_change_text(row, ATP_CURSOR_ENDPOINT);
	key.shard = DatumGetInt32(row->values[ATP_CURSOR_SHARD]);
	if (txn->source_index == NULL)
		create_index(txn);
	source = hash_search(txn->source_index, &key, HASH_FIND, NULL);
	if (source == NULL)
		source = add_source(txn, &key, change->changes->options.max_message - AROUND_SOURCES);
	if (source != NULL)
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
		const MovedSource *source = lfirst(cell);

		appendStringInfoString(out, foreach_current_index(cell) > 0 ? ",{" : "{");
		atp_append_text(out, "", "subscription", source->key.subscription);
		appendStringInfo(out, ",\"cursor\":" INT64_FORMAT, source->seq);
		atp_append_text(out, ",", "endpoint", source->key.endpoint);
		if (source->key.shard != 0)
			appendStringInfo(out, ",\"shard\":%d", source->key.shard);
		appendStringInfoChar(out, '}');
	}
	appendStringInfoChar(out, ']');
	if (txn->more_sources)
		appendStringInfoString(out, ",\"more\":true");
	atp_message_end(changes);
}
