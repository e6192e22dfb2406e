/*
 * fuzz_did.c
 *		DIDs: syntax, stored form, order, normal form, the host of a did:web.
 */
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"
#include "protocol/stored.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const StoredType type = {
		atp_did_check, atp_did_store, atp_did_text, atp_did_check_stored, atp_did_cmp,
		atp_did_abbrev, ATP_DID_MAX
	};
	const char *s = (const char *) data;
	char		normal[ATP_DID_MAX];
	char		again[ATP_DID_MAX];
	char		host[ATP_DID_WEB_HOST];
	size_t		n;
	size_t		at;

	check_stored_type(&type, data, size);
	if (atp_did_check(s, size, &at) != ATP_OK)
		return 0;
	n = atp_did_normalize(s, size, normal);
	CHECK(atp_did_check(normal, n, &at) == ATP_OK);
	CHECK(atp_did_normalize(normal, n, again) == n && memcmp(normal, again, n) == 0);
	CHECK(atp_did_is_blessed(s, size) == (atp_span_is(atp_did_method(s, size), "plc") ||
										  atp_span_is(atp_did_method(s, size), "web")));
	/* this host becomes part of a URL */
	if (atp_did_document_host(s, size, host, &n, &at) == ATP_OK)
	{
		CHECK(n <= sizeof(host) && (n > 0) == (atp_did_is_plc(s, size) == false));
		for (size_t i = 0; i < n; i++)
			CHECK(strchr("abcdefghijklmnopqrstuvwxyz0123456789-.:", host[i]) != NULL);
	}
	return 0;
}
