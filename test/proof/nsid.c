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
#include "lib/grammar.h"

/* I-01, I-02 */
static bool
is_nsid(const char *s, size_t n)
{
	unsigned	dots;
	size_t		last;

	if (!grammar_labels(s, n, &dots, &last) || dots < 2 || grammar_digit(s[0]) || grammar_digit(s[last]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (i >= last && s[i] == '-')
			return false;
	return true;
}

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
	LAW((err == ATP_OK) == is_nsid(s, n));
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
