/*
 * consumer_stream.c
 *		The consumer's connection: connect, read, watch time limits, disconnect and
 *		decide when to reconnect.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "config/stream_request.h"
#include "config/transaction.h"
#include "miscadmin.h"
#include "net/retry.h"
#include "process/consumer/consumer_private.h"
#include "tables/repos/multi_source.h"
#include "utils/acl.h"
#include "utils/memutils.h"

#define ANSWER_TIMEOUT_MS	30000	/* from the first byte sent to the open stream */
#define REPEATED_DROPS_MAX	5	/* drops at one position of the stream, after which the subscription stops (E-48) */
#define UNDECIDED_MS			1000	/* wait for events that show whether the clock is wrong; doubled with each failure ... */
#define UNDECIDED_DOUBLINGS	6	/* ... at most this many times */

static bool
want_message(void *arg)
{
	const Consumer *c = arg;

	return !atp_batch_full(c->batch) && c->deferred == 0;
}

/* Compressed messages are decompressed into the batch, so the compressed bytes must not be received there. */
static uint8_t *
room_for_more(void *arg, size_t *len)
{
	const Consumer *c = arg;

	return c->unzstd == NULL ? atp_batch_room(c->batch, len) : NULL;
}

static bool
put_piece(void *arg, const uint8_t *data, size_t len)
{
	return atp_batch_put(((Consumer *) arg)->batch, data, len);
}

/* A message is complete.  For a format of texts, a binary message is a compressed text. */
static void
take_message(void *arg, size_t len, bool is_text, AtpEnd *end)
{
	Consumer   *c = arg;
	bool		taken;

	if (!c->source->is_text || is_text)
		taken = atp_batch_take(c->batch);
	else
	{
		const uint8_t *content = atp_unzstd(c->unzstd, c->batch->open, len, &len, end);

		atp_batch_forget(c->batch);
		if (content == NULL)
			return;
		taken = atp_batch_add(c->batch, content, len);
	}
	if (!taken)
		atp_end(end, ATP_DROP_MEMORY, "no memory for a message of %zu bytes", len);
}

/* The cursor, for the log.  Without a cursor the stream begins with its next event. */
static const char *
cursor_text(const Consumer *c)
{
	return c->cursor < 0 ? "none" : psprintf(INT64_FORMAT, c->cursor);
}

void
atp_consumer_check_ca_file(Consumer *c)
{
	bool		allowed;

	if (c->sub->ca_file == NULL)
		return;
	atp_begin("checking the rights of the subscription's owner");
	allowed = has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES);
	atp_commit();
	if (!allowed)
		atp_consumer_stop(c, "its owner is not allowed to read files of the server (pg_read_server_files), so there can be no ca_file");
}

/* The request without the cursor, to see whether changed settings change it. */
static char *
what_is_asked(const Consumer *c)
{
	AtpStreamRequest request = atp_stream_request(c->sub, -1, c->dictionary);

	return request.hello == NULL ? request.target : psprintf("%s %s", request.target, request.hello);
}

void
atp_consumer_connect(Consumer *c)
{
	AtpReceiver receiver = {
		.want = want_message, .room = room_for_more, .put = put_piece, .message = take_message,
		.text = c->source->is_text, .binary = !c->source->is_text || c->unzstd != NULL, .arg = c
	};
	AtpConnOptions options;
	AtpStreamRequest request;
	bool		too_old = c->cursor > 0 && c->cursor == c->too_old;
	int64		from = c->cursor;
	int64		came = c->position.came;
	MemoryContext old;

	/*
	 * a server whose clock was set back sends events with times before the cursor, so ask from the event
	 * received last
	 */
	if (c->source->rewind > 0 && came > 0)
		from = Min(from, came);
	atp_consumer_check_ca_file(c);
	old = MemoryContextSwitchTo(c->conn_cxt);
	c->position = atp_position_after(c->cursor, c->source->rewind);
	c->position.came = came;
	/* events missed then become a gap before the first event (E-44), or a seam, which the archive fills later (H-51) */
	c->position.outdated = too_old;
	c->position.is_covered = c->has_history;
	request = atp_stream_request(c->sub, too_old ? 0 : from, c->dictionary);
	/* drop the incomplete message of the former connection: the server sends the whole message again */
	atp_batch_forget(c->batch);
	c->asked = what_is_asked(c);
	atp_status_request(&request, c->dictionary != 0);
	atp_status_by_pages(c->by_pages);
	options = (AtpConnOptions) {
		.target = c->by_pages ? atp_consumer_begin_pages(c) : request.target,
		.page = c->by_pages,
		.hello = request.hello,
		.protocol = c->source->subprotocol,
		.headers = c->sub->headers,
		.ca_file = c->sub->ca_file,
		.proxy = c->sub->proxy,
	};
	c->conn = atp_conn_start(c->sub->ep, &options, &receiver);
	MemoryContextSwitchTo(old);
	if (c->conn == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	c->counted_bytes = 0;
	c->last_data = c->last_ping = c->listened = atp_now();
	c->seam_open = c->has_history;
	atp_consumer_is_connecting(c);
}

/*
 * Count a drop caused by the stream's contents, which a new connection is likely to meet again.  Too many
 * drops at one position stop the subscription.
 */
static void
count_drop(Consumer *c, const char *reason)
{
	c->drops_there = c->drop_seq == c->cursor ? c->drops_there + 1 : 1;
	c->drop_seq = c->cursor;
	if (c->drops_there >= REPEATED_DROPS_MAX)
		atp_consumer_stop(c, psprintf("dropped %d times after event " INT64_FORMAT ": %s",
									  c->drops_there, c->cursor, reason));
}

/* Change the request, if the server's error says what to change.  True: changed, so reconnect soon. */
static bool
mend_request(Consumer *c, const char *error)
{
	if (strcmp(error, "CursorTooOld") == 0 && c->has_history && c->cursor != c->too_old)
	{
		c->was_too_old = c->cursor;
		atp_consumer_history_again(c);
		return true;
	}
	if (strcmp(error, "CursorTooOld") == 0 && c->cursor > 0 && c->cursor != c->too_old)
	{
		c->too_old = c->cursor;
		return true;
	}
	if (strcmp(error, "UnknownZstdDictionary") == 0 && c->dictionary != 0)
	{
		atp_consumer_lose_dictionary(c);
		return true;
	}
	return false;
}

void
atp_consumer_ask_anew(Consumer *c)
{
	if (strcmp(c->asked, what_is_asked(c)) == 0)
		return;
	atp_consumer_flush(c);
	atp_conn_close(c->conn, 1000);
	atp_conn_free(c->conn);
	c->conn = NULL;
	MemoryContextReset(c->conn_cxt);
	ereport(LOG, (errmsg("atproto subscription \"%s\" connects to %s again, because its request has changed", c->name, c->sub->ep->scope)));
	atp_consumer_is_waiting(c, 0);
}

/* E-46: after an error of the server, too, the consumer waits and connects again. */
void
atp_consumer_drop(Consumer *c, AtpDrop drop, const char *why)
{
	int			delay;
	bool		contents = atp_drop_is_about_contents(drop, atp_conn_close_code(c->conn));
	char	   *reason;

	atp_consumer_flush(c);
	delay = atp_retry_delay(c->failures++);
	reason = MemoryContextStrdup(c->batch->cxt, why);
	/*
	 * a second such fault at the same position: the dictionary may be wrong, so continue uncompressed until a
	 * new dictionary is fetched
	 */
	if ((drop == ATP_DROP_COMPRESSION || drop == ATP_DROP_FRAME) && c->dictionary != 0 && c->drop_seq == c->cursor)
		atp_consumer_lose_dictionary(c);
	if (drop == ATP_DROP_HTTP && !mend_request(c, atp_conn_http_error(c->conn)))
	{
		int			least = atp_http_delay(atp_conn_answer(c->conn));

		if (least < 0)
			atp_consumer_stop(c, reason);
		delay = Max(delay, least);
	}
	atp_conn_close(c->conn, drop == ATP_DROP_FRAME ? 1007 : 1000);
	atp_conn_free(c->conn);
	c->conn = NULL;
	MemoryContextReset(c->conn_cxt);
	atp_status_error(drop, reason);
	atp_consumer_note(c, ATP_LOGGED_DROPPED, reason);
	atp_consumer_is_waiting(c, delay);
	ereport(LOG, (errmsg("atproto subscription \"%s\" disconnected from %s: %s",
						 c->name, c->sub->ep->scope, reason),
				  errdetail("Last event %s; trying again in %d ms.", cursor_text(c), delay)));
	if (contents)
		count_drop(c, reason);
}

/* Advance the connection, and count messages and bytes. */
static AtpConnState
advance_connection(Consumer *c)
{
	int			messages = c->batch->nmessages;
	AtpConnState state = atp_conn_step(c->conn);
	uint64		bytes = atp_conn_bytes(c->conn);

	/*
	 * before the stream is open, received bytes do not extend the limit: a slow trickle must not keep the
	 * connection alive
	 */
	if (bytes > c->counted_bytes && (state == ATP_CONN_OPEN || state == ATP_CONN_PAGE_READ))
	{
		c->last_data = atp_now();
		atp_consumer_heard(c, c->batch->nmessages > messages || c->state == ATP_STATE_CONNECTING);
	}
	if (c->state == ATP_STATE_CONNECTING && state == ATP_CONN_OPEN)
	{
		atp_consumer_is_streaming(c);
		if (!c->by_pages)
		{
			ereport(LOG, (errmsg("atproto subscription \"%s\" connected to %s, cursor %s",
								 c->name, c->sub->ep->scope, cursor_text(c))));
			atp_consumer_note(c, ATP_LOGGED_CONNECTED, c->sub->ep->scope);
		}
	}
	if (c->batch->nmessages > messages || bytes > c->counted_bytes)
		atp_status_received(c->batch->nmessages - messages, bytes - c->counted_bytes);
	c->counted_bytes = bytes;
	c->pages.lines += c->batch->nmessages - messages;
	return state;
}

int
atp_consumer_undecided_ms(const Consumer *c)
{
	return UNDECIDED_MS << Min(c->failures, UNDECIDED_DOUBLINGS);
}

/*
 * The time of a message is ahead of the clock: may the decision wait for later messages, which may show that
 * only this message is wrong?  Without waiting, the author of one message could end every connection at this
 * message, and stop the stream.
 */
static bool
may_wait(Consumer *c, const char *why)
{
	if (c->state == ATP_STATE_STREAMING)
		atp_consumer_is_undecided(c, why);
	return !atp_batch_full(c->batch) &&
		atp_remaining(atp_now(), c->undecided_since, atp_consumer_undecided_ms(c)) > 0;
}

void
atp_consumer_receive(Consumer *c)
{
	AtpBatch   *batch = c->batch;
	AtpVerdict	verdict = {.drop = ATP_DROP_NONE};
	AtpConnState state = advance_connection(c);
	int			nevents = batch->nevents;

	if (state == ATP_CONN_OPEN && atp_consumer_is_deferring(c))
		return;
	if (c->seam_open && batch->ndecoded < batch->nmessages)
		atp_consumer_judge_seam(c);
	if (batch->ndecoded == 0)
		atp_decoder_shares(c->decoder, atp_multi_source_is_shared(c->statements) ? c->states : InvalidOid);
	if (batch->ndecoded < batch->nmessages)
		verdict = atp_decode(c->decoder, batch, &c->position, c->shards ? ATP_DECODE_HEADS : ATP_DECODE_ALL);
	atp_consumer_note_times(c, nevents);
	if (verdict.drop != ATP_DROP_CLOCK)
	{
		if (c->state == ATP_STATE_UNDECIDED)
			atp_consumer_is_decided(c);
	}
	else if (state == ATP_CONN_OPEN && may_wait(c, verdict.why))
		return;
	if (c->by_pages && state == ATP_CONN_OPEN)
		atp_consumer_ask_ahead(c);
	if (verdict.drop == ATP_DROP_NONE && state == ATP_CONN_PAGE_READ)
	{
		atp_consumer_page_is_read(c);
		return;
	}
	if (verdict.drop == ATP_DROP_NONE && atp_conn_is_stale(c->conn))
	{
		atp_consumer_leave_connection(c);
		return;
	}
	if (verdict.drop == ATP_DROP_NONE && state == ATP_CONN_CLOSED)
		verdict = (AtpVerdict) {.drop = atp_conn_drop(c->conn), .why = atp_conn_error(c->conn)};
	if (verdict.drop == ATP_DROP_NONE)
		return;

	/* the drop applies the good events first and resets the batch, so copy the text */
	verdict.why = MemoryContextStrdup(c->conn_cxt, verdict.why);
	if (c->shards != NULL && (verdict.drop == ATP_DROP_FRAME || verdict.drop == ATP_DROP_SEQ))
		atp_consumer_hand_broken(c);
	if (verdict.error == ATP_SERVER_ERROR_FUTURE_CURSOR)
	{
		atp_consumer_flush(c);
		atp_consumer_stop(c, verdict.why);	/* E-45 */
	}
	if (verdict.drop == ATP_DROP_CLOSED)
		atp_consumer_judge_close(c);
	atp_consumer_drop(c, verdict.drop, verdict.why);
}

long
atp_consumer_watch(Consumer *c, AtpTime now)
{
	bool		open = c->state != ATP_STATE_CONNECTING;
	int			limit = open ? atp_idle_timeout_ms : ANSWER_TIMEOUT_MS;
	long		silence = limit > 0 ? atp_remaining(now, c->last_data, limit) : -1;
	long		ping;

	if (silence == 0)
	{
		atp_consumer_drop(c, ATP_DROP_IDLE, !open ? "the server does not answer"
						  : atp_conn_choked(c->conn) ? "the server does not read the answers to its pings"
						  : "nothing came from the server for too long");
		return 0;
	}
	if (!open || atp_ping_interval_ms == 0)
		return silence;
	ping = atp_remaining(now, Max(c->last_data, c->last_ping), atp_ping_interval_ms);
	if (ping == 0)
	{
		atp_conn_ping(c->conn);
		c->last_ping = now;
		ping = atp_remaining(now, now, atp_ping_interval_ms);
	}
	return silence < 0 ? ping : Min(silence, ping);
}
