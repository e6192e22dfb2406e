/*
 * did_web.c
 *		Which DIDs have a document that can be fetched (W-01), and the host of a did:web document (W-04).
 *		Whether the host may be asked is decided elsewhere (net/http_policy.c).
 */
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"

#define PREFIX		"did:web:"
#define LOCALHOST	"localhost"

/* "localhost", also followed by "%3A" and a port of 1 to 5 digits. */
static bool
take_localhost(const char *s, size_t n, char *host, size_t *len)
{
	static const size_t name = sizeof(LOCALHOST) - 1;
	size_t		digits;

	if (n < name || memcmp(s, LOCALHOST, name) != 0)
		return false;
	memcpy(host, s, name);
	*len = name;
	if (n == name)
		return true;
	if (n < name + 4 || n > name + 8 || s[name] != '%' || s[name + 1] != '3' || (s[name + 2] | 0x20) != 'a')
		return false;
	digits = n - name - 3;
	for (size_t i = 0; i < digits; i++)
		if (s[name + 3 + i] < '0' || s[name + 3 + i] > '9')
			return false;
	host[name] = ':';
	memcpy(host + name + 1, s + name + 3, digits);
	*len = name + 1 + digits;
	return true;
}

AtpErr
atp_did_document_host(const char *s, size_t n, char host[ATP_DID_WEB_HOST], size_t *len, size_t *at)
{
	AtpSpan		method = atp_did_method(s, n);
	const size_t skip = sizeof(PREFIX) - 1;

	*len = 0;
	*at = 0;
	if (atp_span_is(method, "plc"))
	{
		*at = skip;
		return atp_did_is_plc(s, n) ? ATP_OK : ATP_E_DID_PLC;
	}
	if (!atp_span_is(method, "web"))
		return ATP_E_DID_NOT_BLESSED;
	if (take_localhost(s + skip, n - skip, host, len))
		return ATP_OK;
	*len = 0;

	/*
	 * A did:web with a path, or with a port on any other host, is refused: neither is part of a handle's
	 * syntax.
	 */
	if (atp_handle_check(s + skip, n - skip, at) != ATP_OK)
	{
		*at += skip;
		return ATP_E_DID_WEB;
	}
	if (!atp_handle_tld_allowed(s + skip, n - skip))
		return ATP_E_DID_WEB_TLD;
	*len = n - skip;
	atp_handle_normalize(s + skip, n - skip, host);
	return ATP_OK;
}
