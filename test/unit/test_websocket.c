/*
 * test_websocket.c
 *		Passes a scripted server's bytes through the WebSocket layer: the output must not depend on the cuts
 *		between the bytes, nor on the moments at which answers can be sent.  E-10, E-11.
 */
#include "websocket_script.h"

static void
test_messages(void)
{
	const size_t lengths[] = {125, 126, 65535, 65536};
	char		one[sizeof(client.received)];

	put_frame(FIN | BINARY, "one");
	put_frame(FIN | BINARY, "");
	put_frame(FIN | BINARY, "two");
	gives("messages", "3:one:0 0::0 3:two:0 ", "", ATP_DROP_NONE, "");

	put_frame(BINARY, "a");
	put_frame(CONTINUE, "");
	put_frame(CONTINUE, "b");
	put_frame(FIN | CONTINUE, "c");
	put_frame(FIN | BINARY, "d");
	gives("fragments", "3:abc:0 1:d:0 ", "", ATP_DROP_NONE, "");

	put_frame(BINARY, "a");
	put_frame(FIN | PING, "first");
	put_frame(CONTINUE, "b");
	put_frame(FIN | PONG, "nobody asked");
	put_frame(FIN | PING, "");
	put_frame(FIN | CONTINUE, "c");
	gives("control frames between fragments", "3:abc:0 ", "pong(first) pong() ", ATP_DROP_NONE, "");

	for (int i = 0; i < 4; i++)
	{
		put_run(FIN | BINARY, lengths[i]);
		run("a length");
		strcpy(one, client.received);
		ok(client.messages == 1 && client.end.drop == ATP_DROP_NONE, "%zu bytes arrive", lengths[i]);
		put_head(BINARY, 100);
		for (int j = 0; j < 100; j++)
			put(&(uint8_t) {j}, 1);
		put_head(FIN | CONTINUE, lengths[i] - 100);
		for (size_t j = 100; j < lengths[i]; j++)
			put(&(uint8_t) {j}, 1);
		run("two parts");
		ok(strcmp(one, client.received) == 0, "%zu bytes are the same in two parts", lengths[i]);
	}
}

static void
test_limit(void)
{
	put_run(FIN | BINARY, ATP_FRAME_MAX);
	put_frame(FIN | BINARY, "next");
	run("E-11: the limit");
	ok(client.messages == 2 && client.end.drop == ATP_DROP_NONE, "E-11: the longest message");

	put_run(FIN | BINARY, ATP_FRAME_MAX + 1);
	gives("E-11: one byte too long", "", "close 1009 ", ATP_DROP_TOO_LARGE, "longer than 5000000 bytes");
	put_head(FIN | BINARY, ATP_FRAME_MAX + 1);
	put("x", 1);
	gives("E-11: the beginning of it", "", "close 1009 ", ATP_DROP_TOO_LARGE, "longer");
	put_head(FIN | BINARY, INT64_MAX);
	put("x", 1);
	gives("E-11: the longest length", "", "close 1009 ", ATP_DROP_TOO_LARGE, "longer");

	put_run(BINARY, ATP_FRAME_MAX);
	put_run(FIN | CONTINUE, 1);
	gives("E-11: one byte too long, in the last fragment", "", "close 1009 ", ATP_DROP_TOO_LARGE, "longer");
	put_run(BINARY, ATP_FRAME_MAX);
	put_frame(FIN | PING, "x");
	put_frame(FIN | CONTINUE, "");
	run("E-11: nothing in the last fragment");
	ok(client.messages == 1 && client.pongs == 1 && client.end.drop == ATP_DROP_NONE, "E-11: a ping and nothing more after the limit");
	put_run(BINARY, 100);
	put_head(FIN | CONTINUE, INT64_MAX);
	put("x", 1);
	gives("E-11: the longest length in a fragment", "", "close 1009 ", ATP_DROP_TOO_LARGE, "longer");
}

/* 0: wslay gives no code for bytes that are no frame. */
static void
breaks(const char *name, const char *sent)
{
	put_frame(FIN | BINARY, "not this");
	gives(name, "4:good:0 ", sent, ATP_DROP_WEBSOCKET, "the server broke the WebSocket protocol");
}

/* A message of empty frames that never ends. */
static void
test_empty_frames(void)
{
	put_frame(BINARY, "a");
	for (int i = 0; i < ATP_FRAME_MAX / 2 + 10; i++)
		put_frame(CONTINUE, "");
	play(65536);
	ok(client.end.drop == ATP_DROP_TOO_LARGE, "frames without contents and without end: %s", client.end.why);
	script_len = 0;
	for (int i = 0; i < 100; i++)
	{
		put_frame(BINARY, "a");
		put_frame(CONTINUE, "");
		put_frame(FIN | CONTINUE, "b");
	}
	play(100);
	ok(client.end.drop == ATP_DROP_NONE && client.messages == 100, "each message counts by itself");
	script_len = 0;
}

static void
test_broken(void)
{
	static const uint8_t masked[] = {FIN | BINARY, 0x81, 1, 2, 3, 4, 'x'};
	static const uint8_t long16[] = {FIN | BINARY, 126, 0, 1, 'x'};
	static const uint8_t long64[] = {FIN | BINARY, 127, 0, 0, 0, 0, 0, 0, 0, 1, 'x'};
	static const uint8_t negative[] = {FIN | BINARY, 127, 0x80, 0, 0, 0, 0, 0, 0, 1, 'x'};
	static const uint8_t long_ping[] = {FIN | PING, 126, 0, 126};

	put_frame(FIN | BINARY, "good");
	put(masked, sizeof(masked));
	breaks("a masked frame", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put_frame(FIN | 0x40 | BINARY, "compressed");
	breaks("E-09: a reserved bit", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put_frame(FIN | 0x3, "x");
	breaks("an unknown opcode", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put_frame(FIN | 0xb, "x");
	breaks("an unknown control frame", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put_frame(PING, "x");
	breaks("a ping in fragments", "close 0 ");
	put_frame(FIN | BINARY, "good");
	put(long_ping, sizeof(long_ping));
	breaks("a ping that is too long", "close 0 ");
	put_frame(FIN | BINARY, "good");
	put_frame(FIN | CONTINUE, "x");
	breaks("a fragment of nothing", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put_frame(BINARY, "x");
	put_frame(FIN | BINARY, "y");
	breaks("a message inside another", "close 1002 ");
	put_frame(FIN | BINARY, "good");
	put(long16, sizeof(long16));
	breaks("a length that is not the shortest", "close 0 ");
	put_frame(FIN | BINARY, "good");
	put(long64, sizeof(long64));
	breaks("a length that is not the shortest, 64 bits", "close 0 ");
	put_frame(FIN | BINARY, "good");
	put(negative, sizeof(negative));
	breaks("a length of 2^63", "close 0 ");
}

static void
test_text(void)
{
	put_frame(FIN | BINARY, "good");
	put_frame(FIN | TEXT, "h\xc3\xa9llo");
	put_frame(FIN | BINARY, "not this");
	gives("E-10: a text message", "4:good:0 ", "close 1003 ", ATP_DROP_WEBSOCKET, "text message");
	takes_text = true;
	put_frame(FIN | TEXT, "h\xc3\xa9llo");
	put_frame(TEXT, "a\xc3");
	put_frame(FIN | CONTINUE, "\xa9");
	put_frame(FIN | BINARY, "not this");
	put_frame(FIN | TEXT, "nor this");
	gives("texts, and a message that is none", "text 6:h\xc3\xa9llo:0 text 3:a\xc3\xa9:0 ", "close 1003 ", ATP_DROP_WEBSOCKET, "binary message");
	put_frame(FIN | TEXT, "h\xc3(");
	gives("a text that is no UTF-8, where texts are taken", "", "close 1007 ", ATP_DROP_WEBSOCKET, "1007");
	put_frame(TEXT, "abc");
	put_frame(FIN | CONTINUE, "def\xff");
	gives("a text that is no UTF-8 in its second fragment", "", "close 1007 ", ATP_DROP_WEBSOCKET, "1007");
	takes_text = false;
	put_frame(FIN | TEXT, "h\xc3(");
	gives("a text that is no UTF-8", "", "close 1007 ", ATP_DROP_WEBSOCKET, "broke the WebSocket protocol (code 1007)");
	put_frame(TEXT, "\xed");
	put_frame(FIN | CONTINUE, "\xa0\x80");
	gives("half a surrogate, in two fragments", "", "close 1007 ", ATP_DROP_WEBSOCKET, "1007");
	put_frame(FIN | TEXT, "\xe2\x82");
	gives("a character cut short", "", "close 1007 ", ATP_DROP_WEBSOCKET, "1007");
}

static void
test_close(void)
{
	static const int codes[] = {1000, 1001, 1002, 1003, 1007, 1009, 1011, 3000, 4999};
	static const int bad[] = {999, 1004, 1005, 1006, 1016, 2999, 5000};
	char		sent[32];
	char		why[64];

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
	{
		put_frame(FIN | BINARY, "last");
		put_close(codes[i], "");
		put_frame(FIN | BINARY, "after the end");
		snprintf(sent, sizeof(sent), "close %d ", codes[i]);
		snprintf(why, sizeof(why), "with code %d", codes[i]);
		gives("a close code", "4:last:0 ", sent, ATP_DROP_CLOSED, why);
		ok(client.end.close_code == codes[i], "%d is kept", codes[i]);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		put_close(bad[i], "");
		gives("a code that must not be sent", "", "close 1002 ", ATP_DROP_WEBSOCKET, "code 1002");
	}
	put_close(1008, "go\naway \xc3\xa9");
	gives("a reason", "", "close 1008 ", ATP_DROP_CLOSED, "with code 1008: go?away ??");
	put_close(1008, "\xff");
	play(script_len);
	ok(client.closes == 1 && client.end.drop == ATP_DROP_WEBSOCKET, "a reason that is no UTF-8: %s", client.end.why);
	play(1);
	ok(client.closes == 1 && client.end.drop != ATP_DROP_NONE && strchr(client.end.why, '\xff') == NULL,
	   "or comes in pieces, and then wslay takes it: %s", client.end.why);
	script_len = 0;
	put_frame(FIN | CLOSE, "");
	gives("a close frame without a code", "", "close 0 ", ATP_DROP_CLOSED, "with code 0");
	put_frame(FIN | CLOSE, "x");
	gives("half a code", "", "close 0 ", ATP_DROP_CLOSED, "with code 0");
	put_frame(BINARY, "half of");
	put_close(1000, "bye");
	gives("a close in the middle of a message", "", "close 1000 ", ATP_DROP_CLOSED, "bye");
}

/* A connection cut at any place: every complete message has arrived, once, and nothing else. */
static void
test_cut(void)
{
	size_t		ends[4];
	int			wrong = 0;

	put_frame(FIN | BINARY, "one");
	ends[0] = script_len;
	put_frame(BINARY, "tw");
	put_frame(FIN | PING, "x");
	put_frame(FIN | CONTINUE, "o");
	ends[1] = script_len;
	put_run(FIN | BINARY, 300);
	ends[2] = script_len;
	put_frame(FIN | BINARY, "");
	ends[3] = script_len;
	for (size_t n = 0; n <= script_len; n++)
	{
		start();
		if (n > 0)
			offer(script, n);
		wrong += client.end.drop != ATP_DROP_NONE || client.taken != n ||
			client.messages != (n >= ends[0]) + (n >= ends[1]) + (n >= ends[2]) + (n >= ends[3]);
	}
	ok(wrong == 0, "cut anywhere: what was whole has arrived");
	script_len = 0;
}

/* A peer that pings and reads nothing: nothing more is taken, until the answers can be sent. */
static void
test_choked(void)
{
	const int	pings = 5000;
	size_t		taken = 0;
	size_t		n;

	for (int i = 0; i < pings; i++)
		put_frame(FIN | PING, "");
	put_frame(FIN | BINARY, "at last");
	start();
	ok(atp_websocket_ready(client.ws) && !atp_websocket_choked(client.ws), "ready at first");
	while ((n = atp_websocket_take(client.ws, script + taken, script_len - taken)) > 0)
	{
		/* the socket accepts no bytes: the output is only looked at */
		(void) atp_websocket_output(client.ws, &n);
		taken += n > 0 ? 0 : 1;
		if (atp_websocket_choked(client.ws))
			break;
	}
	ok(atp_websocket_choked(client.ws) && !atp_websocket_ready(client.ws), "choked when no answer is read");
	ok(atp_websocket_take(client.ws, script, 1) == 0, "nothing is taken then");
	ok(client.messages == 0 && client.end.drop == ATP_DROP_NONE, "which is no fault");

	start();
	taken = 0;
	while (taken < script_len)
	{
		n = atp_websocket_take(client.ws, script + taken, script_len - taken);
		taken += n;
		if (n == 0 && !atp_websocket_choked(client.ws))
			break;
		drain();
	}
	ok(taken == script_len && client.pongs == pings, "%d of %d answered when they can be sent", client.pongs, pings);
	ok(strcmp(client.received, "7:at last:0 ") == 0, "and then goes on");
	script_len = 0;
}

static void
test_back_pressure(void)
{
	put_frame(FIN | BINARY, "one");
	start();
	client.full = true;
	ok(!atp_websocket_ready(client.ws) && atp_websocket_take(client.ws, script, script_len) == 0, "nothing is taken without room");
	client.full = false;
	ok(atp_websocket_take(client.ws, script, script_len) == script_len && client.messages == 1, "and all of it with room");
	script_len = 0;

	put_frame(FIN | BINARY, "one");
	put_frame(FIN | BINARY, "two");
	start();
	client.no_memory = true;
	offer(script, script_len);
	ok(client.end.drop == ATP_DROP_MEMORY && client.messages == 0, "a message that cannot be kept: %s", client.end.why);
	ok(!atp_websocket_ready(client.ws) && atp_websocket_take(client.ws, script, script_len) == 0, "nothing is taken after the end");
	script_len = 0;
}

/* In pieces of the size that the buffer takes. */
static void
test_long_text(void)
{
	static char text[300000];
	static uint8_t sent[300100];
	size_t		total = 0;
	size_t		len;
	const uint8_t *out;
	int			wrong = 0;

	start();
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = 'a' + i % 26;
	atp_websocket_text(client.ws, text, sizeof(text));
	memset(text, '!', 1);
	while (out = atp_websocket_output(client.ws, &len), len > 0 && total + len <= sizeof(sent))
	{
		memcpy(sent + total, out, len);
		total += len;
		atp_websocket_sent(client.ws, len);
	}
	/* head, length in eight bytes, mask */
	ok(total == 14 + sizeof(text) && sent[0] == (FIN | TEXT) && sent[1] == (0x80 | 127), "a long text is one frame: %zu bytes", total);
	for (size_t i = 0; i < sizeof(text) && total == 14 + sizeof(text); i++)
		wrong += (sent[14 + i] ^ sent[10 + i % 4]) != (uint8_t) ('a' + i % 26);
	ok(wrong == 0, "as it was when it was given");
}

static void
test_own_frames(void)
{
	size_t		len;

	start();
	(void) atp_websocket_output(client.ws, &len);
	ok(len == 0, "nothing to send at first");
	atp_websocket_ping(client.ws);
	atp_websocket_ping(client.ws);
	(void) atp_websocket_output(client.ws, &len);
	atp_websocket_ping(client.ws);
	drain();
	ok(strcmp(client.sent, "ping() ") == 0, "one ping waits to be sent, not more: %s", client.sent);
	atp_websocket_ping(client.ws);
	drain();
	ok(client.pings == 2, "another one when it has been sent");
	atp_websocket_close(client.ws, 1007);
	atp_websocket_ping(client.ws);
	drain();
	ok(strcmp(client.sent, "ping() ping() close 1007 ") == 0, "a close frame is the last: %s", client.sent);

	start();
	atp_websocket_text(client.ws, "{\"type\":1}", 10);
	atp_websocket_ping(client.ws);
	drain();
	ok(strcmp(client.sent, "text({\"type\":1}) ") == 0, "a text: %s", client.sent);
	test_long_text();

	start();
	no_random = true;
	atp_websocket_ping(client.ws);
	drain();
	ok(client.end.drop == ATP_DROP_WEBSOCKET && client.pings == 0, "no frame is sent with a mask that can be guessed: %s", client.end.why);
	no_random = false;
}

/* Frames by chance, good and bad. */
static void
test_random(void)
{
	static const int firsts[] = {FIN | BINARY, FIN | BINARY, FIN | BINARY, BINARY, CONTINUE, FIN | CONTINUE, FIN | PING, FIN | PING,
	FIN | PONG, FIN | TEXT, FIN | CLOSE, PING, FIN | 0x3, FIN | 0x10 | BINARY};
	int			drops[ATP_DROP_COUNT] = {0};
	int			differ = 0;
	int			messages = 0;

	srand(20260101);
	for (int round = 0; round < 3000; round++)
	{
		Client		whole;
		bool		open = false;

		for (int i = rand() % 8; i >= 0; i--)
		{
			int			first = firsts[rand() % (sizeof(firsts) / sizeof(firsts[0]))];

			/* mostly a frame that is allowed now, so that the connection goes on */
			if (rand() % 8 > 0 && (first & 0xf) <= BINARY)
				first = (first & ~0xf) | (open ? CONTINUE : BINARY);
			if ((first & 0xf) <= BINARY)
				open = !(first & FIN);
			put_run(first, rand() % (first & 8 ? 126 : 300));
		}
		play(script_len);
		whole = client;
		play(0);
		/* except pongs: a pong that is not yet sent at the end of the connection is dropped */
		differ += strcmp(client.received, whole.received) != 0 || client.closes != whole.closes ||
			client.pongs < whole.pongs || (client.pongs > whole.pongs && client.end.drop == ATP_DROP_NONE) ||
			strcmp(client.end.why, whole.end.why) != 0 || client.end.close_code != whole.end.close_code;
		drops[client.end.drop]++;
		messages += client.messages;
		script_len = 0;
	}
	ok(differ == 0, "frames by chance: the same however they are cut");
	ok(drops[ATP_DROP_NONE] > 100 && drops[ATP_DROP_WEBSOCKET] > 100 && messages > 1000,
	   "of each kind: %d streams go on, %d break, %d messages", drops[ATP_DROP_NONE], drops[ATP_DROP_WEBSOCKET], messages);
}

int
main(void)
{
	test_messages();
	test_limit();
	test_empty_frames();
	test_broken();
	test_text();
	test_close();
	test_cut();
	test_choked();
	test_back_pressure();
	test_own_frames();
	test_random();
	atp_websocket_free(client.ws);
	free(script);
	return done_testing();
}
