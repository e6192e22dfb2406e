/*
 * language.c
 *		Language tags.
 *
 * proves: atp_language_check
 * sources: core/lexicon/language.c core/syntax/chars.c
 * short: -DN=5 --unwind 18
 * long: -DN=12 --unwind 19
 */
#include "core/lexicon/language.h"
#include "lib/proof.h"

int
main(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_language_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK && n > 4 && s[2] == '-')
		REACHED("a language with a part");
	return 0;
}
