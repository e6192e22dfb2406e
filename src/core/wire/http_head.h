/*
 * http_head.h
 *		The head of an HTTP/1.1 response, parsed in place and bounded (rules
 *		E-04, E-05); and on top of it, whether it answers the request for a
 *		WebSocket (E-02).
 */
#ifndef ATP_HTTP_HEAD_H
#define ATP_HTTP_HEAD_H

#include "core/atp.h"

#define ATP_HTTP_HEAD_MAX	16384	/* bytes of status line and headers, of interim responses too */
#define ATP_HTTP_INTERIM_MAX	8	/* of these */

typedef struct AtpHttpHead
{
	int			status;			/* 101, or 200 to 999 */
	AtpSpan		reason;			/* the words after it; may be empty */
	AtpSpan		headers;		/* their lines, each with a name and a colon */
	size_t		len;			/* what comes after the head begins here */
} AtpHttpHead;

/*
 * Interim responses before the answer, such as 103 (Early Hints), are passed over.
 * ATP_E_HTTP_MORE: the head is not complete and shorter than the limit; call
 * again with more.  Any other error: this is no HTTP response.
 */
extern AtpErr atp_http_head_parse(const char *buf, size_t n, AtpHttpHead *head, size_t *at);

/*
 * The value of a header, without the blanks around it; of several, the last.  ptr
 * is NULL when there is none.  The name is in lower case, here and below.
 */
extern AtpSpan atp_http_header(const AtpHttpHead *head, const char *name);

/* Is token (in lower case) one of the comma-separated words of such headers? */
extern bool atp_http_has_token(const AtpHttpHead *head, const char *name, const char *token);

/* Retry-After in its first form: whole seconds, 0 to 10^9.  False otherwise. */
extern bool atp_retry_after_seconds(AtpSpan value, uint32_t *seconds);

/*
 * Does a head with status 101 switch to the WebSocket that was asked for?
 * accept is the proof that belongs to the request's key; protocol is that which
 * was offered, and need not be chosen; NULL: none.
 */
extern bool atp_http_is_websocket(const AtpHttpHead *head, const char *accept, const char *protocol);

#endif							/* ATP_HTTP_HEAD_H */
