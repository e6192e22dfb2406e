/*
 * did_collapse.c
 *		The end of a DID that was encoded twice becomes shorter, or stays; something is left of it.
 *
 * proves: collapse_tail
 * sources: core/syntax/chars.c core/syntax/base32.c
 * short: -DN=7 --unwind 10
 * long: -DN=11 --unwind 14
 */
#include "core/syntax/did.c"
#include "lib/proof.h"

static void
tail(size_t n)
{
	char		s[N];
	char	   *start = s + N - n;
	char	   *end = collapse_tail(start, start + n);

	LAW(end >= start && end <= start + n && (n == 0 || end > start));
	LAW(end == start + n || end < start + n - 1);
	if (n == N && end == start + 3)
		REACHED("a text that was encoded three times");
}

int
main(void)
{
	tail(0);
	tail(4);
	tail(N);
	return 0;
}
