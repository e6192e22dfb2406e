/*
 * chunked.c
 *		Chunked bodies that arrive in two pieces: each piece of contents lies in the input, all input is consumed or refused,
 *		and where the input is cut does not matter.  The bytes before may have been any: the decoder starts in any of its states.
 *
 * proves: atp_chunked_next atp_chunked_is_whole
 * sources: core/wire/chunked.c
 * short: -DN=2 --unwind 5
 * long: -DN=4 --unwind 7
 * wraps: take_size
 */
#include "core/wire/chunked.h"
#include "lib/proof.h"

/* Decodes n bytes; stops at the end or at a fault. */
static AtpErr
decode(AtpChunked *c, const uint8_t *s, size_t n)
{
	const uint8_t *in = s;
	size_t		left = n;
	AtpBytes	piece;
	AtpErr		err;

	do
	{
		err = atp_chunked_next(c, &in, &left, &piece);
		LAW(left <= n && in == s + (n - left));
		LAW(piece.len == 0 || (piece.ptr >= s && piece.ptr + piece.len == in));
	} while (err == ATP_OK && piece.len > 0);
	LAW(err != ATP_OK || left == 0 || atp_chunked_is_whole(c));
	return err;
}

int
main(void)
{
	AtpChunked	whole = {.state = any_byte(), .digits = any_byte(), .left = any_u64(), .contents = any_u64(), .around = any_u64()};
	AtpChunked	cut;
	AtpErr		err;
	uint64_t	before = whole.contents + whole.around;

	/* the states: see chunked.c; DATA is the third */
	ASSUME(whole.state <= 6 && whole.digits <= 15 && (whole.state != 2 || whole.left > 0));
	ASSUME(whole.left < UINT64_C(1) << 60 && whole.contents < UINT64_C(1) << 60 && whole.around < UINT64_C(1) << 60);
	cut = whole;
	ANY_BUFFER(s, n, N);
	size_t		first = any_size(n);

	err = decode(&whole, s, n);
	if (err != ATP_OK)
		return 0;
	LAW(decode(&cut, s, first) == ATP_OK && decode(&cut, s + first, n - first) == ATP_OK);
	LAW(cut.state == whole.state && cut.contents == whole.contents && cut.around == whole.around);
	LAW(whole.contents + whole.around - before <= n);
	if (atp_chunked_is_whole(&whole) && first > 0)
		REACHED("a body that has ended");
	return 0;
}
