/*
 * nsid.c
 *		NSIDs: the check, the parts and the normal form.
 *
 * proves: atp_nsid_check atp_nsid_name atp_nsid_domain atp_nsid_normalize
 * sources: core/syntax/nsid.c core/syntax/chars.c
 * short: -DN=5 --unwind 6
 * long: -DN=9 --unwind 11
 */
#include "core/syntax/nsid.h"
#include "lib/proof.h"

int
main(void)
{
	char		normal[N];
	size_t		at;
	AtpSpan		name;
	AtpSpan		domain;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_nsid_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	name = atp_nsid_name(s, n);
	domain = atp_nsid_domain(s, n);
	LAW(name.len > 0 && domain.len > 0 && domain.len + 1 + name.len == n);
	LAW(domain.ptr == s && name.ptr == s + domain.len + 1);
	atp_nsid_normalize(s, n, normal);
	LAW(atp_nsid_check(normal, n, &at) == ATP_OK && memcmp(normal + domain.len, s + domain.len, n - domain.len) == 0);
	REACHED("an NSID");
	return 0;
}
