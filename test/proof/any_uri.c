/*
 * any_uri.c
 *		URIs of any scheme.
 *
 * proves: atp_any_uri_check
 * sources: core/lexicon/any_uri.c core/syntax/chars.c core/syntax/utf8.c
 * short: -DN=4 --unwind 6
 * long: -DN=12 --unwind 15
 */
#include "core/lexicon/any_uri.h"
#include "lib/proof.h"

int
main(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_any_uri_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK)
		REACHED("a URI");
	return 0;
}
