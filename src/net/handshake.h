/*
 * handshake.h
 *		The opening handshake of a WebSocket (RFC 6455, section 4.1): writes the
 *		request, and checks the server's answer.  Needs no PostgreSQL header and no
 *		socket, so unit tests can play any server.
 */
#ifndef ATP_HANDSHAKE_H
#define ATP_HANDSHAKE_H

#include "core/wire/chunked.h"
#include "core/wire/http_head.h"
#include "net/drop.h"

typedef enum AtpHandshakeState
{
	ATP_HANDSHAKE_MORE,			/* the answer's head is still incomplete */
	ATP_HANDSHAKE_DONE,			/* upgraded; the WebSocket stream begins at answer.len */
	ATP_HANDSHAKE_REFUSED,		/* an HTTP answer, but no upgrade */
	ATP_HANDSHAKE_BROKEN		/* not HTTP, or a wrong answer to the upgrade request */
} AtpHandshakeState;

typedef struct AtpHandshake
{
	char		key[32];		/* Sec-WebSocket-Key of the request */
	char		accept[32];		/* the Sec-WebSocket-Accept to expect */
	const char *protocol;		/* the subprotocol offered; NULL: none */
	AtpHttpHead answer;			/* its spans point into the buffer of the last atp_handshake_answer() */
	char		error[64];		/* the name in an XRPC error answer (E-05); "": the answer has no XRPC error */
	AtpErr		err;

	/*
	 * How far the answer was read.  A server may send the answer byte by byte: neither the head nor the body may be
	 * read from its start at each byte.
	 */
	AtpHandshakeState state;	/* the last result */
	const char *buf;			/* the buffer of the last call */
	size_t		seen;			/* bytes of the last call */
	size_t		parsed;			/* bytes when the head was parsed last */
	bool		has_line;		/* the first line is complete */
	/* a refusal: what its head says of the body, and how much of a chunked body was read */
	bool		in_chunks;
	bool		until_close;
	size_t		body_len;
	size_t		body_read;
	AtpChunked	chunked;
} AtpHandshake;

extern void atp_handshake_start(AtpHandshake *hs, const uint8_t nonce[16], const char *protocol);

/* The next answer on the same connection is to be read: forget the answer before. */
extern void atp_handshake_next(AtpHandshake *hs);

/*
 * Write the request, with additional header lines, each with its line end.  Returns the request's length; a
 * result of size or more means a truncated out, as with snprintf().
 */
extern size_t atp_handshake_request(const AtpHandshake *hs, const char *host, const char *target,
									const char *headers, char *out, size_t size);

/* Parse the n bytes received since the request was sent.  The bytes of earlier calls must be unchanged. */
extern AtpHandshakeState atp_handshake_answer(AtpHandshake *hs, const char *buf, size_t n);

/* After REFUSED: should the caller wait for more of the answer's body, because it may name an error? */
extern bool atp_handshake_has_more(AtpHandshake *hs, const char *buf, size_t n);

/*
 * After REFUSED or BROKEN: record the reason in *end, with the received part of an error's body (E-05).  A
 * chunked body is joined in place, so buf changes.
 */
extern void atp_handshake_end(AtpHandshake *hs, char *buf, size_t n, AtpEnd *end);

#endif							/* ATP_HANDSHAKE_H */
