/*
 * did_web.h
 *		Which DIDs have a document that can be fetched (W-01), and the host of a did:web document (W-04).
 *		Whether the host may be asked is decided elsewhere (net/http_policy.c).
 */
#ifndef ATP_DID_WEB_H
#define ATP_DID_WEB_H

#include "core/atp.h"
#include "core/syntax/handle.h"

#define ATP_DID_WEB_HOST	(ATP_HANDLE_MAX + 6)	/* name, colon, port */

/*
 * Expects a valid DID.  An error unless the DID is did:plc: with 24 characters, or did:web: with a host's
 * name.  *len is 0 for did:plc; for did:web it is the length of host: the name in lower case, or "localhost"
 * with its port, if any.
 */
extern AtpErr atp_did_document_host(const char *s, size_t n, char host[ATP_DID_WEB_HOST], size_t *len, size_t *at);

#endif							/* ATP_DID_WEB_H */
