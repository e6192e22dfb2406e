/*
 * did_normalize.c
 *		The normal form of a DID is never longer than the DID, also in place; each reduction of an encoding that was encoded
 *		twice leaves something, and makes the text shorter or leaves it alone.
 *
 * proves: atp_did_normalize collapse_tail
 * sources: core/syntax/chars.c core/syntax/base32.c
 * replaces: collapse_tail:proof_collapse_tail
 * short: -DN=5 -DM=7 --unwind 10
 * long: -DN=8 -DM=9 --unwind 13
 * assumes: the text begins with no '%' that is malformed, as atp_did_check() demands
 */
#include "core/syntax/did.c"
#include "lib/proof.h"

/* In place of collapse_tail(): what tail() proves of it. */
char *
proof_collapse_tail(const char *start, char *out)
{
	size_t		n = out - start;
	size_t		left = any_size(n);

	LAW(n > 0);
	ASSUME(left > 0);
	for (size_t i = 0; i < N; i++)
		if (i < left && i + 3 >= left)
			((char *) start)[i] = (char) any_byte();
	return (char *) start + left;
}

/* Through a pointer, since the calls by name are replaced. */
static char *(*const collapse) (const char *start, char *out) = collapse_tail;

static void
tail(size_t n)
{
	char		s[M];
	char	   *start = s + M - n;
	char	   *end = collapse(start, start + n);

	LAW(end >= start && end <= start + n && (n == 0 || end > start));
	LAW(n < 5 || end == start + n || end < start + n - 1);
	if (n == M && end == start + 3)
		REACHED("an encoding that was encoded three times");
}

static void
normalize(void)
{
	ANY_TEXT(s, n, N);
	ASSUME(atp_scan_encoded(s, s + n, ATP_C_DID) == s + n);
	LAW(atp_did_normalize(s, n, s) <= n);
}

int
main(void)
{
	tail(0);
	tail(4);
	tail(M);
	normalize();
	return 0;
}
