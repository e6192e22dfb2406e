/*
 * upgrade.h
 *		The HTTP/1.1 response that answers a WebSocket upgrade request (rules
 *		E-02, E-04, E-05): its head, parsed in place, bounded.  Interim responses
 *		before it, such as 103 (Early Hints), are passed over.
 */
#ifndef ATP_UPGRADE_H
#define ATP_UPGRADE_H

#include "atp.h"

#define ATP_UPGRADE_HEAD_MAX	16384	/* bytes of status line and headers, of interim responses too */
#define ATP_UPGRADE_INTERIM_MAX	8	/* of these */

typedef struct AtpUpgrade
{
	int			status;			/* 101, or 200 to 999 */
	AtpSpan		reason;			/* the words after it; may be empty */
	bool		upgrade;		/* Upgrade: websocket */
	bool		connection;		/* Connection: has the token upgrade */
	AtpSpan		accept;			/* Sec-WebSocket-Accept, or absent */
	AtpSpan		retry_after;	/* Retry-After, or absent */
	bool		extension;		/* an extension or subprotocol that we never offer */
	size_t		head_len;		/* the body, or the stream, begins here */
} AtpUpgrade;

/*
 * ATP_E_HTTP_MORE: the head is not complete and shorter than the limit; call
 * again with more.  Any other error: this is no answer to an upgrade request.
 */
extern AtpErr atp_upgrade_parse(const char *buf, size_t n, AtpUpgrade *up, size_t *at);

/* Retry-After in its first form: whole seconds, 0 to 10^9.  False otherwise. */
extern bool atp_retry_after_seconds(AtpSpan value, uint32_t *seconds);

#endif							/* ATP_UPGRADE_H */
