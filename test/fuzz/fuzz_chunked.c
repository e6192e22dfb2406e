/*
 * fuzz_chunked.c
 *		Bodies in chunks: wherever the network cuts a body, its contents, its fault and its end are the
 *		same; and an accepted body brings no more traffic than W-55 allows.
 *
 * Input: a byte, the length of the pieces in which the body comes; the body.
 */
#include "core/wire/chunked.h"
#include "syntax_fuzz.h"

/* Reads the body in pieces of this length: contents into out, the end as result. */
static AtpErr
take(const uint8_t *body, size_t size, size_t piece_len, AtpChunked *c, uint8_t *out, size_t *len)
{
	*c = (AtpChunked) {0};
	*len = 0;
	for (size_t at = 0; at < size; at += piece_len)
	{
		const uint8_t *in = body + at;
		size_t		n = size - at < piece_len ? size - at : piece_len;
		const uint8_t *end = in + n;
		AtpBytes	piece;

		do
		{
			AtpErr		err = atp_chunked_next(c, &in, &n, &piece);

			CHECK(in + n == end);
			if (err != ATP_OK)
				return err;
			CHECK(piece.len == 0 || (piece.ptr >= body + at && piece.ptr + piece.len == in));
			memcpy(out + *len, piece.ptr, piece.len);
			*len += piece.len;
		} while (piece.len > 0);
		CHECK(n == 0 || atp_chunked_is_whole(c));
	}
	return ATP_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		piece_len = size > 0 && data[0] > 0 ? data[0] : 1;
	const uint8_t *body = data + (size > 0);
	size_t		n = size - (size > 0);
	uint8_t    *whole = malloc(n + 1);
	uint8_t    *parts = malloc(n + 1);
	size_t		whole_len;
	size_t		parts_len;
	AtpChunked	a;
	AtpChunked	b;
	AtpErr		err = take(body, n, n > 0 ? n : 1, &a, whole, &whole_len);

	CHECK(take(body, n, piece_len, &b, parts, &parts_len) == err);
	CHECK(whole_len == parts_len && memcmp(whole, parts, whole_len) == 0);
	CHECK(atp_chunked_is_whole(&a) == atp_chunked_is_whole(&b));
	CHECK(a.contents == whole_len && a.contents + a.around <= n);
	CHECK(err != ATP_OK || a.around <= 65536 + 8 * (a.contents + 1));
	free(whole);
	free(parts);
	return 0;
}
