/*
 * batch.c
 *		Events between the socket and the tables: memory and bounds.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "stream/batch.h"
#include "utils/memutils.h"

const char	atp_stage_signature[] = "signature";

static const char *const skip_names[ATP_SKIP_COUNT] = {
	[ATP_SKIP_UNKNOWN] = "unknown",
	[ATP_SKIP_OVERLAP] = "overlap",
	[ATP_SKIP_FILTERED] = "filtered",
	[ATP_SKIP_OLD] = "old",
	[ATP_SKIP_INACTIVE] = "inactive",
	[ATP_SKIP_INVALID] = "invalid",
	[ATP_SKIP_BREAK] = "break",
	[ATP_SKIP_SKIPPED_REVS] = "skipped_revs",
	[ATP_SKIP_INCOMPLETE] = "incomplete",
	[ATP_SKIP_MISMATCH] = "mismatch",
	[ATP_SKIP_VERIFIED] = "verified",
	[ATP_SKIP_HELD] = "held",
	[ATP_SKIP_HELD_DROPPED] = "held_dropped",
	[ATP_SKIP_BAD_SIGNATURE] = "bad_signature",
	[ATP_SKIP_NO_IDENTITY] = "no_identity",
	[ATP_SKIP_OTHER_HOST] = "other_host",
	[ATP_SKIP_FORKED] = "forked",
	[ATP_SKIP_LINK_PATH] = "link_path",
	[ATP_SKIP_LINK_TARGET] = "link_target",
	[ATP_SKIP_LINK_SOURCE] = "link_source",
};

const char *
atp_skip_name(AtpSkip skip)
{
	return skip_names[skip];
}

static void
start(AtpBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);

	batch->messages = palloc(sizeof(AtpBytes) * ATP_BATCH_MESSAGES);
	batch->events = palloc(sizeof(AtpEvent) * ATP_BATCH_MESSAGES);
	batch->max_rows = ATP_BATCH_MESSAGES;
	batch->rows = palloc(sizeof(AtpRow) * batch->max_rows);
	MemoryContextSwitchTo(old);
	batch->nmessages = batch->ndecoded = batch->nevents = batch->nwanted = batch->nrows = 0;
	atp_on_time_reset(&batch->on_time);
	batch->letters = batch->gaps = NIL;
	memset(batch->skips, 0, sizeof(batch->skips));
	batch->time = 0;
	batch->shared = InvalidOid;
	batch->purge = batch->held = batch->released = batch->wished = false;
	batch->used = 0;
	batch->bytes = 0;
	batch->since = 0;
}

AtpBatch *
atp_batch_create(MemoryContext parent)
{
	AtpBatch   *batch = MemoryContextAllocZero(parent, sizeof(AtpBatch));

	batch->cxt = AllocSetContextCreate(parent, "atproto batch",
									   ATP_BATCH_KEPT, 1024 * 1024, ATP_BATCH_KEPT);
	start(batch);
	return batch;
}

void
atp_batch_reset(AtpBatch *batch)
{
	MemoryContextReset(batch->cxt);
	start(batch);
}

void
atp_batch_lend(AtpBatch *batch, uint8_t *buffer, size_t capacity)
{
	batch->lent = true;
	batch->buffer = buffer;
	batch->capacity = capacity;
	batch->used = 0;
}

bool
atp_batch_full(const AtpBatch *batch)
{
	return batch->nmessages >= ATP_BATCH_EVENTS || batch->bytes >= ATP_BATCH_BYTES;
}

bool
atp_batch_add(AtpBatch *batch, const uint8_t *data, size_t len)
{
	uint8_t    *copy;

	if (batch->nmessages >= ATP_BATCH_MESSAGES)
		return false;
	/*
	 * Memory that stays: what malloc gives back after each batch and takes
	 * again costs a page fault for each 4 kB received.
	 */
	if (batch->buffer == NULL && !batch->lent)
	{
		batch->buffer = MemoryContextAllocExtended(GetMemoryChunkContext(batch), ATP_BATCH_BYTES,
												   MCXT_ALLOC_NO_OOM);
		batch->capacity = batch->buffer ? ATP_BATCH_BYTES : 0;
	}
	if (len <= batch->capacity - batch->used)
	{
		copy = batch->buffer + batch->used;
		batch->used += len;
	}
	else if (batch->lent)
		return false;
	else
		copy = MemoryContextAllocExtended(batch->cxt, Max(len, 1), MCXT_ALLOC_NO_OOM);
	if (copy == NULL)
		return false;
	if (len > 0)
		memcpy(copy, data, len);
	atp_batch_add_shared(batch, (AtpBytes) {copy, len});
	return true;
}

void
atp_batch_add_shared(AtpBatch *batch, AtpBytes message)
{
	Assert(batch->nmessages < ATP_BATCH_MESSAGES);
	if (batch->nmessages == 0)
		batch->since = atp_now();
	batch->messages[batch->nmessages++] = message;
	batch->bytes += message.len;
}

uint64
atp_path_hash(AtpSpan path)
{
	return hash_bytes_extended((const unsigned char *) path.ptr, path.len, 0);
}

AtpRow *
atp_batch_new_row(AtpBatch *batch)
{
	if (batch->nrows == batch->max_rows)
	{
		batch->max_rows *= 2;
		batch->rows = repalloc(batch->rows, sizeof(AtpRow) * batch->max_rows);
	}
	return memset(&batch->rows[batch->nrows++], 0, sizeof(AtpRow));
}

void
atp_batch_new_gap(AtpBatch *batch, const AtpGap *gap)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	AtpGap	   *copy = palloc(sizeof(AtpGap));

	*copy = *gap;
	batch->gaps = lappend(batch->gaps, copy);
	MemoryContextSwitchTo(old);
}

AtpLetter *
atp_batch_new_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	AtpLetter  *letter = palloc0(sizeof(AtpLetter));

	letter->stage = stage;
	letter->seq = seq;
	letter->message = message;
	batch->letters = lappend(batch->letters, letter);
	batch->skips[ATP_SKIP_INVALID]++;
	MemoryContextSwitchTo(old);
	return letter;
}
