/*
 * recordkey.c
 *		Record keys: the check, the stored form, which becomes the text again, and its order, which is that of the texts
 *		(K-04, K-09).  So the order is antisymmetric and transitive, as that of memcmp() is.
 *
 * proves: atp_rkey_check atp_rkey_check_strict atp_rkey_store atp_rkey_text atp_rkey_cmp atp_rkey_abbrev
 * sources: core/syntax/recordkey.c core/syntax/tid.c core/syntax/base32.c core/syntax/nsid.c core/syntax/chars.c
 * short: -DN=14 -DM=4 --unwind 15
 * long: -DN=14 -DM=20 --unwind 22
 * assumes: of the laws the keys have 3 and 2, 12 and 13, 13 and 13, 13 and 14 bytes
 */
#include "core/syntax/chars.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "lib/proof.h"

/* Any key of n bytes beside any key of m bytes; the lengths are constants. */
static void
pair(size_t n, size_t m)
{
	char		s[N];
	char		t[N];
	char		text[N];
	uint8_t		a[N];
	uint8_t		b[N];
	size_t		at;
	size_t		an;
	size_t		bn;
	int			order;

	if (atp_rkey_check(s + N - n, n, &at) != ATP_OK || atp_rkey_check(t + N - m, m, &at) != ATP_OK)
		return;
	an = atp_rkey_store(s + N - n, n, a + N - n);
	bn = atp_rkey_store(t + N - m, m, b + N - m);
	LAW(an == n || (an < n && an == ATP_RKEY_TID_STORED));
	LAW(atp_rkey_text(a + N - n, an, text + N - n) == n);
	LAW(memcmp(text + N - n, s + N - n, n) == 0);

	order = memcmp(s + N - n, t + N - m, n < m ? n : m);
	if (order == 0)
		order = (n > m) - (n < m);
	LAW(sign(atp_rkey_cmp(a + N - n, an, b + N - m, bn)) == sign(order));
	LAW(atp_rkey_abbrev(a + N - n, an) >= atp_rkey_abbrev(b + N - m, bn) || order < 0);
	if (n == ATP_TID_TEXT && m == n && an < n && bn < m && order < 0)
		REACHED("the order of two TIDs");
	if (n == ATP_TID_TEXT && m > n && an < n && order < 0)
		REACHED("a TID before a longer key");
}

static void
check(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, M);
	err = atp_rkey_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK && atp_rkey_check_strict(s, n, &at) == ATP_OK)
	{
		LAW(memchr(s, ':', n) == NULL);
		REACHED("a strict key");
	}
}

int
main(void)
{
	check();
	pair(ATP_TID_TEXT, ATP_TID_TEXT);
	pair(ATP_TID_TEXT, ATP_TID_TEXT + 1);
	pair(ATP_TID_TEXT - 1, ATP_TID_TEXT);
	pair(3, 2);
	return 0;
}
