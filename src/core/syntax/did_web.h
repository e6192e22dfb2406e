/*
 * did_web.h
 *		Which documents of DIDs can be read (W-01), and the host that has a did:web's
 *		(W-04).
 */
#ifndef ATP_DID_WEB_H
#define ATP_DID_WEB_H

#include "core/atp.h"
#include "core/syntax/handle.h"

#define ATP_DID_WEB_HOST	(ATP_HANDLE_MAX + 6)	/* name, colon, port */

/*
 * Of a valid DID: an error unless it is did:plc: and 24 characters, or did:web: and a host's
 * name.  Then *len is 0, or the length of the host in lower case, "localhost" with its port if
 * it has one: whether that may be asked is a matter of policy.
 */
extern AtpErr atp_did_document_host(const char *s, size_t n, char host[ATP_DID_WEB_HOST], size_t *len, size_t *at);

#endif							/* ATP_DID_WEB_H */
