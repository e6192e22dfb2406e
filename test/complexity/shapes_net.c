/*
 * shapes_net.c
 *		The bytes of a connection: handshake, WebSocket, compression.
 */
#include <zdict.h>
#include <zlib.h>
#include <zstd.h>

#include "core/wire/frame.h"
#include "measure.h"
#include "net/handshake.h"
#include "net/inflate.h"
#include "net/unzstd.h"
#include "net/websocket.h"

/* ------------------------------------------------------------------------
 * The handshake: the answer arrives byte by byte.
 * ------------------------------------------------------------------------
 */
static void
make_answer(size_t n)
{
	put("HTTP/1.1 101 Switching Protocols\r\n");
	put_times(n, "a:\n");
}

/* Interim answers, at most eight, and then one that grows. */
static void
make_interim(size_t n)
{
	put_times(8, "HTTP/1.1 103 E\r\n\r\n");
	make_answer(n);
}

static bool
run_answer(void)
{
	AtpHandshake hs;
	AtpHandshakeState state = ATP_HANDSHAKE_MORE;

	atp_handshake_start(&hs, (const uint8_t *) "the sample nonce", NULL);
	for (size_t n = 1; n <= input.len && state == ATP_HANDSHAKE_MORE; n++)
		state = atp_handshake_answer(&hs, INPUT_TEXT, n);
	return state == ATP_HANDSHAKE_MORE;
}

/* The body of a refusal, in chunks of a byte. */
static void
make_refusal(size_t n)
{
	put("HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n");
	put_times(n, "1\n \n");
}

static bool
run_refusal(void)
{
	AtpHandshake hs;
	size_t		head = strlen("HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n");

	atp_handshake_start(&hs, (const uint8_t *) "the sample nonce", NULL);
	if (atp_handshake_answer(&hs, INPUT_TEXT, head) != ATP_HANDSHAKE_REFUSED)
		return false;
	for (size_t n = head; n <= input.len; n++)
	{
		if (n > head && atp_handshake_answer(&hs, INPUT_TEXT, n) != ATP_HANDSHAKE_REFUSED)
			return false;
		if (!atp_handshake_has_more(&hs, INPUT_TEXT, n))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------
 * WebSocket
 * ------------------------------------------------------------------------
 */
static void
put_bytes(const char *bytes, size_t n)
{
	atp_cbor_put_raw(&input, (const uint8_t *) bytes, n);
}

/* A message of fragments of one byte; then the same, with a ping between any two. */
static void
make_fragments(size_t n)
{
	put_bytes("\2\0", 2);
	while (n-- > 0)
		put_bytes("\0\1x", 3);
	put_bytes("\x80\0", 2);
}

static void
make_pings(size_t n)
{
	put_bytes("\2\0", 2);
	while (n-- > 0)
		put_bytes("\x89\0\0\1x", 5);
	put_bytes("\x80\0", 2);
}

static void
make_texts(size_t n)
{
	while (n-- > 0)
		put_bytes("\x81\0", 2);
}

typedef struct Received
{
	uint8_t    *buf;
	size_t		len;
	size_t		messages;
} Received;

static bool
want(void *arg)
{
	return true;
}

static uint8_t *
room(void *arg, size_t *len)
{
	return NULL;
}

static bool
receive(void *arg, const uint8_t *data, size_t len)
{
	Received   *r = arg;

	memcpy(r->buf + r->len, data, len);
	r->len += len;
	return true;
}

static void
message(void *arg, size_t len, bool is_text, AtpEnd *end)
{
	Received   *r = arg;

	r->messages++;
	r->len = 0;
}

static bool
no_random(void *buf, size_t len)
{
	memset(buf, 0, len);
	return true;
}

/* step: so many bytes arrive at a time */
static bool
read_stream(size_t step, size_t messages)
{
	static uint8_t buf[ATP_FRAME_MAX];
	Received	r = {buf, 0, 0};
	const AtpReceiver receiver = {want, room, receive, message, true, true, &r};
	AtpEnd		end = {ATP_DROP_NONE};
	AtpWebSocket *ws = atp_websocket_start(&receiver, no_random, &end);
	size_t		pos = 0;

	while (pos < input.len && end.drop == ATP_DROP_NONE)
	{
		size_t		n = step < input.len - pos ? step : input.len - pos;
		size_t		len;

		pos += atp_websocket_take(ws, input.buf + pos, n);
		while ((void) atp_websocket_output(ws, &len), len > 0)
			atp_websocket_sent(ws, len);
	}
	atp_websocket_free(ws);
	return end.drop == ATP_DROP_NONE && r.messages == messages;
}

static bool
run_message(void)
{
	return read_stream(65536, 1);
}

static bool
run_message_trickle(void)
{
	return read_stream(1, 1);
}

static bool
run_texts(void)
{
	return read_stream(65536, parts);
}

/* ------------------------------------------------------------------------
 * Compression
 * ------------------------------------------------------------------------
 */

/* Any dictionary: no message here uses it. */
static AtpUnzstd *
new_unzstd(void)
{
	static char samples[1000 * 100];
	static size_t lengths[1000];
	static uint8_t dictionary[8192];
	static size_t n;

	for (size_t i = 0; n == 0 && i < 1000; i++)
		lengths[i] = (size_t) snprintf(samples + 99 * i, 100, "{\"number\":%090zu}", i * 7919);
	if (n == 0)
		n = ZDICT_trainFromBuffer(dictionary, sizeof(dictionary), samples, lengths, 1000);
	return atp_unzstd_new(dictionary, n);
}

/* Zeros, in a frame that does not say how many. */
static void
make_zstd(size_t n)
{
	ZSTD_CCtx  *z = ZSTD_createCCtx();
	void	   *zeros = calloc(n + 1, 1);
	ZSTD_inBuffer in = {zeros, n, 0};
	ZSTD_outBuffer out = {input.buf, INPUT_ROOM, 0};

	(void) ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, 0);
	(void) ZSTD_CCtx_setParameter(z, ZSTD_c_windowLog, 18);
	(void) ZSTD_compressStream2(z, &out, &in, ZSTD_e_continue);
	(void) ZSTD_compressStream2(z, &out, &in, ZSTD_e_end);
	input.len = out.pos;
	free(zeros);
	(void) ZSTD_freeCCtx(z);
}

/* A frame of empty blocks. */
static void
make_zstd_blocks(size_t n)
{
	put_bytes("\x28\xb5\x2f\xfd\0\0", 6);
	while (n-- > 0)
		put_bytes("\0\0\0", 3);
	put_bytes("\1\0\0", 3);
}

static bool
run_zstd(void)
{
	static AtpUnzstd *z;
	AtpEnd		end = {ATP_DROP_NONE};
	size_t		len = 0;

	/* made in the first run, which is not measured; the buffer of a long message is freed before the next short one */
	if (z == NULL && (z = new_unzstd()) == NULL)
		return false;
	return atp_unzstd(z, input.buf, input.len, &len, &end) != NULL;
}

/* A frame of empty blocks, with a checksum. */
static void
make_zstd_checked(size_t n)
{
	put_bytes("\x28\xb5\x2f\xfd\x04\0", 6);
	while (n-- > 0)
		put_bytes("\0\0\0", 3);
	put_bytes("\1\0\0\x99\xe9\xd8\x51", 7);
}

/* The frame of an archive's block, byte by byte. */
static bool
run_zstd_trickle(void)
{
	static AtpUnzstd *z;
	AtpEnd		end = {ATP_DROP_NONE};
	size_t		len = 0;

	if (z == NULL && (z = atp_unzstd_new_for_blocks(1000)) == NULL)
		return false;
	atp_unzstd_begin(z);
	for (size_t i = 0; i < input.len; i++)
		if (!atp_unzstd_push(z, input.buf + i, 1, &end))
			return false;
	return atp_unzstd_end(z, &len, &end) != NULL && len == 0;
}

/* A dictionary with contents of n bytes more. */
static void
make_dictionary(size_t n)
{
	static char samples[1000 * 100];
	static size_t lengths[1000];
	size_t		len = n + 1024;
	uint8_t    *contents = malloc(len);
	uint32_t	random = 1;
	ZDICT_params_t params = {0};

	for (size_t i = 0; i < 1000; i++)
		lengths[i] = (size_t) snprintf(samples + 99 * i, 100, "{\"number\":%090zu}", i * 7919);
	for (size_t i = 0; i < len; i++)
		contents[i] = (uint8_t) ((random = random * 1664525 + 1013904223) >> 24);
	input.len = ZDICT_finalizeDictionary(input.buf, INPUT_ROOM, contents, len, samples, lengths, 1000, params);
	free(contents);
}

static bool
run_dictionary(void)
{
	AtpUnzstd  *z = input.len <= ATP_ZSTD_DICTIONARY_MAX ? atp_unzstd_new(input.buf, input.len) : NULL;
	bool		good = z != NULL && atp_zstd_is_dictionary(input.buf, input.len);

	atp_unzstd_free(z);
	return good;
}

static void
make_inflate(size_t n)
{
	static uint8_t zeros[65536];
	z_stream	z = {0};

	if (deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		exit(2);
	z.next_out = input.buf;
	z.avail_out = INPUT_ROOM;
	for (; n > 0; n -= n < sizeof(zeros) ? n : sizeof(zeros))
	{
		z.next_in = zeros;
		z.avail_in = (uInt) (n < sizeof(zeros) ? n : sizeof(zeros));
		(void) deflate(&z, Z_NO_FLUSH);
	}
	(void) deflate(&z, Z_FINISH);
	input.len = z.total_out;
	(void) deflateEnd(&z);
}

/* Members of gzip without contents. */
static void
make_members(size_t n)
{
	make_inflate(0);
	for (size_t len = input.len; n > 0; n--)
		atp_cbor_put_raw(&input, input.buf, len);
}

static bool
run_inflate(void)
{
	static uint8_t out[16384];
	AtpInflate *z = atp_inflate_new();
	const uint8_t *in = input.buf;
	size_t		n = input.len;
	bool		good;

	while (atp_inflate(z, &in, &n, out, sizeof(out)) > 0 || n > 0)
		;
	good = atp_inflate_is_whole(z);
	atp_inflate_free(z);
	return good;
}

const Shape net_shapes[] = {
	{"handshake", (ATP_HTTP_HEAD_MAX - 64) / 3, 1360, make_answer, run_answer},
	{"handshake-interim", (ATP_HTTP_HEAD_MAX - 256) / 3, 1360, make_interim, run_answer},
	{"handshake-body", 8192 / 4 - 32, 0, make_refusal, run_refusal},
	{"websocket-fragments", ATP_FRAME_MAX / 3 - 2, 8192, make_fragments, run_message},
	{"websocket-trickle", ATP_FRAME_MAX / 3 - 2, 2048, make_fragments, run_message_trickle},
	{"websocket-pings", ATP_FRAME_MAX / 5 - 2, 2048, make_pings, run_message},
	{"websocket-texts", ATP_FRAME_MAX / 2, 4096, make_texts, run_texts},
	{"gzip", 4000000, 262144, make_inflate, run_inflate},
	{"gzip-members", 65536, 2048, make_members, run_inflate},
	{"zstd", ATP_FRAME_MAX, 262144, make_zstd, run_zstd},
	{"zstd-blocks", ATP_FRAME_MAX / 3 - 4, 16384, make_zstd_blocks, run_zstd},
	{"zstd-trickle", INPUT_ROOM / 3 - 16, 1024, make_zstd_checked, run_zstd_trickle},
	{"dictionary", ATP_ZSTD_DICTIONARY_MAX - 4096, 65536, make_dictionary, run_dictionary},
	{NULL}
};
