/*
 * multikey.c
 *		Public keys as text.
 *
 * proves: atp_multikey_parse atp_multikey_parse_bare
 * sources: core/syntax/multikey.c
 * short: -DN=6 --unwind 8 --unwindset memchr.0:60,memcmp.0:9,memcpy.0:34,memset.0:8,memmove.0:8,memmove.1:8
 * long: -DN=12 --unwind 14 --unwindset memchr.0:60,memcpy.0:34
 * not proved: whole keys (48 digits): the products of base58 are too many for the solver.  So parse(text(key)) =
 *	key is proved nowhere; unit/test_multikey samples it
 */
#include "core/syntax/multikey.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		point[ATP_POINT_LONG_LEN];
	size_t		len;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_multikey_parse(s, n, key, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK);
	if (err == ATP_E_KEY_TYPE)
		REACHED("digits that are no key");
	err = atp_multikey_parse_bare(s, n, ATP_P256, key, point, &len, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK);
	return 0;
}
