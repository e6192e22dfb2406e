/*
 * websocket.c
 *		The WebSocket protocol of a client, bytes in and out.
 */
#include "net/websocket.h"

#include <stdlib.h>
#include <wslay/wslay.h>

#include "core/wire/frame.h"

#define OUTPUT_BUFFER		4096
#define REPLIES_MAX			64	/* unsent pongs, above which no more bytes are taken */

struct AtpWebSocket
{
	wslay_event_context_ptr wslay;
	AtpReceiver receiver;
	AtpRandomFn random;
	AtpEnd	   *end;

	/* bytes offered and not yet taken */
	const uint8_t *in;
	size_t		in_len;

	/*
	 * The frame being received.  Until frame_start_callback(): head_len bytes of it have been given to wslay,
	 * head has the first two.  After that: left bytes of its payload are still to come.
	 */
	uint8_t		head[2];
	size_t		head_len;
	uint64_t	left;
	bool		in_data_frame;	/* the frame is a data frame, not a ping or close frame between the fragments of a message */

	/* The message being received, whose bytes the receiver has. */
	size_t		msg_len;
	size_t		heads_len;		/* bytes of its frames' heads: an endless message of empty frames has to count as too large */
	bool		is_text;

	/* to be sent */
	uint8_t		out[OUTPUT_BUFFER];
	size_t		out_pos;
	size_t		out_len;
};

/* End the connection, telling the peer the reason by a close frame, as far as the peer still reads. */
static void
too_large(AtpWebSocket *ws)
{
	atp_websocket_close(ws, WSLAY_CODE_MESSAGE_TOO_BIG);
	atp_end(ws->end, ATP_DROP_TOO_LARGE, "a message is longer than %d bytes", ATP_FRAME_MAX);
}

/* ------------------------------------------------------------------------
 * What wslay calls
 * ------------------------------------------------------------------------
 */

/*
 * Pass a message's bytes to the receiver directly from the input. wslay would copy them in pieces of 4 kB
 * first, but checks no byte of a binary message: so wslay only learns how many bytes have come, and its
 * buffer stays unwritten.  Text messages are copied into wslay's buffer, too, since wslay checks their UTF-8.
 */
static bool
put_message(AtpWebSocket *ws, const uint8_t *data, size_t len)
{
	if (!ws->receiver.put(ws->receiver.arg, data, len))
	{
		atp_end(ws->end, ATP_DROP_MEMORY, "no memory for a message of more than %zu bytes", ws->msg_len);
		return false;
	}
	ws->msg_len += len;
	return true;
}

/* The length of a frame's head, computed from its second byte. */
static size_t
head_size(const AtpWebSocket *ws)
{
	uint8_t		len = ws->head[1] & 0x7f;

	return 2 + (len == 126 ? 2 : len == 127 ? 8 : 0) + (ws->head[1] & 0x80 ? 4 : 0);
}

/*
 * How many more bytes wslay has to get before it calls frame_start_callback() and so accepts or rejects the
 * frame: the head, and the first payload byte, without which wslay does not call.  A control frame is passed
 * whole, because wslay checks only the first piece of a close reason correctly.
 */
static size_t
head_wants(const AtpWebSocket *ws)
{
	uint8_t		opcode = ws->head[0] & 0xf;

	if (ws->head_len < sizeof(ws->head))
		return sizeof(ws->head) - ws->head_len;
	return head_size(ws) + (wslay_is_ctrl_frame(opcode) ? ws->head[1] & 0x7f : 1) - ws->head_len;
}

static ssize_t
recv_callback(wslay_event_context_ptr wslay, uint8_t *buf, size_t len, int flags, void *arg)
{
	AtpWebSocket *ws = arg;
	bool		in_message = ws->left > 0 && ws->in_data_frame;
	size_t		wanted = ws->left > 0 ? ws->left : head_wants(ws);
	size_t		n = len < ws->in_len ? len : ws->in_len;

	if (n > wanted)
		n = wanted;
	/*
	 * copy before put_message(): the receiver moves a message's pieces together over the heads of the frames, and so
	 * overwrites the input
	 */
	if (!in_message || ws->is_text)
		memcpy(buf, ws->in, n);
	/*
	 * Take nothing while the receiver wants no more (back-pressure), or while too many pongs are unsent: a
	 * peer that sends pings and reads no pongs must not fill our memory.
	 */
	if (n == 0 || !atp_websocket_ready(ws) || (in_message && !put_message(ws, ws->in, n)))
	{
		wslay_event_set_error(wslay, ws->end->drop == ATP_DROP_NONE ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	if (ws->left > 0)
		ws->left -= n;
	else
	{
		if (ws->head_len < sizeof(ws->head))
			memcpy(ws->head + ws->head_len, ws->in, n);
		ws->head_len += n;
	}
	ws->in += n;
	ws->in_len -= n;
	return n;
}

static ssize_t
send_callback(wslay_event_context_ptr wslay, const uint8_t *data, size_t len, int flags, void *arg)
{
	AtpWebSocket *ws = arg;
	size_t		room = OUTPUT_BUFFER - ws->out_len;
	size_t		n = len < room ? len : room;

	if (n == 0)
	{
		wslay_event_set_error(wslay, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(ws->out + ws->out_len, data, n);
	ws->out_len += n;
	return n;
}

static int
genmask_callback(wslay_event_context_ptr wslay, uint8_t *buf, size_t len, void *arg)
{
	return ((AtpWebSocket *) arg)->random(buf, len) ? 0 : -1;
}

/*
 * A data frame begins. wslay does not assemble messages (no_buffering), because its memory for a message
 * grows with the number of fragments, and a peer could send a message byte by byte.  So the limit of a
 * message's length is checked here.
 */
static void
frame_start_callback(wslay_event_context_ptr wslay, const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
	AtpWebSocket *ws = arg;

	size_t		with_head = ws->head_len - head_size(ws);

	ws->heads_len += head_size(ws);
	ws->head_len = 0;
	ws->left = frame->payload_length - with_head;
	ws->in_data_frame = !wslay_is_ctrl_frame(frame->opcode);
	if (!ws->in_data_frame)
		return;
	if (frame->opcode != WSLAY_CONTINUATION_FRAME)
		ws->is_text = frame->opcode == WSLAY_TEXT_FRAME;
	/* wslay has checked the frame's own length */
	if (ws->msg_len + frame->payload_length > ATP_FRAME_MAX || ws->heads_len > ATP_FRAME_MAX)
		too_large(ws);
	else if (with_head > 0)
		(void) put_message(ws, ws->in - with_head, with_head);
}

static void
take_message(AtpWebSocket *ws, bool is_text)
{
	if (ws->end->drop == ATP_DROP_NONE && (is_text ? ws->receiver.text : ws->receiver.binary))
		ws->receiver.message(ws->receiver.arg, ws->msg_len, is_text, ws->end);
	else if (ws->end->drop == ATP_DROP_NONE)
	{
		atp_websocket_close(ws, WSLAY_CODE_UNSUPPORTED_DATA);
		atp_end(ws->end, ATP_DROP_WEBSOCKET, "the server sent a %s message", is_text ? "text" : "binary");
	}
	ws->msg_len = ws->heads_len = 0;
}

static void
message_callback(wslay_event_context_ptr wslay, const struct wslay_event_on_msg_recv_arg *msg, void *arg)
{
	AtpWebSocket *ws = arg;

	if (msg->opcode == WSLAY_BINARY_FRAME || msg->opcode == WSLAY_TEXT_FRAME)
		take_message(ws, msg->opcode == WSLAY_TEXT_FRAME);
	else if (msg->opcode == WSLAY_CONNECTION_CLOSE && ws->end->drop == ATP_DROP_NONE)
	{
		ws->end->close_code = msg->status_code;
		if (msg->msg_length > 2)
		{
			size_t		n = msg->msg_length - 2 < sizeof(ws->end->reason) ? msg->msg_length - 2 : sizeof(ws->end->reason) - 1;

			memcpy(ws->end->reason, msg->msg + 2, n);
		}
		atp_end(ws->end, ATP_DROP_CLOSED, "the server closed the stream with code %d%s%.*s",
				msg->status_code, msg->msg_length > 2 ? ": " : "",
				(int) (msg->msg_length > 2 ? msg->msg_length - 2 : 0),
				msg->msg_length > 2 ? (const char *) msg->msg + 2 : "");
	}
}

/* ------------------------------------------------------------------------
 * Functions for the owner of the connection
 * ------------------------------------------------------------------------
 */
AtpWebSocket *
atp_websocket_start(const AtpReceiver *receiver, AtpRandomFn random, AtpEnd *end)
{
	struct wslay_event_callbacks callbacks = {
		.recv_callback = recv_callback,
		.send_callback = send_callback,
		.genmask_callback = genmask_callback,
		.on_frame_recv_start_callback = frame_start_callback,
		.on_msg_recv_callback = message_callback,
	};
	AtpWebSocket *ws = calloc(1, sizeof(AtpWebSocket));

	if (ws == NULL)
		return NULL;
	if (wslay_event_context_client_init(&ws->wslay, &callbacks, ws) != 0)
	{
		free(ws);
		return NULL;
	}
	wslay_event_config_set_no_buffering(ws->wslay, 1);
	wslay_event_config_set_max_recv_msg_length(ws->wslay, ATP_FRAME_MAX);
	ws->receiver = *receiver;
	ws->random = random;
	ws->end = end;
	return ws;
}

bool
atp_websocket_choked(const AtpWebSocket *ws)
{
	return wslay_event_get_queued_msg_count(ws->wslay) > REPLIES_MAX;
}

bool
atp_websocket_ready(const AtpWebSocket *ws)
{
	return ws->end->drop == ATP_DROP_NONE && ws->receiver.want(ws->receiver.arg) && !atp_websocket_choked(ws);
}

/* wslay has queued or sent a close frame, its answer to a violation of the protocol: find the reason. */
static void
find_violation(AtpWebSocket *ws)
{
	int			code;

	/* wslay knows the code of a close frame only after sending it */
	(void) wslay_event_send(ws->wslay);
	code = wslay_event_get_status_code_sent(ws->wslay);
	if (code == WSLAY_CODE_MESSAGE_TOO_BIG)
		too_large(ws);
	else
		atp_end(ws->end, ATP_DROP_WEBSOCKET, "the server broke the WebSocket protocol (code %d)", code);
}

size_t
atp_websocket_take(AtpWebSocket *ws, const uint8_t *data, size_t len)
{
	int			rc;

	if (!atp_websocket_ready(ws))
		return 0;
	ws->in = data;
	ws->in_len = len;
	rc = wslay_event_recv(ws->wslay);
	if (rc == WSLAY_ERR_NOMEM)
		atp_end(ws->end, ATP_DROP_MEMORY, "out of memory");
	else if (rc != 0)
		atp_end(ws->end, ATP_DROP_WEBSOCKET, "the server broke the WebSocket protocol");
	else if (ws->end->drop == ATP_DROP_NONE &&
			 (wslay_event_get_read_enabled(ws->wslay) == 0 || wslay_event_get_close_sent(ws->wslay)))
		find_violation(ws);
	return len - ws->in_len;
}

const uint8_t *
atp_websocket_output(AtpWebSocket *ws, size_t *len)
{
	if (ws->out_pos == ws->out_len)
	{
		ws->out_pos = ws->out_len = 0;
		if (wslay_event_send(ws->wslay) != 0)
			atp_end(ws->end, ATP_DROP_WEBSOCKET, "no WebSocket frame can be made");
	}
	*len = ws->out_len - ws->out_pos;
	return ws->out + ws->out_pos;
}

void
atp_websocket_sent(AtpWebSocket *ws, size_t len)
{
	ws->out_pos += len;
}

void
atp_websocket_ping(AtpWebSocket *ws)
{
	struct wslay_event_msg ping = {.opcode = WSLAY_PING};

	/* a ping that is still unsent is enough */
	if (ws->out_pos == ws->out_len && !wslay_event_want_write(ws->wslay))
		(void) wslay_event_queue_msg(ws->wslay, &ping);
}

void
atp_websocket_text(AtpWebSocket *ws, const char *text, size_t len)
{
	struct wslay_event_msg msg = {.opcode = WSLAY_TEXT_FRAME, .msg = (const uint8_t *) text, .msg_length = len};

	if (wslay_event_queue_msg(ws->wslay, &msg) != 0)
		atp_end(ws->end, ATP_DROP_MEMORY, "no memory for a message of %zu bytes", len);
}

void
atp_websocket_close(AtpWebSocket *ws, uint16_t code)
{
	(void) wslay_event_queue_close(ws->wslay, code, NULL, 0);
}

void
atp_websocket_free(AtpWebSocket *ws)
{
	if (ws == NULL)
		return;
	wslay_event_context_free(ws->wslay);
	free(ws);
}
