/*
 * did_normal.c
 *		The normal form of a DID: never longer, its own normal form, and still a DID (N2 to N4).
 *
 * proves: atp_did_normalize
 * sources: core/syntax/did.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=5 --unwind 6
 * long: -DN=8 --unwind 10
 * assumes: the text is what an authority may have, as atp_did_normalize()'s callers make sure
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "lib/proof.h"

int
main(void)
{
	char		once[N];
	size_t		len;

	ANY_TEXT(s, n, N);
	ASSUME(atp_scan_encoded(s, s + n, ATP_C_DID) == s + n);
	len = atp_did_normalize(s, n, s);
	LAW(len <= n);
	LAW(atp_scan_encoded(s, s + len, ATP_C_DID) == s + len);
	memcpy(once, s, len);
	LAW(atp_did_normalize(s, len, s) == len && memcmp(once, s, len) == 0);
	if (n > 5 && len < n)
		REACHED("a text that gets shorter");
	return 0;
}
