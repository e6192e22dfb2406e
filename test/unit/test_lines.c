/*
 * test_lines.c
 *		The lines of a page (M-12), however the body is cut, framed and compressed; hostile bodies.
 */
#include <stdio.h>
#include <zlib.h>

#include "net/lines.h"
#include "unit.h"

#define TEXT	"one\ntwo\n\n\nthree\nfour"
#define MB		(1024 * 1024)

static char got[1000];			/* the lines, each behind a bar */
static size_t got_len;
static size_t open_len;			/* bytes of the present line */
static int	wanted;				/* lines wanted by the receiver; negative: all */
static AtpEnd end;
static AtpLines lines;
static size_t calls;

static bool
want(void *arg)
{
	return wanted != 0;
}

static bool
put(void *arg, const uint8_t *data, size_t len)
{
	if (got_len + len + 2 < sizeof(got))
	{
		memcpy(got + got_len, data, len);
		got_len += len;
	}
	open_len += len;
	return true;
}

static void
message(void *arg, size_t len, bool is_text, AtpEnd *e)
{
	if (len != open_len)
		ok(false, "the length of a line");
	open_len = 0;
	if (got_len + 2 < sizeof(got))
		got[got_len++] = '|';
	wanted--;
}

/* Reads the body by steps of step bytes; a line without an end stays in got. */
static bool
read_body(const char *head_text, const uint8_t *body, size_t n, size_t step, size_t budget)
{
	AtpHttpHead head;
	AtpReceiver receiver = {.want = want, .put = put, .message = message};
	size_t		at;

	end = (AtpEnd) {0};
	got_len = open_len = calls = 0;
	if (atp_http_head_parse(head_text, strlen(head_text), &head, &at) != ATP_OK)
		exit(2);
	atp_lines_begin(&lines, &head, &receiver, &end);
	for (size_t from = 0; from < n && end.drop == ATP_DROP_NONE && !lines.read;)
	{
		const uint8_t *in = body + from;
		size_t		left = n - from < step ? n - from : step;

		do
		{
			size_t		may = budget;

			atp_lines_take(&lines, &in, &left, &may);
			calls++;
		} while (end.drop == ATP_DROP_NONE && wanted != 0 && (atp_lines_pending(&lines) || (left > 0 && !lines.whole)));
		from = (size_t) (in - body);
		if (wanted == 0)
			break;
	}
	got[got_len] = '\0';
	return lines.read;
}

#define HEAD(fields)	"HTTP/1.1 200 OK\r\n" fields "\r\n"

static bool
reads(const char *head, const void *body, size_t n, const char *expected)
{
	bool		all = true;

	for (size_t step = 1; step <= n + 1; step += step < 20 ? 1 : 37)
	{
		wanted = -1;
		all = all && read_body(head, body, n, step, step) && strcmp(got, expected) == 0 && end.drop == ATP_DROP_NONE;
	}
	return all;
}

static size_t
pack(const char *text, size_t n, uint8_t *out, size_t room)
{
	z_stream	z = {.next_in = (Bytef *) text, .avail_in = (uInt) n, .next_out = out, .avail_out = (uInt) room};

	(void) deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
	(void) deflate(&z, Z_FINISH);
	(void) deflateEnd(&z);
	return room - z.avail_out;
}

static bool
drops(const char *head, const void *body, size_t n, AtpDrop drop)
{
	wanted = -1;
	return !read_body(head, body, n, 1000, 1 << 20) && end.drop == drop;
}

static void
plain(void)
{
	static const char chunks[] = "3\r\none\r\n4;x=y\r\n\ntwo\r\n1\r\n\n\r\nb\r\n\n\nthree\nfou\r\n1\r\nr\r\n0\r\n\r\n";
	char		head[100];

	(void) sprintf(head, HEAD("Content-Length: %zu\r\n"), strlen(TEXT));
	ok(reads(head, TEXT "HTTP/1.1", strlen(TEXT) + 8, "one|two|three|four|"), "M-12: lines, the last one without a line feed");
	ok(reads(HEAD("Transfer-Encoding: chunked\r\n"), chunks, sizeof(chunks) - 1, "one|two|three|four|"), "M-12: in chunks");
	ok(atp_http_persists(&(AtpHttpHead) {.minor = 1}), "a connection goes on");
	wanted = -1;
	ok(!read_body(head, (const uint8_t *) TEXT, strlen(TEXT) - 1, 5, 100) && strcmp(got, "one|two|three|fou") == 0, "M-12: a cut body");
	atp_lines_closed(&lines);
	ok(end.drop == ATP_DROP_CLOSED && !lines.read && open_len == 3, "M-12: ... its last line does not count");
	wanted = -1;
	ok(!read_body(HEAD(""), (const uint8_t *) TEXT, strlen(TEXT), 5, 100) && strcmp(got, "one|two|three|four") == 0, "a body until the end of the connection");
	atp_lines_closed(&lines);
	ok(end.drop == ATP_DROP_NONE && lines.read && open_len == 4, "M-12: ... its last line may be cut");
	wanted = -1;
	ok(read_body(HEAD("Content-Length: 12\r\n"), (const uint8_t *) "one\r\n\r\ntwo\n", 12, 12, 100) && strcmp(got, "one|two|") == 0, "M-12: line ends of two bytes");
	wanted = 2;
	ok(!read_body(head, (const uint8_t *) TEXT, strlen(TEXT), 100, 100) && strcmp(got, "one|two|") == 0, "a receiver that wants no more lines");
	ok(drops(HEAD("Content-Length: 1x\r\n"), TEXT, 4, ATP_DROP_HTTP), "a length that is no number");
	ok(drops(HEAD("Transfer-Encoding: chunked\r\n"), "zz\r\n", 4, ATP_DROP_HTTP), "chunks that are none");
	ok(drops(HEAD("Content-Length: 4\r\nContent-Encoding: br\r\n"), TEXT, 4, ATP_DROP_COMPRESSION), "M-12: a compression that was not asked for");
	wanted = -1;
	ok(reads(HEAD("Content-Length: 0\r\n"), "x", 1, ""), "M-12: an empty page");
}

static void
compressed(void)
{
	static uint8_t packed[2 * MB];
	static char text[8 * MB];
	char		head[100];
	size_t		n = pack(TEXT, strlen(TEXT), packed, sizeof(packed));

	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), n);
	ok(reads(head, packed, n, "one|two|three|four|"), "M-12: compressed");
	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), n - 3);
	ok(drops(head, packed, n - 3, ATP_DROP_COMPRESSION) && open_len == 4, "M-12: compressed and cut: the last line does not count");
	packed[n - 5] ^= 1;
	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), n);
	ok(drops(head, packed, n, ATP_DROP_COMPRESSION), "M-12: compressed with a wrong sum");
	ok(drops(head, TEXT TEXT TEXT, n, ATP_DROP_COMPRESSION), "M-12: not compressed, although the head says so");

	/* text is decoded in pieces, and a step ends with the budget */
	memset(text, '\n', sizeof(text));
	n = pack(text, sizeof(text), packed, sizeof(packed));
	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), n);
	wanted = -1;
	ok(read_body(head, packed, n, n, MB) && calls >= sizeof(text) / MB && got_len == 0, "W-55: eight million empty lines of a few bytes are read step by step");
	memset(text, 'x', sizeof(text));
	n = pack(text, sizeof(text), packed, sizeof(packed));
	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), n);
	ok(drops(head, packed, n, ATP_DROP_TOO_LARGE), "E-11: a line of 8 MB in a few bytes");

	/* empty members */
	n = pack("", 0, packed, sizeof(packed));
	for (size_t at = n; at + n <= MB; at += n)
		memcpy(packed + at, packed, n);
	/* whole members only: the page shall be wrong for their number */
	(void) sprintf(head, HEAD("Content-Encoding: gzip\r\nContent-Length: %zu\r\n"), MB / n * n);
	ok(drops(head, packed, MB / n * n, ATP_DROP_COMPRESSION), "W-55: a page of nothing but empty gzip members");
	atp_lines_free(&lines);
}

int
main(void)
{
	plain();
	compressed();
	return done_testing();
}
