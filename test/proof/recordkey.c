/*
 * recordkey.c
 *		Record keys: the check, the types, the stored form, and the order of stored forms, which is that of the texts.
 *
 * proves: atp_rkey_check atp_rkey_check_strict atp_rkey_type_check atp_rkey_matches atp_rkey_store atp_rkey_text
 *	atp_rkey_cmp atp_rkey_abbrev
 * sources: core/syntax/recordkey.c core/syntax/nsid.c core/syntax/tid.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=13 --unwind 14
 * long: -DN=20 --unwind 22
 */
#include "core/syntax/recordkey.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		a[N];
	uint8_t		b[N];
	char		text[N];
	size_t		at;
	size_t		an;
	size_t		bn;
	AtpErr		err;
	int			order;

	ANY_TEXT(s, n, N);
	ANY_TEXT(t, m, N);
	err = atp_rkey_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	err = atp_rkey_check_strict(t, m, &at);
	LAW_OF_ERRORS(err, at, m);
	if (atp_rkey_check(s, n, &at) != ATP_OK || atp_rkey_check(t, m, &at) != ATP_OK)
		return 0;
	an = atp_rkey_store(s, n, a + N - n);
	LAW(an <= n);
	LAW(atp_rkey_text(a + N - n, an, text) == n && memcmp(text, s, n) == 0);
	bn = atp_rkey_store(t, m, b + N - m);
	order = memcmp(s, t, n < m ? n : m);
	if (order == 0)
		order = (n > m) - (n < m);
	LAW(sign(atp_rkey_cmp(a + N - n, an, b + N - m, bn)) == sign(order));
	LAW(atp_rkey_abbrev(a + N - n, an) >= atp_rkey_abbrev(b + N - m, bn) || order < 0);
	if (an != n && bn == m && m == n)
		REACHED("a packed key beside one that is not");
	return 0;
}
