/*
 * test_chunked.c
 *		Bodies in chunks: rule W-55.
 */
#include "core/wire/chunked.h"
#include "unit.h"

/* What the contents of a body are, given so many bytes at a time; NULL: an error, or not whole. */
static const char *
contents(const char *body, size_t n, size_t give, AtpErr *err)
{
	static char out[4096];
	size_t		len = 0;
	AtpChunked	c = {0};

	*err = ATP_OK;
	for (size_t at = 0; at < n && *err == ATP_OK; at += give)
	{
		size_t		given = give < n - at ? give : n - at;
		uint8_t    *copy = malloc(given);	/* exact size: ASan finds a read past the end */
		const uint8_t *in = copy;
		AtpBytes	piece;

		memcpy(copy, body + at, given);
		while ((*err = atp_chunked_next(&c, &in, &given, &piece)) == ATP_OK && piece.len > 0 && len + piece.len < sizeof(out))
		{
			memcpy(out + len, piece.ptr, piece.len);
			len += piece.len;
		}
		free(copy);
	}
	out[len] = '\0';
	return *err == ATP_OK && atp_chunked_is_whole(&c) ? out : NULL;
}

static void
check(const char *name, const char *body, const char *want, AtpErr expected)
{
	int			differ = 0;

	for (size_t give = 1; give <= strlen(body); give++)
	{
		AtpErr		err;
		const char *got = contents(body, strlen(body), give, &err);

		differ += err != expected || (want == NULL) != (got == NULL) || (got != NULL && strcmp(got, want) != 0);
	}
	ok(differ == 0, "W-55: %s, however it comes: %s", name, atp_err_text(expected));
}

/* A body of some chunks of one byte each, with so many bytes of framing around each chunk. */
static AtpErr
around(unsigned chunks, unsigned bytes)
{
	AtpChunked	c = {0};
	AtpErr		err = ATP_OK;
	AtpBytes	piece;

	for (unsigned i = 0; i < chunks && err == ATP_OK; i++)
	{
		const char *parts[] = {"1;", "\r\n", "x\r\n"};

		for (unsigned part = 0; part < 3 && err == ATP_OK; part++)
		{
			const uint8_t *in = (const uint8_t *) parts[part];
			size_t		n = strlen(parts[part]);

			do
				err = atp_chunked_next(&c, &in, &n, &piece);
			while (err == ATP_OK && piece.len > 0);
			for (unsigned b = 6; part == 0 && b < bytes && err == ATP_OK; b++)
			{
				in = (const uint8_t *) "e";
				n = 1;
				err = atp_chunked_next(&c, &in, &n, &piece);
			}
		}
	}
	return err;
}

/* How many bytes of an extension that never ends the decoder takes before it refuses the body; at most 1,000,000. */
static unsigned
endless(void)
{
	AtpChunked	c = {0};
	AtpBytes	piece;
	const uint8_t *in = (const uint8_t *) "1;";
	size_t		n = 2;
	AtpErr		err = atp_chunked_next(&c, &in, &n, &piece);
	unsigned	taken = 0;

	for (; taken < 1000000 && err == ATP_OK; taken++)
	{
		in = (const uint8_t *) "e";
		n = 1;
		err = atp_chunked_next(&c, &in, &n, &piece);
	}
	return taken;
}

int
main(void)
{
	check("chunks", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", ATP_OK);
	check("none", "0\r\n\r\n", "", ATP_OK);
	check("hexadecimal, zeros before it, and what comes behind", "0A\r\n0123456789\r\nb\r\n0123456789a\r\n000\r\n\r\nHTTP", "01234567890123456789a", ATP_OK);
	check("extensions and trailers", "1;a=\"b\"\r\nx\r\n1 \t;c\r\ny\r\n0;d\r\nA: b\r\nC: d\r\n\r\n", "xy", ATP_OK);
	check("lines that end with LF alone", "1\nx\n0\n\n", "x", ATP_OK);
	check("cut in a chunk", "5\r\nhel", NULL, ATP_OK);
	check("cut before the last one", "5\r\nhello\r\n", NULL, ATP_OK);
	check("cut in the trailers", "0\r\nA: b\r\n", NULL, ATP_OK);
	check("no size", "\r\nx\r\n", NULL, ATP_E_CHUNK);
	check("an extension alone", ";a\r\nx\r\n", NULL, ATP_E_CHUNK);
	check("no number", "x\r\n", NULL, ATP_E_CHUNK);
	check("a number that is too large", "1000000000000000\r\n", NULL, ATP_E_CHUNK);
	check("a sign", "-1\r\n", NULL, ATP_E_CHUNK);
	check("a chunk that is longer than it says", "1\r\nxy\r\n0\r\n\r\n", NULL, ATP_E_CHUNK);
	ok(around(100000, 6) == ATP_OK, "W-55: a chunk for each byte is a waste, but allowed");
	ok(around(100000, 60) == ATP_E_CHUNK_PADDED, "W-55: far more around the bytes is not");
	ok(around(1, 65000) == ATP_OK && around(1, 70000) == ATP_E_CHUNK_PADDED, "W-55: nor one long extension");
	ok(endless() < 66000, "W-55: an extension that does not end is refused while it comes");
	return done_testing();
}
