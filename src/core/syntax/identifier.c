/*
 * identifier.c
 *		At-identifiers: a DID or a handle.
 */
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/identifier.h"

AtpErr
atp_identifier_check(const char *s, size_t n, size_t *at)
{
	if (n >= 4 && memcmp(s, "did:", 4) == 0)
		return atp_did_check(s, n, at);
	return atp_handle_check(s, n, at);
}
