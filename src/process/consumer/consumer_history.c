/*
 * consumer_history.c
 *		The consumer reads the archive of the stream's server before the stream (H-01 to H-06, H-40).
 *
 * The rows of the archive go into the batch, as the messages of a stream do: so positions, workers, filters, dead letters and
 * triggers are the same.  A row is a message by itself (core/archive/archive_message.h).  After a block, and after a page of the
 * plan, a message without a row moves the position over rows that the filters do not want.
 *
 * Phase and tip are committed before the first row of a cycle is applied, and the position with the rows.  A process that
 * starts reads them, and plans what comes after the position; no unit or offset is kept.
 */
#include "postgres.h"

#include "common/injection.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "core/archive/archive_message.h"
#include "core/syntax/did.h"
#include "lib/stringinfo.h"
#include "net/http.h"
#include "net/poll.h"
#include "net/retry.h"
#include "process/consumer/consumer_private.h"
#include "process/status/process.h"
#include "stream/filter.h"
#include "tables/base/sweep.h"
#include "types/types.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define STEPS_MAX	20000		/* rows of one call: the loop has other work, too ... */
#define READ_US		(100 * 1000)	/* ... and the time after which no further block is decompressed in the call */
#define NOTE_MS		1000		/* the row of atproto.history is written so often */
#define DENIED_MS	60000		/* H-15 */

static int	history_memory_kb;
static int	history_block_max_kb;

#define MEMORY		((size_t) history_memory_kb * 1024)
#define BLOCK_MAX	((size_t) history_block_max_kb * 1024)

void
atp_consumer_history_init(void)
{
	DefineCustomIntVariable("atproto.history_memory",
							"Bytes of an archive that a consumer receives ahead; a decoded block comes on top.",
							"Experimental.", &history_memory_kb, 65536, 4096, 1048576,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.history_block_max",
							"Bytes of a decoded block of an archive; a larger block stops the reading, until the setting is increased.",
							"Experimental.", &history_block_max_kb, 262144, 64, 1048576,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* libcurl's multi handle is made when the first archive is read. */
static void
begin_http(void)
{
	static bool begun = false;

	if (begun)
		return;
	atp_poll_begin();
	atp_http_begin();
	begun = true;
}

bool
atp_consumer_has_history(const Consumer *c)
{
	return c->has_history && c->history.phase < ATP_HISTORY_SEAM;
}

bool
atp_consumer_locks_history(const Consumer *c)
{
	return atp_extension_lock() == ATP_EXTENSION_READY && atp_history_lock(c->name, c->id);
}

/* Write the counts, and the error that delays the reading, or NULL. */
static void
note_counts(Consumer *c, const char *error, int delay_ms)
{
	AtpArchiveCounts counts = atp_archive_counts(c->archive);

	c->read.blocks += counts.blocks;
	c->read.bytes += counts.bytes;
	atp_begin("noting how far the archive is read");
	if (atp_consumer_locks_history(c))
		atp_history_note(c->name, &c->read, error, atp_time_of_day() + (TimestampTz) delay_ms * 1000);
	atp_commit();
	c->read = (AtpHistoryCounts) {0};
	c->read_noted = atp_now();
	atp_consumer_report(c);
}

void
atp_consumer_close_archive(Consumer *c)
{
	atp_archive_free(c->archive);
	c->archive = NULL;
	c->archive_ready = false;
	c->audit = ATP_ASK_NONE;
}

void
atp_consumer_history_drop(Consumer *c)
{
	atp_consumer_close_archive(c);
	if (c->state != ATP_STATE_HISTORY)
		return;
	atp_consumer_flush(c);
	atp_consumer_is_waiting(c, 0);
}

void
atp_consumer_open_archive(Consumer *c)
{
	MemoryContext old;

	begin_http();
	if (c->filter_cxt == NULL)
	{
		c->filter_cxt = AllocSetContextCreate(TopMemoryContext, "atproto archive filter", ALLOCSET_DEFAULT_SIZES);
		c->group = ATP_PLAN_DIDS_MAX;
		c->ask_dids = c->ask_collections = true;
	}
	MemoryContextReset(c->filter_cxt);
	old = MemoryContextSwitchTo(c->filter_cxt);
	c->archive = atp_archive_new(&(AtpArchiveOptions) {
		.origin = c->sub->archive, .methods = c->source->archive, .headers = c->sub->archive_headers,
		.ca_file = c->sub->ca_file, .proxy = c->sub->proxy, .memory = MEMORY, .block_max = BLOCK_MAX, .filter = atp_consumer_plan_filter(c)
	});
	MemoryContextSwitchTo(old);
}

static void move_position(Consumer *c, int64 seq);
static void decode_rows(Consumer *c);

/* Ask for the next page. */
static void
ask_for_page(Consumer *c)
{
	atp_archive_plan(c->archive, c->position.last, c->history.tip);
	c->archive_ready = false;
}

void
atp_consumer_history_begin(Consumer *c)
{
	atp_consumer_is_reading(c);
	/* the settings may have changed after a failure */
	if (c->archive != NULL && (c->audit != ATP_ASK_NONE || !atp_archive_has_limits(c->archive, MEMORY, BLOCK_MAX)))
		atp_consumer_close_archive(c);
	if (c->archive != NULL)
	{
		/* after a failure */
		if (!atp_archive_again(c->archive))
			ask_for_page(c);
		return;
	}
	atp_consumer_check_ca_file(c);
	atp_sweep_begins(c->sub);
	atp_consumer_open_archive(c);
	c->position = atp_position_after(c->cursor, 0);
	c->position.overlap = false;
	if (atp_consumer_check_anchor(c))
		return;
	atp_consumer_set_filter(c);
	atp_consumer_note_filtered(c);
	c->decided = false;
	if (c->history.tip == 0 && atp_consumer_check_position(c))
		return;
	if (c->history.tip > 0 && c->cursor >= c->history.tip)
		c->archive_ready = true;
	/* no account is left */
	else if (c->accounts != NULL && c->naccounts == 0)
	{
		c->received = c->position.last;
		move_position(c, c->history.tip);
		decode_rows(c);
		c->archive_ready = true;
	}
	else
		ask_for_page(c);
}

/* H-14, H-60: apply the rows received before, wait, and try again. */
void
atp_consumer_archive_failed(Consumer *c)
{
	int			delay = atp_retry_delay(c->failures);
	char	   *reason;

	atp_consumer_flush(c);
	if (c->audit == ATP_ASK_NONE && atp_archive_is_refused(c->archive) && atp_consumer_ask_for_less(c))
	{
		ereport(LOG, (errmsg("atproto subscription \"%s\" asks the archive for less: %s", c->name, atp_archive_error(c->archive))));
		atp_consumer_close_archive(c);
		atp_consumer_is_waiting(c, 0);
		return;
	}
	reason = psprintf("the archive cannot be read%s: %s", atp_archive_is_denied(c->archive) ? " with this token" : "", atp_archive_error(c->archive));
	delay = Max(delay, atp_archive_rest_s(c->archive) * 1000);
	if (atp_archive_is_denied(c->archive))
		delay = DENIED_MS;
	/* H-22: the operator is needed */
	if (atp_archive_stays_bad(c->archive))
		delay = atp_reconnect_max_delay_ms;
	c->failures++;
	note_counts(c, reason, delay);
	atp_status_error(ATP_DROP_HTTP, reason);
	atp_consumer_note(c, ATP_LOGGED_DROPPED, reason);
	ereport(LOG, (errmsg("atproto subscription \"%s\": %s", c->name, reason),
				  errdetail("The position is " INT64_FORMAT "; trying again in %d ms.", c->cursor, delay)));
	c->archive_ready = false;
	atp_consumer_is_waiting(c, delay);
}

/* H-26, H-27: the next pass begins where the cycle began.  Consumer and workers go on; no batch is in the ring now. */
static void
begin_pass(Consumer *c, AtpHistoryPhase phase)
{
	const struct varlena *did = c->accounts != NULL && c->naccounts > 0 ? c->accounts[c->naccounts - 1] : NULL;
	bool		begins = false;

	atp_begin("beginning to read further accounts");
	if (atp_consumer_locks_history(c))
	{
		begins = atp_history_next_pass(c->name, c->sub->ep->scope, c->history.tip, phase, did);
		c->has_history = atp_history_get(c->name, &c->history);
	}
	atp_commit();
	atp_consumer_report(c);
	if (!begins)
		atp_consumer_leave(c, "its cursor was set", true);
	c->cursor = c->handed = c->history.began_after;
	c->set_back = true;
	c->last_row = 0;
	c->sub->settings.archived_until = c->history.again_until;
	atp_consumer_close_archive(c);
	atp_consumer_is_waiting(c, 0);
}

/* The rows up to the tip were applied: the stream is next, or the second pass. */
static void
end_cycle(Consumer *c)
{
	atp_consumer_flush(c);
	note_counts(c, NULL, 0);
	if (c->history.tip > 0 && (c->more_accounts || (c->history.passes == 2 && c->history.phase == ATP_HISTORY_ROWS)))
	{
		begin_pass(c, c->history.passes == 2 ? ATP_HISTORY_MARKERS : ATP_HISTORY_ROWS);
		return;
	}
	ATP_INJECTION_POINT("archive read");
	atp_begin("ending the reading of the archive");
	if (atp_consumer_locks_history(c))
	{
		atp_history_end_cycle(c->name, c->cursor, c->marker, c->marker_row);
		c->has_history = atp_history_get(c->name, &c->history);
	}
	atp_commit();
	ereport(LOG, (errmsg("atproto subscription \"%s\" has read the archive up to " INT64_FORMAT, c->name, c->cursor)));
	atp_consumer_close_archive(c);
	c->anchored = false;
	c->marker = 0;
	atp_consumer_is_waiting(c, 0);
}

/* H-05: the first page of a cycle tells the tip, which is committed before the first row. */
static void
take_plan(Consumer *c)
{
	const AtpPlan *plan = atp_archive_plan_of(c->archive);
	int			passes;

	if (c->history.tip > 0)
		c->read.planned_blocks += plan->blocks_matched;
	/* H-55 */
	if (c->history.tip > 0 && (int64) plan->sealed_tip_seq < c->history.tip)
	{
		atp_consumer_flush(c);
		atp_consumer_stop(c, psprintf("FutureCursor: the archive ends at %llu, and has ended at " INT64_FORMAT ": this is not the same archive any more. After set_cursor(), resume() reads it from another position",
									  (unsigned long long) plan->sealed_tip_seq, c->history.tip));
	}
	if (c->history.tip > 0)
		return;
	if (!atp_consumer_decide_passes(c, plan, &passes))
	{
		ask_for_page(c);
		return;
	}
	atp_begin("beginning to read the archive");
	if (plan->sealed_tip_seq > 0 && atp_consumer_locks_history(c))
	{
		atp_history_planned(c->name, (int64) plan->sealed_tip_seq, passes, c->cursor);
		c->has_history = atp_history_get(c->name, &c->history);
	}
	atp_commit();
	c->read.planned_blocks = (int64) plan->blocks_matched;
	atp_consumer_report(c);
	ereport(LOG, (errmsg("atproto subscription \"%s\" reads the archive of %s", c->name, c->sub->archive),
				  errdetail("After " INT64_FORMAT ", up to %llu.", c->cursor, (unsigned long long) plan->sealed_tip_seq)));
}

/* Put a message into the batch. */
static void
add_message(Consumer *c, const AtpArchiveRow *row)
{
	size_t		len = atp_archive_message_len(row);
	uint8_t    *message = palloc(len);

	atp_archive_message_write(row, message);
	if (!atp_batch_add(c->batch, message, len))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	pfree(message);
	c->received = Max(c->received, (int64) row->seq);
}

/* All rows up to seq were read: move the position. */
static void
move_position(Consumer *c, int64 seq)
{
	if (c->history.tip > 0)
		seq = Min(seq, c->history.tip);
	if (seq > c->received)
		add_message(c, &(AtpArchiveRow) {.kind = (AtpArchiveKind) ATP_ARCHIVE_POSITION, .seq = (uint64) seq});
}

/* H-25: the server's filter is one-sided.  Filters by account are applied when the row is decoded. */
static int
compare_with_account(const void *key, const void *account)
{
	return atp_compare_dids(key, *(struct varlena *const *) account);
}

/*
 * H-26, H-27: is the row to be applied?  Rows of accounts outside of the group come along in part only.  In phase markers, the first pass
 * has applied all operations on records, so only those behind an #account or a #sync of the account are applied again.
 */
static bool
is_of_accounts(const Consumer *c, const AtpArchiveRow *row)
{
	struct varlena **found;
	bool	   *again;
	size_t		at;

	if (c->accounts == NULL)
		return true;
	if (atp_did_check(row->did.ptr, row->did.len, &at) != ATP_OK)
		return false;
	found = bsearch(atp_did_make(row->did.ptr, row->did.len), c->accounts, c->naccounts, sizeof(struct varlena *), compare_with_account);
	if (found == NULL)
		return false;
	if (c->applied_again == NULL)
		return true;
	again = &c->applied_again[found - c->accounts];
	*again |= row->kind == ATP_ARCHIVE_ACCOUNT || row->kind == ATP_ARCHIVE_SYNC;
	return *again || row->kind == ATP_ARCHIVE_IDENTITY;
}

static bool
is_wanted(const Consumer *c, const AtpArchiveRow *row)
{
	/* the second pass reads the markers in their order */
	if (c->history.passes == 2 && c->history.phase == ATP_HISTORY_ROWS &&
		(row->kind == ATP_ARCHIVE_IDENTITY || row->kind == ATP_ARCHIVE_ACCOUNT || row->kind == ATP_ARCHIVE_SYNC))
		return false;
	if ((int64) row->seq <= c->received || (int64) row->seq > c->history.tip)
		return false;
	if (!is_of_accounts(c, row))
		return false;
	return row->kind == ATP_ARCHIVE_IDENTITY || row->kind == ATP_ARCHIVE_ACCOUNT || row->kind == ATP_ARCHIVE_SYNC ||
		atp_wants_collection(&c->sub->settings, row->collection);
}

/*
 * H-55: compaction leaves deletions, handles, statuses and #syncs.  The first such row of each block may become the anchor, whether the
 * filters want it or not; the last one of the cycle does.
 */
static void
note_marker(Consumer *c, const AtpArchiveRow *row)
{
	size_t		len;
	uint8_t    *message;
	int64		seq;

	if (c->has_marker || row->kind < ATP_ARCHIVE_DELETE || row->kind > ATP_ARCHIVE_SYNC || (int64) row->seq > c->history.tip)
		return;
	message = palloc(len = atp_archive_message_len(row));
	atp_archive_message_write(row, message);
	c->marker_row = atp_message_digest(c->decoder, (AtpBytes) {message, len}, &seq);
	pfree(message);
	if (c->marker_row != 0)
		c->marker = seq;
	c->has_marker = true;
}

/* Take steps until the batch is full or the network is waited for; returns the last step. */
static AtpArchiveStep
read_rows(Consumer *c, int64 *seen)
{
	AtpArchiveStep step = ATP_ARCHIVE_ROW;
	AtpTime		until = atp_now() + READ_US;

	for (int i = 0; i < STEPS_MAX && !atp_batch_full(c->batch); i++)
	{
		AtpArchiveRow row;

		step = atp_archive_next(c->archive, &row);
		if (step == ATP_ARCHIVE_ROW)
		{
			*seen = (int64) row.seq;
			note_marker(c, &row);
			if (is_wanted(c, &row))
			{
				c->read.rows++;
				add_message(c, &row);
			}
		}
		else if (step == ATP_ARCHIVE_BLOCK_READ)
		{
			c->has_marker = false;
			move_position(c, *seen);
		}
		else
			break;
		/* H-02: a few kB can decompress to 256 MB, and interrupts are served between two calls */
		if (step == ATP_ARCHIVE_BLOCK_READ && atp_now() >= until)
			break;
	}
	return step;
}

static void
decode_rows(Consumer *c)
{
	AtpVerdict	verdict;

	if (c->batch->ndecoded == c->batch->nmessages)
		return;
	atp_decoder_shares(c->decoder, InvalidOid);
	verdict = atp_decode(c->decoder, c->batch, &c->position, c->shards ? ATP_DECODE_HEADS : ATP_DECODE_ALL);
	if (verdict.drop != ATP_DROP_NONE)
		elog(ERROR, "a row of the archive is not acceptable: %s", verdict.why);
}

void
atp_consumer_history_read(Consumer *c)
{
	AtpArchiveStep step;
	int			before = c->batch->nmessages;

	atp_http_pump();
	(void) atp_http_news();
	c->archive_ready = true;
	if (c->audit == ATP_ASK_POSITION || c->audit == ATP_ASK_ANCHOR)
	{
		atp_consumer_audit(c);
		return;
	}
	if (c->history.tip > 0 && c->position.last >= c->history.tip)
	{
		end_cycle(c);
		return;
	}
	/* the batch has to be applied first */
	if (atp_batch_full(c->batch))
		return;
	c->received = c->position.last;
	step = read_rows(c, &c->seen);
	switch (step)
	{
		case ATP_ARCHIVE_PLANNED:
			take_plan(c);
			/* another plan was asked for */
			if (!c->archive_ready)
				break;
			/* H-51: the cursor is too old, and the archive is empty or ends at the cursor: the stream's oldest event begins a seam */
			if (c->cursor > 0 && c->history.tip <= c->cursor && c->cursor == c->was_too_old)
				c->too_old = c->cursor;
			/* the archive is empty, or ends at the position */
			if (c->history.tip == 0)
			{
				end_cycle(c);
				return;
			}
			break;
		case ATP_ARCHIVE_PAGE_READ:
			/* H-06 */
			move_position(c, (int64) atp_archive_plan_of(c->archive)->planned_through_seq);
			break;
		case ATP_ARCHIVE_WAITS:
			c->archive_ready = false;
			break;
		case ATP_ARCHIVE_FAILED:
		case ATP_ARCHIVE_ROW:
		case ATP_ARCHIVE_BLOCK_READ:
			break;
	}
	if (c->batch->nmessages > before)
		atp_status_received(c->batch->nmessages - before, 0);
	decode_rows(c);
	if (step == ATP_ARCHIVE_PAGE_READ && c->position.last < c->history.tip)
		ask_for_page(c);
	if (step == ATP_ARCHIVE_FAILED)
		atp_consumer_archive_failed(c);
	else if (atp_remaining(atp_now(), c->read_noted, NOTE_MS) == 0 && c->batch->nmessages == 0)
		note_counts(c, NULL, 0);
}
