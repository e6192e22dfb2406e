/*
 * handle.c
 *		Handles: the check, the normal form, and the TLDs that are not allowed.
 *
 * proves: atp_handle_check atp_handle_normalize atp_handle_tld_allowed
 * sources: core/syntax/handle.c core/syntax/did.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=5 --unwind 6 --unwindset atp_handle_tld_allowed.2:9
 * long: -DN=11 --unwind 14
 */
#include "core/syntax/chars.h"
#include "core/syntax/handle.h"
#include "lib/grammar.h"

/* I-10 */
static bool
is_handle(const char *s, size_t n)
{
	unsigned	dots;
	size_t		last;

	return grammar_labels(s, n, &dots, &last) && dots >= 1 && !grammar_digit(s[last]);
}

int
main(void)
{
	char		lower[N];
	size_t		at;
	bool		allowed;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_handle_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW((err == ATP_OK) == is_handle(s, n));
	/* of a wrong handle, too */
	allowed = atp_handle_tld_allowed(s, n);
	if (err != ATP_OK)
		return 0;
	atp_handle_normalize(s, n, lower + N - n);
	LAW(atp_handle_check(lower + N - n, n, &at) == ATP_OK);
	for (size_t i = 0; i < n; i++)
		LAW(!atp_char_is(lower[N - n + i], ATP_C_UPPER));
	LAW(allowed == atp_handle_tld_allowed(lower + N - n, n));
	if (!allowed)
		REACHED("a handle below a reserved TLD");
	return 0;
}
