/*
 * consumer_seam.c
 *		The seam between the archive and the stream (H-51, H-53, H-55): where the stream may have left out rows, or the server's
 *		numbers may have changed, the consumer asks the archive.
 *
 * A server loses rows without a word in three ways.  With a short look-back, the server begins at the newest row. Rows of
 * the stream that were not on the server's disk before a crash give their numbers to new rows.  And a new instance may stand
 * behind the server's name.  So the consumer compares the first event of each connection with the row at the position.  A
 * stretch of numbers without an event is a seam: when the stretch is sealed, the consumer asks the archive for rows there.  Rows
 * read from the archive, or compared with the archive, are settled.  After a difference, the rows behind the last settled row
 * are read again.
 *
 * test/models/archive.pml has these rules, and the harm without each of them.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/transaction.h"
#include "core/archive/archive_message.h"
#include "core/syntax/did.h"
#include "net/http.h"
#include "process/consumer/consumer_private.h"
#include "process/status/process.h"
#include "stream/filter.h"
#include "tables/apply/sweep_end.h"
#include "types/types.h"
#include "utils/guc.h"

static int	history_interval_s;

#define INTERVAL_MS	(history_interval_s * 1000)
#define SWEEP_LOOK_MS	1000		/* the end of a sweep waits for other subscriptions */
#define STEPS_MAX	20000
#define READ_US		(100 * 1000)	/* the time after which no further block is decompressed in a call */

void
atp_consumer_seam_init(void)
{
	DefineCustomIntVariable("atproto.history_interval",
							"Time after which a consumer asks the archive again about rows that it had not sealed.",
							"Experimental.", &history_interval_s, 3600, 1, 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/* Change the row of atproto.history in a transaction, and read the row. */
#define CHANGE_HISTORY(c, what, change) \
	do { \
		atp_begin(what); \
		if (atp_consumer_locks_history(c)) \
		{ \
			change; \
			(c)->has_history = atp_history_get((c)->name, &(c)->history); \
		} \
		atp_commit(); \
		atp_consumer_report(c); \
	} while (0)

/* Read the rows after seq again: set the cursors back, and restart the process. */
pg_noreturn static void
read_again(Consumer *c, int64 seq, int64 missing, const char *why)
{
	char	   *text = psprintf("rows after " INT64_FORMAT " are read again: %s", seq, why);

	atp_consumer_flush(c);
	atp_begin("reading the archive again");
	if (atp_consumer_locks_history(c))
		atp_history_again(c->name, c->sub->ep->scope, seq, missing);
	atp_commit();
	atp_status_error(ATP_DROP_SEQ, text);
	atp_consumer_note(c, ATP_LOGGED_DROPPED, text);
	ereport(LOG, (errmsg("atproto subscription \"%s\": %s", c->name, text)));
	atp_consumer_leave(c, text, true);
}

void
atp_consumer_history_again(Consumer *c)
{
	CHANGE_HISTORY(c, "planning to read the archive again", atp_history_replan(c->name));
}

int64
atp_consumer_last_row(Consumer *c)
{
	const AtpBatch *batch = c->batch;
	int64		seq;
	int64		row;

	if (!c->has_history || batch->nevents == 0)
		return 0;
	row = atp_message_digest(c->decoder, batch->events[batch->nevents - 1].message, &seq);
	return seq == c->position.last ? row : 0;
}

/* ------------------------------------------------------------------------
 * The first event of a connection
 * ------------------------------------------------------------------------
 */

void
atp_consumer_judge_seam(Consumer *c)
{
	int64		seq = 0;
	int64		row = 0;

	for (int i = c->batch->ndecoded; seq == 0 && i < c->batch->nmessages; i++)
		row = atp_message_digest(c->decoder, c->batch->messages[i], &seq);
	if (seq == 0)
		return;
	c->seam_open = false;
	/* H-54: as E-45 */
	if (seq < c->cursor)
		atp_consumer_stop(c, psprintf("FutureCursor: the server is at " INT64_FORMAT ", before the position " INT64_FORMAT ": it has begun again, or is another one. set_cursor() and resume() read from another position",
									  seq, c->cursor));
	if (c->cursor > c->history.settled && !(seq == c->cursor && row == c->last_row && row != 0))
		read_again(c, c->history.settled, 0, "the server does not have the row at the position any more, or another one");
	if (seq > c->cursor + 1)
		CHANGE_HISTORY(c, "noting a seam", atp_history_seam(c->name, c->cursor + 1, seq, false));
	c->audited = 0;
}

/* ------------------------------------------------------------------------
 * Questions to the archive
 * ------------------------------------------------------------------------
 */

static void
ask_archive(Consumer *c, AtpQuestion audit, int64 from, int64 to, int64 row)
{
	if (c->archive == NULL)
		atp_consumer_open_archive(c);
	c->audit = audit;
	c->audit_from = from;
	c->audit_to = to;
	c->audit_row = row;
	c->audit_found = 0;
	atp_archive_plan(c->archive, from - 1, to);
	c->archive_ready = false;
}

/* Nothing more is asked until the interval has passed. */
static void
rest_archive(Consumer *c)
{
	atp_consumer_close_archive(c);
	c->audited = atp_now();
}

bool
atp_consumer_check_position(Consumer *c)
{
	if (c->cursor <= c->history.settled)
		return false;
	if (c->last_row == 0)
		read_again(c, c->history.settled, 0, "the row at the position is not known");
	ask_archive(c, ATP_ASK_POSITION, c->cursor, c->cursor, c->last_row);
	return true;
}

bool
atp_consumer_check_anchor(Consumer *c)
{
	if (c->anchored || c->history.anchor == 0)
		return false;
	/* no filter of the subscription may hide the anchor */
	atp_archive_filter(c->archive, &(AtpPlanRequest) {0});
	ask_archive(c, ATP_ASK_ANCHOR, c->history.anchor, c->history.anchor, c->history.anchor_row);
	return true;
}

long
atp_consumer_audit_due(const Consumer *c)
{
	if (c->state != ATP_STATE_STREAMING || !c->has_history || c->history.phase < ATP_HISTORY_SEAM || c->audit != ATP_ASK_NONE)
		return -1;
	if (c->audited == 0)
		return 0;
	return atp_earlier(atp_remaining(atp_now(), c->audited, INTERVAL_MS),
					   c->sweep_waits ? atp_remaining(atp_now(), c->sweep_looked, SWEEP_LOOK_MS) : -1);
}

/* H-43: all is read and compared; the other streams of the target may still bring what the archive has deleted. */
static void
end_sweep(Consumer *c)
{
	char	   *waits_for;

	c->sweep_looked = atp_now();
	c->sweep_waits = !atp_sweep_may_end(c->sub, c->statements, &waits_for);
	if (!c->sweep_waits)
	{
		CHANGE_HISTORY(c, "ending the reading of the archive", atp_history_live(c->name));
		atp_sweep_tidy(c->sub, c->statements);
	}
	else if (waits_for != NULL && atp_remaining(atp_now(), c->audited, INTERVAL_MS) == 0)
		CHANGE_HISTORY(c, "waiting for another subscription",
					   atp_history_note(c->name, &(AtpHistoryCounts) {0}, psprintf("subscription \"%s\" of the same tables is behind", waits_for), atp_time_of_day()));
}

/*
 * The archive does not answer: history_progress says so, because otherwise a seam would seem to wait for the archive
 * to seal its rows.
 */
static void
note_failure(Consumer *c)
{
	long		rest = Max(INTERVAL_MS, atp_archive_rest_s(c->archive) * 1000L);
	char	   *reason = psprintf("the archive cannot be asked%s: %s", atp_archive_is_denied(c->archive) ? " with this token" : "", atp_archive_error(c->archive));

	ereport(LOG, (errmsg("atproto subscription \"%s\" compares no rows: %s", c->name, reason)));
	CHANGE_HISTORY(c, "noting that the archive does not answer",
				   atp_history_note(c->name, &(AtpHistoryCounts) {0}, reason, atp_time_of_day() + (TimestampTz) rest * 1000));
	c->audit_failed = true;
	rest_archive(c);
	/* H-60 */
	c->audited += (rest - INTERVAL_MS) * INT64CONST(1000);
}

/* Choose the next question. */
static void
begin_audit(Consumer *c)
{
	const bool	only_looks = c->sweep_waits && atp_remaining(atp_now(), c->audited, INTERVAL_MS) > 0;

	if (only_looks)
		end_sweep(c);
	else if (c->seam_open)
	{
		/* the first event of the stream may need a moment */
		if (c->audited == 0)
			rest_archive(c);
		else
			ask_archive(c, ATP_ASK_QUIET, c->cursor + 1, 0, 0);
	}
	else if (c->history.seam_to > 0)
		ask_archive(c, ATP_ASK_SEAM, c->history.seam_from, c->history.seam_to - 1, 0);
	else
	{
		if (c->history.phase == ATP_HISTORY_SEAM)
			end_sweep(c);
		if (c->candidate > c->history.settled)
			ask_archive(c, ATP_ASK_SETTLE, c->candidate, c->candidate, c->candidate_row);
		else
		{
			/* without workers, or when they have committed everything, the digest is of the row at the cursor */
			if (c->cursor == c->handed && c->cursor > c->history.settled && c->last_row != 0)
			{
				c->candidate = c->cursor;
				c->candidate_row = c->last_row;
			}
			rest_archive(c);
		}
	}
}

/* Do the filters want the row? */
static bool
is_in_filter(const Consumer *c, const AtpArchiveRow *row)
{
	size_t		at;

	if (atp_did_check(row->did.ptr, row->did.len, &at) != ATP_OK || !atp_wants_did(&c->sub->settings, atp_did_make(row->did.ptr, row->did.len)))
		return false;
	return row->kind == ATP_ARCHIVE_IDENTITY || row->kind == ATP_ARCHIVE_ACCOUNT || row->kind == ATP_ARCHIVE_SYNC ||
		atp_wants_collection(&c->sub->settings, row->collection);
}

static void
look_at_row(Consumer *c, const AtpArchiveRow *row)
{
	size_t		len;
	uint8_t    *message;
	int64		seq;

	if ((int64) row->seq < c->audit_from || (int64) row->seq > c->audit_to || (c->audit != ATP_ASK_ANCHOR && !is_in_filter(c, row)))
		return;
	if (c->audit == ATP_ASK_SEAM)
	{
		c->audit_found++;
		return;
	}
	message = palloc(len = atp_archive_message_len(row));
	atp_archive_message_write(row, message);
	c->audit_found = atp_message_digest(c->decoder, (AtpBytes) {message, len}, &seq) == c->audit_row ? 1 : -1;
}

/* H-55: another server stands behind the name. */
pg_noreturn static void
stop_other(Consumer *c, const char *what)
{
	atp_consumer_flush(c);
	atp_consumer_stop(c, psprintf("FutureCursor: the archive %s: this is not the same archive any more. After set_cursor(), resume() reads it from another position", what));
}

/* The archive has answered. */
static void
end_audit(Consumer *c)
{
	const AtpQuestion audit = c->audit;

	c->audit = ATP_ASK_NONE;
	if (audit == ATP_ASK_ANCHOR)
	{
		if (c->audit_found != 1)
			stop_other(c, psprintf("has another row at " INT64_FORMAT ", or none", c->audit_from));
		c->anchored = true;
	}
	else if (audit == ATP_ASK_SEAM && c->audit_found > 0)
		read_again(c, c->audit_from - 1, c->audit_found, psprintf("the stream has left out " INT64_FORMAT " rows", c->audit_found));
	else if (audit == ATP_ASK_SEAM)
		CHANGE_HISTORY(c, "closing a seam", atp_history_seam(c->name, c->audit_from, c->audit_to + 1, true));
	else if (c->audit_found < 0 || (audit == ATP_ASK_POSITION && c->audit_found == 0))
		read_again(c, c->history.settled, 0, "the archive has another row at the position");
	else if (c->audit_found > 0)
		CHANGE_HISTORY(c, "comparing with the archive", atp_history_settle(c->name, c->audit_from));
	c->candidate = 0;
	atp_consumer_close_archive(c);
	/* the cycle of which this was a question before the first page */
	if (audit == ATP_ASK_POSITION || audit == ATP_ASK_ANCHOR)
		atp_consumer_history_begin(c);
}

/* Does the plan go as far as the question? */
static void
take_plan(Consumer *c)
{
	int64		sealed = (int64) atp_archive_plan_of(c->archive)->sealed_tip_seq;

	if (c->audit == ATP_ASK_QUIET)
	{
		bool		grown = sealed > c->cursor;

		rest_archive(c);
		/* H-51: a cycle reads the new rows of the archive before the next connection */
		if (grown)
		{
			atp_consumer_history_again(c);
			atp_consumer_drop(c, ATP_DROP_IDLE, "the stream has brought nothing, although the archive has grown");
		}
	}
	else if (sealed < c->audit_to && c->audit == ATP_ASK_ANCHOR)
		stop_other(c, psprintf("ends at " INT64_FORMAT ", and has had a row at " INT64_FORMAT, sealed, c->audit_to));
	else if (sealed < c->audit_to && c->audit == ATP_ASK_POSITION)
	{
		/* the archive ends before the position, so the cycle begins without the comparison */
		c->audit = ATP_ASK_NONE;
		atp_archive_plan(c->archive, c->cursor, 0);
	}
	else if (sealed < c->audit_to)
		rest_archive(c);
}

void
atp_consumer_audit(Consumer *c)
{
	AtpArchiveStep step = ATP_ARCHIVE_ROW;
	AtpTime		until = atp_now() + READ_US;

	if (c->audit == ATP_ASK_NONE)
	{
		begin_audit(c);
		return;
	}
	atp_http_pump();
	(void) atp_http_news();
	c->archive_ready = true;
	for (int i = 0; i < STEPS_MAX; i++)
	{
		AtpArchiveRow row;

		step = atp_archive_next(c->archive, &row);
		if (step == ATP_ARCHIVE_ROW)
			look_at_row(c, &row);
		else if (step != ATP_ARCHIVE_BLOCK_READ || atp_now() >= until)
			break;
	}
	switch (step)
	{
		case ATP_ARCHIVE_PLANNED:
			if (c->audit_failed)
				CHANGE_HISTORY(c, "noting that the archive answers", atp_history_note(c->name, &(AtpHistoryCounts) {0}, NULL, 0));
			c->audit_failed = false;
			take_plan(c);
			break;
		case ATP_ARCHIVE_PAGE_READ:
			if ((int64) atp_archive_plan_of(c->archive)->planned_through_seq < c->audit_to)
				atp_archive_plan(c->archive, (int64) atp_archive_plan_of(c->archive)->planned_through_seq, c->audit_to);
			else
				end_audit(c);
			break;
		case ATP_ARCHIVE_WAITS:
			c->archive_ready = false;
			break;
		case ATP_ARCHIVE_FAILED:
			if (c->audit == ATP_ASK_POSITION || c->audit == ATP_ASK_ANCHOR)
				atp_consumer_archive_failed(c);
			else
				note_failure(c);
			break;
		case ATP_ARCHIVE_ROW:
		case ATP_ARCHIVE_BLOCK_READ:
			break;
	}
}
