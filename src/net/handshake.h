/*
 * handshake.h
 *		How a WebSocket begins (RFC 6455, section 4.1): the request, and whether
 *		the answer is the one to it.  Needs no PostgreSQL header and no socket.
 */
#ifndef ATP_HANDSHAKE_H
#define ATP_HANDSHAKE_H

#include "core/wire/http_head.h"
#include "net/drop.h"

typedef struct AtpHandshake
{
	char		key[32];		/* Sec-WebSocket-Key of the request */
	char		accept[32];		/* the Sec-WebSocket-Accept that must come */
	const char *protocol;		/* the subprotocol that is offered; NULL: none */
	AtpHttpHead answer;			/* its spans point into what was given last */
	char		error[64];		/* the name of an XRPC error that the answer has (E-05); "" for none */
	AtpErr		err;
} AtpHandshake;

typedef enum AtpHandshakeState
{
	ATP_HANDSHAKE_MORE,			/* not all of the answer's head is there */
	ATP_HANDSHAKE_DONE,			/* the stream begins at answer.len */
	ATP_HANDSHAKE_REFUSED,		/* an HTTP answer, but no upgrade */
	ATP_HANDSHAKE_BROKEN		/* no answer to such a request */
} AtpHandshakeState;

extern void atp_handshake_start(AtpHandshake *hs, const uint8_t nonce[16], const char *protocol);

/*
 * Write the request, with more header lines, each with its line end.  Returns
 * its length; when that is size or more, out has not all of it, as with snprintf().
 */
extern size_t atp_handshake_request(const AtpHandshake *hs, const char *host, const char *target,
									const char *headers, char *out, size_t size);

/* Look at all that has come since the request. */
extern AtpHandshakeState atp_handshake_answer(AtpHandshake *hs, const char *buf, size_t n);

/* After REFUSED: is more of the answer under way that is worth to be waited for? */
extern bool atp_handshake_has_more(const AtpHandshake *hs, const char *buf, size_t n);

/* After REFUSED or BROKEN: say why, with as much of an error's body as has come (E-05), which is put together in place. */
extern void atp_handshake_end(AtpHandshake *hs, char *buf, size_t n, AtpEnd *end);

#endif							/* ATP_HANDSHAKE_H */
