/*
 * batch.c
 *		A batch of events between the socket and the tables: memory and bounds.
 */
#include "postgres.h"

#include "common/sha256.h"
#include "stream/batch.h"
#include "utils/memutils.h"

const char	atp_stage_signature[] = "signature";

static const char *const skip_names[ATP_SKIP_COUNT] = {
	[ATP_SKIP_UNKNOWN] = "unknown",
	[ATP_SKIP_OVERLAP] = "overlap",
	[ATP_SKIP_FILTERED] = "filtered",
	[ATP_SKIP_OLD] = "old",
	[ATP_SKIP_INACTIVE] = "inactive",
	[ATP_SKIP_BLOCKED] = "blocked",
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
start_batch(AtpBatch *batch)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);

	batch->messages = palloc(sizeof(AtpBytes) * ATP_BATCH_EVENTS);
	batch->events = palloc(sizeof(AtpEvent) * ATP_BATCH_EVENTS);
	batch->max_rows = ATP_BATCH_EVENTS;
	batch->rows = palloc(sizeof(AtpRow) * batch->max_rows);
	MemoryContextSwitchTo(old);
	batch->nmessages = batch->ndecoded = batch->nevents = batch->nwanted = batch->nrows = 0;
	atp_on_time_reset(&batch->on_time);
	batch->letters = batch->gaps = NIL;
	memset(batch->skips, 0, sizeof(batch->skips));
	batch->time = 0;
	batch->passed_at = 0;
	batch->shared = InvalidOid;
	batch->purge = batch->held = batch->released = batch->requested = false;
	batch->used = 0;
	batch->since = 0;
}

AtpBatch *
atp_batch_create(MemoryContext parent)
{
	AtpBatch   *batch = MemoryContextAllocZero(parent, sizeof(AtpBatch));

	batch->cxt = AllocSetContextCreate(parent, "atproto batch",
									   ATP_BATCH_KEPT, 1024 * 1024, ATP_BATCH_KEPT);
	start_batch(batch);
	return batch;
}

void
atp_batch_reset(AtpBatch *batch)
{
	MemoryContextReset(batch->cxt);
	start_batch(batch);
}

void
atp_batch_lend(AtpBatch *batch, uint8_t *buffer)
{
	/* the lender may take the buffer away, so save the incomplete message */
	if (buffer == NULL && batch->nopen > 0 && batch->kept == NULL)
		batch->kept = batch->open = memcpy(MemoryContextAlloc(GetMemoryChunkContext(batch), batch->nopen),
										   batch->open, batch->nopen);
	batch->lent = true;
	batch->buffer = buffer;
	batch->used = 0;
	if (buffer == NULL)
		return;
	if (batch->nopen > 0)
		batch->open = memcpy(buffer, batch->open, batch->nopen);
	if (batch->kept != NULL)
		pfree(batch->kept);
	batch->kept = NULL;
}

bool
atp_batch_full(const AtpBatch *batch)
{
	return batch->nmessages >= ATP_BATCH_EVENTS || batch->used >= ATP_BATCH_BYTES;
}

/*
 * Allocate the buffer if needed.  The buffer is kept from batch to batch: memory returned by free() and taken
 * again by malloc() would cost a page fault for every 4 kB received.
 */
static bool
has_buffer(AtpBatch *batch)
{
	if (batch->buffer == NULL && !batch->lent)
		batch->buffer = MemoryContextAllocExtended(GetMemoryChunkContext(batch), ATP_BATCH_ROOM, MCXT_ALLOC_NO_OOM);
	return batch->buffer != NULL;
}

/* Where the next bytes of the incomplete message belong. */
static uint8_t *
end_of_open(const AtpBatch *batch)
{
	return batch->nopen > 0 ? batch->open + batch->nopen : batch->buffer + batch->used;
}

uint8_t *
atp_batch_room(AtpBatch *batch, size_t *len)
{
	uint8_t    *end;

	if (!has_buffer(batch))
		return NULL;
	end = end_of_open(batch);
	*len = Min(ATP_DIAL_READ_MAX, batch->buffer + ATP_BATCH_ROOM - end);
	return end;
}

bool
atp_batch_put(AtpBatch *batch, const uint8_t *data, size_t len)
{
	uint8_t    *end;

	if (!has_buffer(batch))
		return false;
	end = end_of_open(batch);
	/* a message's first piece stays at the place of its receipt */
	if (batch->nopen == 0 && data >= batch->buffer && data < batch->buffer + ATP_BATCH_ROOM)
		end = batch->buffer + (data - batch->buffer);
	if (len > batch->buffer + ATP_BATCH_ROOM - end)
		return false;
	if (end != data)
		memmove(end, data, len);
	if (batch->nopen == 0)
		batch->open = end;
	batch->nopen += len;
	return true;
}

bool
atp_batch_take(AtpBatch *batch)
{
	uint8_t    *end;

	if (!has_buffer(batch))
		return false;
	end = end_of_open(batch);
	atp_batch_add_shared(batch, (AtpBytes) {end - batch->nopen, batch->nopen});
	batch->used = end - batch->buffer;
	batch->nopen = 0;
	return true;
}

void
atp_batch_forget(AtpBatch *batch)
{
	batch->nopen = 0;
}

bool
atp_batch_add(AtpBatch *batch, const uint8_t *data, size_t len)
{
	return atp_batch_put(batch, data, len) && atp_batch_take(batch);
}

void
atp_batch_add_shared(AtpBatch *batch, AtpBytes message)
{
	Assert(batch->nmessages < ATP_BATCH_EVENTS);
	if (batch->nmessages == 0)
		batch->since = atp_now();
	batch->messages[batch->nmessages++] = message;
}

/* Accounts choose their paths, and of two paths of a commit with equal hashes only one would be applied: so a cryptographic hash. */
uint64
atp_path_hash(AtpSpan path)
{
	uint8_t		digest[32];
	uint64		hash;

	atp_sha256(NULL, (const uint8_t *) path.ptr, path.len, digest);
	memcpy(&hash, digest, sizeof(hash));
	return hash;
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

AtpDeadLetter *
atp_batch_new_dead_letter(AtpBatch *batch, const char *stage, AtpBytes message, int64 seq)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	AtpDeadLetter *letter = palloc0(sizeof(AtpDeadLetter));

	letter->stage = stage;
	letter->seq = seq;
	letter->message = message;
	batch->letters = lappend(batch->letters, letter);
	batch->skips[ATP_SKIP_INVALID]++;
	MemoryContextSwitchTo(old);
	return letter;
}
