/*
 * conn.c
 *		The life of a connection.  Everything that is sent goes through one
 *		output buffer, so that each fault knows what the client can have got.
 */
#include "conn.h"

#include "jetstream.h"
#include "message.h"
#include "text.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_HIGH		262144	/* refill the output buffer up to here */
#define TURN_MAX		4194304 /* bytes written before others get their turn */

/* --- wslay's view of the connection --- */

static ssize_t
frame_out(const uint8_t *data, size_t len, int flags, void *user)
{
	(void) flags;
	buffer_add(&((Conn *) user)->out, data, len);
	return (ssize_t) len;
}

static ssize_t
event_out(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags, void *user)
{
	(void) ctx;
	return frame_out(data, len, flags, user);
}

static ssize_t
event_in(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *user)
{
	Conn	   *c = user;
	size_t		n = buffer_len(&c->in);

	(void) flags;
	if (n == 0)
	{
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (n > len)
		n = len;
	memcpy(buf, buffer_bytes(&c->in), n);
	buffer_consume(&c->in, n);
	return (ssize_t) n;
}

static void
send_frame(Conn *c, uint8_t opcode, bool fin, const uint8_t *data, size_t len)
{
	struct wslay_frame_iocb iocb = {
		.fin = fin, .opcode = opcode, .payload_length = len, .data = data, .data_length = len
	};

	if (wslay_frame_send(c->sender, &iocb) != (ssize_t) len)
		die("cannot make a WebSocket frame of %zu bytes", len);
}

static void
send_message(Conn *c, uint8_t opcode, const uint8_t *data, size_t len, bool ping_inside)
{
	size_t		piece = c->player.faults && c->options->fragment > 0
		? (size_t) c->options->fragment : len;

	do
	{
		size_t		n = len < piece ? len : piece;

		send_frame(c, opcode, n == len, data, n);
		opcode = WSLAY_CONTINUATION_FRAME;
		data += n;
		len -= n;
		if (ping_inside)
			send_frame(c, WSLAY_PING, true, (const uint8_t *) "inside", 6);
		ping_inside = false;
	} while (len > 0);
}

/* A message in the capture's wire: of DAG-CBOR, a text, or a compressed one. */
static void
send_on_wire(Conn *c, const uint8_t *data, size_t len, bool ping_inside)
{
	const Options *o = c->options;
	Buffer		b = {0};

	if (o->capture.wire == WIRE_CBOR)
		send_message(c, WSLAY_BINARY_FRAME, data, len, ping_inside);
	else if (!c->compressed)
		send_message(c, WSLAY_TEXT_FRAME, data, len, ping_inside);
	else
	{
		compress_message(&b, o->dictionary, !o->zstd_unsized, data, len);
		send_message(c, WSLAY_BINARY_FRAME, buffer_bytes(&b), buffer_len(&b), ping_inside);
		buffer_free(&b);
	}
}

static void
send_close(Conn *c, int code)
{
	uint8_t		payload[2] = {(uint8_t) (code >> 8), (uint8_t) code};

	/* 1005 stands for a close frame without a code, as in RFC 6455, 7.4.1. */
	send_frame(c, WSLAY_CONNECTION_CLOSE, true, payload, code == 1005 ? 0 : sizeof payload);
	snprintf(c->how, sizeof c->how, "closed %d", code);
	c->state = CONN_CLOSING;
}

/* What a client of Jetstream sends: the first version's options, or nothing. */
static void
data_message(Conn *c, Slice text)
{
	if (c->options->capture.wire == WIRE_JETSTREAM)
	{
		c->waits = false;
		if (!filter_update(&c->player.filter, text))
			send_close(c, 1007);
	}
	else if (c->options->capture.wire == WIRE_JSON)
		send_close(c, 1008);
}

static void
event_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *arg, void *user)
{
	Conn	   *c = user;

	(void) ctx;
	if (arg->opcode == WSLAY_PING)
		c->tally.pings++;
	else if (arg->opcode == WSLAY_PONG)
		c->tally.pongs++;
	else if (arg->opcode == WSLAY_CONNECTION_CLOSE)
	{
		if (c->state != CONN_CLOSING)
			snprintf(c->how, sizeof c->how, "client closed %d", arg->status_code);
		c->state = CONN_LAST_BYTES;
	}
	else
	{
		c->tally.data++;
		if (c->state == CONN_STREAM)
			data_message(c, (Slice) {(const char *) arg->msg, arg->msg_length});
	}
}

static void
open_websocket(Conn *c)
{
	struct wslay_frame_callbacks frame = {.send_callback = frame_out};
	struct wslay_event_callbacks event = {
		.recv_callback = event_in, .send_callback = event_out, .on_msg_recv_callback = event_message
	};

	if (wslay_frame_context_init(&c->sender, &frame, c) != 0 ||
		wslay_event_context_server_init(&c->receiver, &event, c) != 0)
		die("cannot make a WebSocket context");
}

/* --- from the request to the stream --- */

static void
tell_error(Conn *c, const char *name, const char *text)
{
	Buffer		b = {0};

	if (c->options->capture.wire == WIRE_CBOR)
		message_error(&b, name, text);
	else
		text_error(&b, name, text);
	send_on_wire(c, buffer_bytes(&b), buffer_len(&b), false);
	buffer_free(&b);
	c->tally.told = name;
	send_close(c, 1008);
}

static void
tell_outdated(Conn *c, const char *nsid)
{
	static const char text[] = "Requested cursor exceeded limit. Possibly missing events";
	Buffer		b = {0};

	c->tally.told = "OutdatedCursor";
	if (c->options->capture.wire == WIRE_CBOR)
		message_info(&b, c->tally.told, text);
	else
		text_info(&b, nsid, c->tally.told, text);
	send_on_wire(c, buffer_bytes(&b), buffer_len(&b), false);
	buffer_free(&b);
}

/* Where to start (E-44, D13), having said what the cursor calls for. */
static int64_t
start_after(Conn *c, const Request *r)
{
	const Options *o = c->options;
	const Capture *capture = &o->capture;
	int64_t		last = capture_last(capture);
	int64_t		after = o->live_start != NEVER ? o->live_start : last;

	if (!capture->has_seq)
		return o->live_start != NEVER ? o->live_start : 0;
	if (r->cursor != NULL)
	{
		char	   *end;

		after = strtoll(r->cursor, &end, 10);
		if (end == r->cursor || *end || after < 0)
			tell_error(c, "InvalidRequest", "The cursor is not a number.");
		else if (after > last)
			tell_error(c, "FutureCursor", "Cursor in the future.");
		else if (after > 0 && after < o->oldest - 1)
			tell_outdated(c, r->path + strlen("/xrpc/"));
		if (o->inclusive && after > 0)
			after--;
		if (after < o->oldest - 1)
			after = o->oldest - 1;
	}
	return after;
}

static void
start_stream(Conn *c, const Request *r, Jetstream *js)
{
	const Options *o = c->options;
	int64_t		after;

	c->state = CONN_STREAM;
	c->compressed = js->compressed;
	c->waits = js->hello;
	if (!js->is)
		after = start_after(c, r);
	else
	{
		after = js->after;
		c->tally.told = js->told;
		if (js->told != NULL && o->capture.wire == WIRE_JSON)
			tell_outdated(c, JETSTREAM_NSID);
	}
	player_start(&c->player, o, js->filter, after, c->number);
}

static void
refuse(Conn *c, int status, const Options *o)
{
	http_refuse(&c->out, status, o);
	snprintf(c->how, sizeof c->how, "status %d", status);
	c->state = CONN_LAST_BYTES;
}

static void
read_request(Conn *c, int64_t now)
{
	const Options *o = c->options;
	bool		faults;
	Request		r;
	Jetstream	js;
	int			got = http_read(&c->in, &r);
	int			status;

	if (got == 0)
		return;
	if (got < 0)
	{
		http_free(&r);
		refuse(c, 400, NULL);
		return;
	}
	if (jetstream_wants_dictionary(&r))
	{
		/* No stream: faults that are for the first so many do not count it. */
		log_request(0, &r);
		snprintf(c->how, sizeof c->how, "%s", jetstream_dictionary(&c->out, &r, o->dictionary));
		c->state = CONN_LAST_BYTES;
		http_free(&r);
		return;
	}
	c->number = ++*c->counter;
	faults = o->fault_times == NEVER || c->number <= o->fault_times;
	log_request(c->number, &r);
	status = http_check(&r, o->capture.wire);
	if (faults && !o->no_upgrade_reply)
		http_interim(&c->out, o->interim);
	if (o->status != 0 && (o->status_times == NEVER || c->number <= o->status_times))
		refuse(c, o->status, o);
	else if (faults && o->no_upgrade_reply)
		c->state = CONN_SILENT;
	else if (status != 101)
		refuse(c, status, NULL);
	else if (!jetstream_open(&js, &r, o))
	{
		http_error(&c->out, js.error, js.text);
		snprintf(c->how, sizeof c->how, "%s", js.error);
		c->state = CONN_LAST_BYTES;
	}
	else
	{
		http_switch(&c->out, &r, faults && o->bad_accept, o->capture.wire);
		open_websocket(c);
		c->start = now;
		start_stream(c, &r, &js);
	}
	http_free(&r);
}

/* --- the stream --- */

/* --cut-after: the last bytes are those of --cut-inside. */
static void
cut(Conn *c, const Step *step)
{
	size_t		keep = buffer_len(&c->out) + (size_t) c->options->cut_inside;

	if (c->options->cut_inside > 0 && step->data != NULL)
	{
		send_on_wire(c, step->data, step->len, false);
		if (buffer_len(&c->out) > keep)
			c->out.end = c->out.head + keep;
	}
	snprintf(c->how, sizeof c->how, "cut");
	c->broken = true;
	c->reset = c->options->cut_reset;
	c->state = CONN_LAST_BYTES;
}

/* Nothing can be done before that time; always false. */
static bool
sleep_until(Conn *c, int64_t when)
{
	if (when < c->wake)
		c->wake = when;
	return false;
}

/* False when --rate says that the next message is not due; sets c->wake. */
static bool
is_due(Conn *c, int64_t now)
{
	double		due;

	if (c->options->rate <= 0)
		return true;
	if (c->player.last_seq + 1 < c->options->rate_from)
	{
		c->start = now;
		c->unpaced = c->player.sent + 1;
		return true;
	}
	due = (double) c->start + (double) (c->player.sent - c->unpaced) * 1e6 / c->options->rate;
	if ((double) now >= due)
		return true;
	return sleep_until(c, (int64_t) due + 1);
}

static void
fill(Conn *c, int64_t now, int64_t held)
{
	bool		ping_inside = false;
	size_t		high = c->player.faults && c->options->trickle_bytes > 0 ? 1 : OUT_HIGH;

	c->idle = c->waits;
	while (c->state == CONN_STREAM && !c->idle && buffer_len(&c->out) < high && is_due(c, now))
	{
		Step		step = player_next(&c->player, held);

		switch (step.kind)
		{
			case STEP_MESSAGE:
				send_on_wire(c, step.data, step.len, ping_inside);
				ping_inside = false;
				break;
			case STEP_BINARY:
				send_message(c, WSLAY_BINARY_FRAME, step.data, step.len, false);
				break;
			case STEP_TEXT:
				send_message(c, WSLAY_TEXT_FRAME, step.data, step.len, false);
				break;
			case STEP_PING:
				if (c->options->fragment > 0)
					ping_inside = true;
				else
					send_frame(c, WSLAY_PING, true, NULL, 0);
				break;
			case STEP_RAW:
				buffer_add(&c->out, step.data, step.len);
				break;
			case STEP_IDLE:
				c->idle = true;
				break;
			case STEP_CLOSE:
				send_close(c, step.code);
				break;
			case STEP_CUT:
				cut(c, &step);
				break;
		}
	}
}

/* --- bytes --- */

static void
finish(Conn *c, const char *how)
{
	if (c->how[0] == '\0')
		snprintf(c->how, sizeof c->how, "%s", how);
	c->state = CONN_DONE;
}

/* Reads what there is; how the input ended, or NULL. */
static const char *
pull(Conn *c)
{
	uint8_t		chunk[16384];
	ssize_t		n;

	while ((n = transport_read(&c->transport, chunk, sizeof chunk)) > 0)
	{
		if (c->state != CONN_DRAIN && c->state != CONN_SILENT)
			buffer_add(&c->in, chunk, (size_t) n);
		if (c->state == CONN_REQUEST && buffer_len(&c->in) > HTTP_REQUEST_MAX)
			break;
	}
	if (n == 0)
		return "client gone";
	if (n == IO_ERROR)
		return transport_in_handshake(&c->transport) ? "TLS failed" : "client broke off";
	return NULL;
}

/* Handles the client's frames and queues what wslay wants to answer. */
static void
receive(Conn *c)
{
	bool		silent = c->state == CONN_CLOSING || (c->options->ignore_pings && c->player.faults);

	if (buffer_len(&c->in) == 0)
		return;
	if (wslay_event_recv(c->receiver) != 0)
	{
		finish(c, "client's frame is malformed");
		return;
	}
	/* Nothing may follow a close frame of ours. */
	while (!silent && wslay_event_want_write(c->receiver))
		if (wslay_event_send(c->receiver) != 0)
			die("cannot answer a WebSocket frame");
}

/* Writes once; false when the socket or the pace of --trickle stops us. */
static bool
push(Conn *c, int64_t now, size_t *written)
{
	bool		trickle = c->options->trickle_bytes > 0 &&
		(c->options->fault_times == NEVER || c->number <= c->options->fault_times);
	size_t		n = buffer_len(&c->out);
	ssize_t		put;

	if (n == 0)
		return false;
	if (trickle)
	{
		c->paused = now < c->next_write;
		if (c->paused)
			return sleep_until(c, c->next_write);
		if (n > (size_t) c->options->trickle_bytes)
			n = (size_t) c->options->trickle_bytes;
	}
	put = transport_write(&c->transport, buffer_bytes(&c->out), n);
	if (put == IO_ERROR)
		finish(c, "client broke off");
	if (put < 0)
		return false;
	buffer_consume(&c->out, (size_t) put);
	*written += (size_t) put;
	if (trickle)
	{
		c->next_write = now + c->options->trickle_usec;
		c->paused = true;
		return sleep_until(c, c->next_write);
	}
	return *written < TURN_MAX;
}

void
conn_run(Conn *c, short revents, int64_t now, int64_t held)
{
	size_t		written = 0;
	const char *ended = NULL;

	c->wake = INT64_MAX;
	if (revents & (POLLIN | POLLHUP | POLLERR) || (revents && c->transport.read_wants_out))
		ended = pull(c);
	if (c->state == CONN_REQUEST)
		read_request(c, now);
	if (c->state == CONN_STREAM || c->state == CONN_CLOSING)
		receive(c);
	if (ended)
		finish(c, ended);
	do
	{
		if (c->state == CONN_STREAM)
			fill(c, now, held);
	} while (c->state != CONN_DONE && push(c, now, &written));
	if (c->state == CONN_LAST_BYTES && buffer_len(&c->out) == 0)
	{
		if (c->reset)
			finish(c, "");
		else
		{
			transport_shut(&c->transport, !c->broken);
			c->state = CONN_DRAIN;
		}
	}
}

short
conn_events(const Conn *c)
{
	short		events = POLLIN;
	bool		more = c->state == CONN_STREAM && !c->idle && c->wake == INT64_MAX;

	/* The output buffer can be empty with more to come: TURN_MAX was reached. */
	if (((more || buffer_len(&c->out) > 0) && !c->paused) || c->transport.read_wants_out)
		events |= POLLOUT;
	return events;
}

Conn *
conn_new(int fd, SSL_CTX *ctx, const Options *o, int64_t *counter)
{
	Conn	   *c = xcalloc(1, sizeof *c);

	c->counter = counter;
	c->options = o;
	c->wake = INT64_MAX;
	transport_open(&c->transport, fd, ctx);
	return c;
}

void
conn_free(Conn *c)
{
	c->tally.messages = c->player.sent;
	c->tally.first_seq = c->player.first_seq;
	c->tally.last_seq = c->player.last_seq;
	log_end(c->number, &c->tally, c->how[0] ? c->how : "server stopped");
	transport_close(&c->transport, c->reset);
	filter_free(&c->player.filter);
	wslay_frame_context_free(c->sender);
	wslay_event_context_free(c->receiver);
	buffer_free(&c->in);
	buffer_free(&c->out);
	free(c);
}
