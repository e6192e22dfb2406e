/*
 * NSIDs: the check, the parts, the normal form, and the patterns of filters.
 *
 * proves: atp_nsid_check atp_nsid_name atp_nsid_domain atp_nsid_normalize atp_nsid_pattern_check atp_nsid_matches
 * sources: core/syntax/nsid.c core/syntax/chars.c
 * short: -DN=7 --unwind 9
 * long: -DN=11 --unwind 13
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
	ANY_TEXT(p, m, N);
	err = atp_nsid_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
	{
		err = atp_nsid_pattern_check(s, n, &at);
		LAW_OF_ERRORS(err, at, n);
		return 0;
	}
	name = atp_nsid_name(s, n);
	domain = atp_nsid_domain(s, n);
	LAW(name.len > 0 && domain.len > 0 && domain.len + 1 + name.len == n);
	LAW(domain.ptr == s && name.ptr == s + domain.len + 1);
	atp_nsid_normalize(s, n, normal);
	LAW(atp_nsid_check(normal, n, &at) == ATP_OK && memcmp(normal + domain.len, s + domain.len, n - domain.len) == 0);
	LAW(atp_nsid_matches(s, n, "*", 1) && atp_nsid_matches(s, n, s, n));
	REACHED("an NSID");
	if (atp_nsid_pattern_check(p, m, &at) == ATP_OK && m > 1 && atp_nsid_matches(s, n, p, m))
	{
		LAW(m <= n);
		if (p[m - 1] == '*')
			REACHED("a pattern that matches");
	}
	return 0;
}
