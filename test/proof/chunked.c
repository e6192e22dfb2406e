/*
 * chunked.c
 *		Chunked bodies: one byte, from any state that a body can lead to.  So by induction, any body.
 *
 * proves: atp_chunked_next atp_chunked_is_whole
 * short: -DN=1 --unwind 2
 * long: -DN=3 --unwind 4
 */
#include "core/wire/chunked.c"
#include "lib/grammar.h"

/* What holds of each state. */
static bool
is_state(const AtpChunked *c)
{
	uint64_t	most = UINT64_C(1) << 4 * 15;

	return c->state >= SIZE && c->state <= END && c->digits <= 15 && c->left < most && (c->state != DATA || c->left > 0) &&
		((c->state != SIZE && c->state != EXTENSION) || c->left >> 4 * c->digits == 0) &&
		(c->state == SIZE || c->state == EXTENSION || c->digits == 0) && (c->state == SIZE || c->state == EXTENSION || c->state == DATA || c->left == 0);
}

int
main(void)
{
	AtpChunked	c = {
		.state = (int) any_size(END), .digits = (unsigned) any_size(15), .left = any_u64(), .contents = any_u64(), .around = any_u64()
	};
	AtpChunked	before = c;
	AtpChunked	zero = {0};
	AtpBytes	piece;
	const uint8_t *in;
	size_t		left;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	LAW(is_state(&zero));
	ASSUME(is_state(&c));
	/* a body of a petabyte */
	ASSUME(c.contents <= UINT64_C(1) << 50 && c.around <= UINT64_C(1) << 54);
	in = s;
	left = n;
	err = atp_chunked_next(&c, &in, &left, &piece);
	LAW(err == ATP_OK || err == ATP_E_CHUNK || err == ATP_E_CHUNK_PADDED);
	LAW(in + left == s + n && left <= n);
	LAW(piece.ptr >= s && piece.ptr + piece.len <= in);
	/* nothing is counted twice, nothing is lost, and framing has its limit */
	LAW(c.contents - before.contents == piece.len);
	LAW(c.contents - before.contents + c.around - before.around == n - left);
	LAW(err != ATP_OK || c.around == before.around || c.around < 65536 + 8 * (c.contents + 1));
	LAW(before.state != END || left == n);
	LAW(atp_chunked_is_whole(&c) == (c.state == END));
	if (err != ATP_OK)
		return 0;
	LAW(is_state(&c));
	/* a size is read as a number, and counted down by what is handed over */
	if (n == 1 && before.state == SIZE && grammar_hex((char) s[0]))
		LAW(c.state == SIZE && c.left == before.left * 16 + (grammar_digit((char) s[0]) ? s[0] - '0' : (s[0] | 0x20) - 'a' + 10u));
	else if (n == 1)
		LAW(c.left == before.left - piece.len);
	LAW(left == 0 || piece.len > 0 || c.state == END);
	if (c.state == END && left < n)
		REACHED("the end of a body");
	if (piece.len > 0 && c.state == DATA_END)
		REACHED("the end of a chunk");
	return 0;
}
