/*
 * did_plc.c
 *		Packed DIDs: "did:plc:" and any 24 bytes, beside any other DID-like text of 32 bytes that differs within the
 *		identifier.
 *
 * proves: atp_did_store atp_did_text atp_did_cmp atp_did_abbrev atp_did_is_plc
 * sources: core/syntax/did.c core/syntax/chars.c core/syntax/base32.c
 * short: --unwind 34
 * by hand: 22 s
 * long: --unwind 34
 * assumes: both texts begin with "did:plc:"
 */
#include "core/syntax/did.h"
#include "lib/proof.h"

int
main(void)
{
	char		s[ATP_DID_PLC_TEXT];
	char		t[ATP_DID_PLC_TEXT];
	char		text[ATP_DID_PLC_TEXT];
	uint8_t		a[ATP_DID_PLC_TEXT];
	uint8_t		b[ATP_DID_PLC_TEXT];
	size_t		an;
	size_t		bn;
	int			order;

	ASSUME(memcmp(s, "did:plc:", 8) == 0 && memcmp(t, "did:plc:", 8) == 0);
	/* no character of a DID is above '~' */
	for (int i = 8; i < ATP_DID_PLC_TEXT; i++)
		ASSUME(s[i] >= '%' && s[i] <= 'z' && t[i] >= '%' && t[i] <= 'z');
	an = atp_did_store(s, sizeof(s), a);
	bn = atp_did_store(t, sizeof(t), b);
	LAW((an == ATP_DID_PLC_STORED) == atp_did_is_plc(s, sizeof(s)));
	LAW(atp_did_text(a, an, text) == sizeof(s) && memcmp(s, text, sizeof(s)) == 0);
	order = memcmp(s, t, sizeof(s));
	LAW(sign(atp_did_cmp(a, an, b, bn)) == sign(order));
	LAW(atp_did_abbrev(a, an) >= atp_did_abbrev(b, bn) || order < 0);
	if (an != bn)
		REACHED("a packed DID beside one that is not");
	if (an == bn && an == ATP_DID_PLC_STORED)
		REACHED("two packed DIDs");
	return 0;
}
