/*
 * did_normalize.c
 *		The normal form of a DID is never longer than the DID, also in place.
 *
 * proves: atp_did_normalize
 * sources: core/syntax/chars.c core/syntax/base32.c
 * replaces: collapse_tail:proof_collapse_tail
 * short: -DN=5 --unwind 10
 * long: -DN=8 --unwind 13
 * assumes: the text has no malformed '%', as atp_did_check() demands
 */
#include "core/syntax/did.c"
#include "lib/proof.h"

/* In place of collapse_tail(): what did_collapse.c proves of it. */
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

static void
normalize(void)
{
	size_t		shorter;

	ANY_TEXT(s, n, N);
	ASSUME(atp_scan_encoded(s, s + n, ATP_C_DID) == s + n);
	shorter = atp_did_normalize(s, n, s);
	LAW(shorter <= n);
	if (shorter < n)
		REACHED("a normal form that is shorter");
}

int
main(void)
{
	normalize();
	return 0;
}
