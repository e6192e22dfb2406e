/*
 * datetime.c
 *		Datetimes of Lexicons.
 *
 * proves: atp_datetime_parse
 * sources: core/lexicon/datetime.c
 * short: -DN=27 --unwind 28
 * long: -DN=40 --unwind 42
 */
#include "core/lexicon/datetime.h"
#include "lib/proof.h"

int
main(void)
{
	int64_t		micros;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_datetime_parse(s, n, &micros, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	/* years 0000 to 9999, and a zone's hours */
	LAW(micros >= -INT64_C(62167219200) * 1000000 && micros < INT64_C(253402387200) * 1000000);
	if (n == N && s[N - 1] != 'Z')
		REACHED("a datetime with a zone");
	return 0;
}
