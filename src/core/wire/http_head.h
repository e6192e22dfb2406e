/*
 * http_head.h
 *		The head of an HTTP/1.1 response, parsed in place and bounded (rules
 *		E-04, E-05), and the check that the response accepts a WebSocket (E-02).
 */
#ifndef ATP_HTTP_HEAD_H
#define ATP_HTTP_HEAD_H

#include "core/atp.h"

#define ATP_HTTP_HEAD_MAX	16384	/* bytes of status lines and headers, including interim responses */
#define ATP_HTTP_INTERIM_MAX	8	/* interim responses before the final one */

typedef struct AtpHttpHead
{
	int			status;			/* 101, or 200 to 999 */
	int			minor;			/* of the version HTTP/1 */
	AtpSpan		reason;			/* the words after the status; may be empty */
	AtpSpan		headers;		/* the header lines, each with a name and a colon */
	size_t		len;			/* length of the head; the body, or the first frame, begins here */
} AtpHttpHead;

/*
 * Interim responses, such as 103 (Early Hints), are skipped.  ATP_E_HTTP_MORE:
 * the head is incomplete and shorter than the limit; call again with more
 * bytes.  On any other error the bytes are no HTTP response.
 */
extern AtpErr atp_http_head_parse(const char *buf, size_t n, AtpHttpHead *head, size_t *at);

/*
 * The value of a header, without blanks around it; if the header is repeated,
 * the last value. ptr NULL: the header is absent.  In the functions of this
 * file, name is in lower case.
 */
extern AtpSpan atp_http_header(const AtpHttpHead *head, const char *name);

/* Is token (in lower case) a comma-separated word of a header of this name? */
extern bool atp_http_has_token(const AtpHttpHead *head, const char *name, const char *token);

/* May a further request follow on the connection, if the body says where it ends? */
extern bool atp_http_persists(const AtpHttpHead *head);

/* Retry-After as whole seconds, 0 to 10^9.  False for any other form. */
extern bool atp_retry_after_seconds(AtpSpan value, uint32_t *seconds);

/*
 * Does a head with status 101 switch to the WebSocket that the client
 * requested? accept is the proof that belongs to the request's key. protocol is
 * the offered subprotocol (NULL: none), which the server need not choose.
 */
extern bool atp_http_is_websocket(const AtpHttpHead *head, const char *accept, const char *protocol);

#endif							/* ATP_HTTP_HEAD_H */
