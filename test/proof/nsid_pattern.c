/*
 * nsid_pattern.c
 *		Patterns of NSIDs: the check, and that a pattern matches only texts with its beginning.
 *
 * proves: atp_nsid_pattern_check atp_nsid_matches
 * sources: core/syntax/nsid.c core/syntax/chars.c
 * short: -DN=5 --unwind 6
 * long: -DN=9 --unwind 11
 */
#include "core/syntax/nsid.h"
#include "lib/proof.h"

int
main(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(p, n, N);
	ANY_TEXT(s, m, N);
	err = atp_nsid_pattern_check(p, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(p[n - 1] == '*' || atp_nsid_matches(p, n, p, n));
	if (m > 0 && atp_nsid_matches(s, m, p, n))
	{
		LAW(n <= m);
		if (n > 1 && m > n && p[n - 1] == '*')
			REACHED("a pattern that matches");
	}
	return 0;
}
