/*
 * recordkey_type.c
 *		Types of record keys, and whether a key has the type (K-07).
 *
 * proves: atp_rkey_type_check atp_rkey_matches
 * sources: core/syntax/recordkey.c core/syntax/nsid.c core/syntax/tid.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=9 -DM=2 --unwind 10
 * long: -DN=14 -DM=13 --unwind 16
 */
#include "core/syntax/recordkey.h"
#include "lib/proof.h"

int
main(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(type, n, N);
	ANY_TEXT(s, m, M);
	err = atp_rkey_type_check(type, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK || atp_rkey_check(s, m, &at) != ATP_OK)
		return 0;
	if (atp_rkey_matches(s, m, type, n) && n > 8)
	{
		LAW(m == n - 8);
		REACHED("a literal that matches");
	}
	return 0;
}
