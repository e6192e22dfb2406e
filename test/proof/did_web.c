/*
 * did_web.c
 *		The host of a did:web document.
 *
 * proves: atp_did_document_host
 * sources: core/syntax/did_web.c core/syntax/did.c core/syntax/handle.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=6 --unwind 16
 * long: -DN=18 --unwind 28
 * assumes: the text begins with "did:web:", or with "did:" and a method of one letter, and is a DID
 */
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"
#include "lib/proof.h"

int
main(void)
{
	char		s[8 + N];
	char		host[ATP_DID_WEB_HOST];
	bool		web = any_bool();
	size_t		n = 8 + any_size(N);
	char	   *text = s + sizeof(s) - n;
	size_t		len;
	size_t		at;
	AtpErr		err;

	memcpy(text, web ? "did:web:" : "did:x:ab", 8);
	ASSUME(atp_did_check(text, n, &at) == ATP_OK);
	err = atp_did_document_host(text, n, host, &len, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(web || err == ATP_E_DID_NOT_BLESSED);
	if (err == ATP_OK)
	{
		LAW(len > 0 && len <= n - 8);
		REACHED("a host");
	}
	return 0;
}
