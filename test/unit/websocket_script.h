/*
 * websocket_script.h
 *		A scripted WebSocket server, and a client that logs what it receives and sends: for test_websocket.c.
 *
 * put_frame() and its kind write the server's bytes into a script; run() plays the script, cut in all ways.
 */
#ifndef WEBSOCKET_SCRIPT_H
#define WEBSOCKET_SCRIPT_H

#include "net/websocket.h"

#include <stdarg.h>

#include "core/wire/frame.h"
#include "unit.h"

/* ------------------------------------------------------------------------
 * A server's script
 * ------------------------------------------------------------------------
 */
#define FIN			0x80
#define CONTINUE	0x0
#define TEXT		0x1
#define BINARY		0x2
#define CLOSE		0x8
#define PING		0x9
#define PONG		0xa

static uint8_t *script;
static size_t script_len;
static size_t script_cap;

static void
put(const void *data, size_t len)
{
	if (script_len + len > script_cap)
	{
		script_cap = 2 * (script_len + len);
		script = realloc(script, script_cap);
	}
	if (len > 0)
		memcpy(script + script_len, data, len);
	script_len += len;
}

/* The head of a frame: the first byte, and the length in the shortest form. */
static void
put_head(int first, uint64_t len)
{
	uint8_t		head[10] = {first};
	int			more = len < 126 ? 0 : len < 65536 ? 2 : 8;

	head[1] = more == 0 ? len : more == 2 ? 126 : 127;
	for (int i = 0; i < more; i++)
		head[2 + i] = len >> (8 * (more - 1 - i));
	put(head, 2 + more);
}

static void
put_frame(int first, const char *text)
{
	put_head(first, strlen(text));
	put(text, strlen(text));
}

static void
put_close(int code, const char *reason)
{
	uint8_t		bytes[2] = {code >> 8, code};

	put_head(FIN | CLOSE, 2 + strlen(reason));
	put(bytes, 2);
	put(reason, strlen(reason));
}

/* len bytes, each equal to the number of its place. */
static void
put_run(int first, size_t len)
{
	uint8_t	   *bytes = malloc(len);

	for (size_t i = 0; i < len; i++)
		bytes[i] = i;
	put_head(first, len);
	put(bytes, len);
	free(bytes);
}

/* ------------------------------------------------------------------------
 * The client, and a log of its actions
 * ------------------------------------------------------------------------
 */
typedef struct Client
{
	AtpWebSocket *ws;
	AtpEnd		end;
	bool		full;			/* no room for messages */
	bool		no_memory;
	size_t		have;			/* of a message */
	int			messages;
	int			pings;			/* frames that the client sends by itself */
	int			pongs;
	int			closes;
	size_t		taken;
	char		received[4096]; /* the messages */
	char		sent[4096];		/* the frames, unmasked */
} Client;

static Client client;
static uint8_t message[ATP_FRAME_MAX];
static bool no_random;
static bool takes_text;			/* and nothing else */

static void
note(char *log, const char *fmt,...)
{
	size_t		n = strlen(log);
	va_list		args;

	va_start(args, fmt);
	vsnprintf(log + n, sizeof(client.sent) - n, fmt, args);
	va_end(args);
}

static bool
want(void *arg)
{
	return !((Client *) arg)->full;
}

static bool
put_piece(void *arg, const uint8_t *data, size_t len)
{
	Client	   *c = arg;

	if (c->no_memory || len > sizeof(message) - c->have)
		return false;
	memcpy(message + c->have, data, len);
	c->have += len;
	/* a receiver may move a message's pieces together where they came: from now on the bytes are the receiver's */
	memset((void *) data, 0xff, len);
	return true;
}

static void
take_message(void *arg, size_t len, bool is_text, AtpEnd *end)
{
	Client	   *c = arg;
	uint32_t	sum = 0;

	if (len != c->have)
		atp_end(end, ATP_DROP_MEMORY, "a message of %zu bytes, of which %zu have come", len, c->have);
	c->have = 0;
	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + message[i];
	note(c->received, "%s%zu:%.*s:%u ", is_text ? "text " : "", len, len < 20 ? (int) len : 0, (const char *) message, len < 20 ? 0 : sum);
	c->messages++;
}

static bool
random_bytes(void *buf, size_t len)
{
	memset(buf, 0x5a, len);
	return !no_random;
}

static void
start(void)
{
	AtpReceiver receiver = {.want = want, .put = put_piece, .message = take_message, .text = takes_text, .binary = !takes_text, .arg = &client};

	atp_websocket_free(client.ws);
	memset(&client, 0, sizeof(client));
	client.ws = atp_websocket_start(&receiver, random_bytes, &client.end);
}

/* Sends everything that is due; each frame of a client is masked, and short here. */
static void
drain(void)
{
	uint8_t		all[65536];
	size_t		total = 0;
	size_t		len;
	const uint8_t *out;

	while (out = atp_websocket_output(client.ws, &len), len > 0 && total + len <= sizeof(all))
	{
		/* in two parts, as sockets may send */
		size_t		part = len > 1 ? len / 2 : 1;

		memcpy(all + total, out, part);
		total += part;
		atp_websocket_sent(client.ws, part);
	}
	for (size_t at = 0; at < total;)
	{
		uint8_t    *frame = all + at;
		size_t		n = frame[1] & 0x7f;
		char		payload[128] = "";

		if (at + 6 + n > total || !(frame[1] & 0x80) || !(frame[0] & FIN))
		{
			note(client.sent, "no frame ");
			return;
		}
		for (size_t i = 0; i < n; i++)
			payload[i] = frame[6 + i] ^ frame[2 + i % 4];
		at += 6 + n;
		if (frame[0] == (FIN | CLOSE))
			note(client.sent, "close %d ", n < 2 ? 0 : (uint8_t) payload[0] << 8 | (uint8_t) payload[1]);
		else
			note(client.sent, "%s(%s) ", frame[0] == (FIN | TEXT) ? "text" : frame[0] == (FIN | PING) ? "ping" : frame[0] == (FIN | PONG) ? "pong" : "?", payload);
		client.pings += frame[0] == (FIN | PING);
		client.pongs += frame[0] == (FIN | PONG);
		client.closes += frame[0] == (FIN | CLOSE);
	}
}

/* Offers bytes as far as the client takes them. */
static void
offer(const uint8_t *data, size_t len)
{
	uint8_t    *copy = malloc(len); /* exact size: ASan finds a read past the end */
	size_t		n = 0;
	size_t		taken;

	memcpy(copy, data, len);
	do
	{
		taken = atp_websocket_take(client.ws, copy + n, len - n);
		n += taken;
		drain();
	} while (taken > 0 && n < len);
	client.taken += n;
	free(copy);
}

/* Plays the script in pieces of so many bytes (0: random pieces). */
static void
play(size_t piece)
{
	start();
	for (size_t at = 0, n; at < script_len; at += n)
	{
		n = piece > 0 ? piece : 1 + (size_t) rand() % 40;
		if (n > script_len - at)
			n = script_len - at;
		offer(script + at, n);
	}
}

/* Plays the script at once, and then cut in every way: the result must be the same. */
static void
run(const char *name)
{
	const size_t pieces[] = {1, 2, 3, 7, 125, 4096, 4097, 0};
	Client		whole;
	int			differ = 0;

	play(script_len + 1);
	whole = client;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++)
	{
		/* byte by byte takes long with megabytes */
		if (script_len > 200000 && pieces[i] < 4096)
			continue;
		play(pieces[i]);
		differ += strcmp(client.received, whole.received) != 0 || strcmp(client.sent, whole.sent) != 0 ||
			client.end.drop != whole.end.drop || client.end.close_code != whole.end.close_code ||
			strcmp(client.end.why, whole.end.why) != 0;
	}
	ok(differ == 0, "%s: the same however it is cut", name);
	script_len = 0;
}

/* Plays the script, and compares what the client has received and sent, and why the connection ended. */
static void
gives(const char *name, const char *received, const char *sent, AtpDrop drop, const char *why)
{
	run(name);
	ok(strcmp(client.received, received) == 0, "%s: messages: %s", name, client.received);
	ok(strcmp(client.sent, sent) == 0, "%s: sends: %s", name, client.sent);
	ok(client.end.drop == drop && strstr(client.end.why, why) != NULL, "%s: %s, %s", name, atp_drop_name(client.end.drop), client.end.why);
}

#endif							/* WEBSOCKET_SCRIPT_H */
