/*
 * deflate.c
 *		What permessage-deflate (RFC 7692) would save of a stream, and what a client would pay for it.
 *
 * Reads a capture ([u32 big-endian length][message] repeated) from standard input.  Each message is compressed as a
 * server would do that, with a level of zlib (argument): once with the window kept from message to message (context
 * takeover), once without.  Then the messages are decompressed, five times; the median counts.  A line:
 *
 *		messages, bytes a message; with the window: bytes, microseconds of the server and of the client; without the window:
 *		these three again
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#define RUNS		5
#define MESSAGE_MAX	5000000
#define TAIL		"\0\0\377\377"	/* at the end of each message, and not sent */

typedef struct Message
{
	uint8_t    *data;
	size_t		len;
	uint8_t    *packed;			/* without the tail */
	size_t		packed_len;
} Message;

static Message *messages;
static size_t n;
static uint8_t buf[2 * MESSAGE_MAX];

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void
fail(const char *what)
{
	fprintf(stderr, "deflate: %s\n", what);
	exit(1);
}

static void *
copy(const void *data, size_t len)
{
	void	   *p = malloc(len + 1);

	if (p == NULL)
		fail("no memory");
	return memcpy(p, data, len);
}

static size_t
read_messages(void)
{
	uint8_t		head[4];
	size_t		bytes = 0;

	while (fread(head, 1, 4, stdin) == 4)
	{
		size_t		len = (size_t) head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];

		if (len > MESSAGE_MAX || fread(buf, 1, len, stdin) != len)
			fail("this is no capture");
		if ((n & (n - 1)) == 0 && (messages = realloc(messages, (n == 0 ? 1 : 2 * n) * sizeof(Message))) == NULL)
			fail("no memory");
		messages[n++] = (Message) {copy(buf, len), len, NULL, 0};
		bytes += len;
	}
	return bytes;
}

static size_t
pack_all(int level, int takeover, double *took)
{
	z_stream	z = {0};
	double		begun = now();
	size_t		bytes = 0;

	if (deflateInit2(&z, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		fail("no deflate");
	for (size_t i = 0; i < n; i++)
	{
		if (!takeover)
			deflateReset(&z);
		z.next_in = messages[i].data;
		z.avail_in = messages[i].len;
		z.next_out = buf;
		z.avail_out = sizeof(buf);
		if (deflate(&z, Z_SYNC_FLUSH) != Z_OK || z.avail_in > 0 || z.avail_out == 0)
			fail("cannot compress");
		free(messages[i].packed);
		messages[i].packed_len = sizeof(buf) - z.avail_out - 4;
		messages[i].packed = copy(buf, messages[i].packed_len);
		bytes += messages[i].packed_len;
	}
	deflateEnd(&z);
	*took = now() - begun;
	return bytes;
}

static void
feed(z_stream *z, const uint8_t *data, size_t len)
{
	z->next_in = (uint8_t *) data;
	z->avail_in = len;
	if (inflate(z, Z_SYNC_FLUSH) < 0 && len > 0)
		fail("cannot decompress");
}

static double
unpack_all(int takeover)
{
	z_stream	z = {0};
	double		begun = now();

	if (inflateInit2(&z, -15) != Z_OK)
		fail("no inflate");
	for (size_t i = 0; i < n; i++)
	{
		if (!takeover)
			inflateReset(&z);
		z.next_out = buf;
		z.avail_out = sizeof(buf);
		feed(&z, messages[i].packed, messages[i].packed_len);
		feed(&z, (const uint8_t *) TAIL, 4);
		if (sizeof(buf) - z.avail_out != messages[i].len || memcmp(buf, messages[i].data, messages[i].len) != 0)
			fail("something else came out");
	}
	inflateEnd(&z);
	return now() - begun;
}

static int
compare(const void *a, const void *b)
{
	double		x = *(const double *) a;
	double		y = *(const double *) b;

	return x < y ? -1 : x > y;
}

int
main(int argc, char **argv)
{
	size_t		bytes = read_messages();

	if (argc != 2 || n == 0)
		fail("usage: deflate LEVEL < CAPTURE");
	printf("%zu %.0f", n, (double) bytes / n);
	for (int takeover = 1; takeover >= 0; takeover--)
	{
		double		packing;
		size_t		packed = pack_all(atoi(argv[1]), takeover, &packing);
		double		took[RUNS];

		for (int i = 0; i < RUNS; i++)
			took[i] = unpack_all(takeover);
		qsort(took, RUNS, sizeof(double), compare);
		printf(" %.0f %.1f %.1f", (double) packed / n, packing / n * 1e6, took[RUNS / 2] / n * 1e6);
	}
	printf("\n");
	return 0;
}
