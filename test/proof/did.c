/*
 * did.c
 *		DIDs of any method: the check, the parts, the stored form, the order and the normal form.
 *
 * proves: atp_did_check atp_did_method atp_did_is_blessed atp_did_is_plc atp_did_store atp_did_text atp_did_cmp
 *	atp_did_abbrev atp_abbrev_text atp_identifier_check
 * sources: core/syntax/did.c core/syntax/handle.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=7 --unwind 8 --unwindset abbrev_id.0:13,memcpy.0:21,memcmp.0:12,atp_get_be64.0:9
 * long: -DN=14 --unwind 16 --unwindset memcpy.0:21
 * wraps: atp_abbrev_text
 * not proved: packed DIDs, which did_plc.c has; the longest DID (2048 bytes)
 */
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "lib/grammar.h"

/* I-20 */
static bool
is_did(const char *s, size_t n)
{
	size_t		i = 4;

	if (n < 7 || s[0] != 'd' || s[1] != 'i' || s[2] != 'd' || s[3] != ':')
		return false;
	while (i < n && s[i] >= 'a' && s[i] <= 'z')
		i++;
	if (i == 4 || i + 1 >= n || s[i] != ':' || s[n - 1] == ':')
		return false;
	for (i++; i < n; i++)
	{
		if (s[i] == '%')
		{
			if (i + 2 >= n || !grammar_hex(s[i + 1]) || !grammar_hex(s[i + 2]))
				return false;
		}
		else if (!grammar_letter(s[i]) && !grammar_digit(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != ':' && s[i] != '-')
			return false;
	}
	return true;
}

int
main(void)
{
	uint8_t		a[N];
	uint8_t		b[N];
	char		text[N];
	size_t		at;
	size_t		an;
	size_t		bn;
	AtpSpan		method;
	AtpErr		err;
	int			order;

	ANY_TEXT(s, n, N);
	ANY_TEXT(t, m, N);
	err = atp_did_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW((err == ATP_OK) == is_did(s, n));
	if (err != ATP_OK)
		return 0;
	LAW(atp_identifier_check(s, n, &at) == ATP_OK);
	method = atp_did_method(s, n);
	LAW(method.ptr == s + 4 && method.len > 0 && 4 + method.len < n);
	LAW(!atp_did_is_plc(s, n));
	an = atp_did_store(s, n, a + N - n);
	LAW(an <= n);
	LAW(atp_did_text(a + N - n, an, text + N - n) == n && memcmp(text + N - n, s, n) == 0);
	REACHED("a DID");

	if (atp_did_check(t, m, &at) != ATP_OK)
		return 0;
	bn = atp_did_store(t, m, b + N - m);
	order = memcmp(s, t, n < m ? n : m);
	if (order == 0)
		order = (n > m) - (n < m);
	LAW(sign(atp_did_cmp(a + N - n, an, b + N - m, bn)) == sign(order));
	LAW(atp_did_abbrev(a + N - n, an) >= atp_did_abbrev(b + N - m, bn) || order < 0);
	REACHED("the order of two DIDs");
	return 0;
}
