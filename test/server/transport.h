/*
 * transport.h
 *		Bytes in and out of one accepted socket, plain or TLS.
 */
#ifndef SRV_TRANSPORT_H
#define SRV_TRANSPORT_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#define IO_AGAIN	(-1)
#define IO_ERROR	(-2)

typedef struct Transport
{
	int			fd;
	SSL		   *ssl;			/* NULL: plain */
	bool		read_wants_out; /* TLS must write before it can read */
	bool		write_wants_in;
} Transport;

/* Takes a socket over; ctx NULL means plain. */
extern void transport_open(Transport *t, int fd, SSL_CTX *ctx);

/* Bytes read or written, 0 at the end of the input, IO_AGAIN or IO_ERROR. */
extern ssize_t transport_read(Transport *t, void *buf, size_t n);
extern ssize_t transport_write(Transport *t, const void *buf, size_t n);

/* TLS was asked for and its handshake has not succeeded (yet). */
extern bool transport_in_handshake(const Transport *t);

/*
 * No more output; what the peer still sends is to be thrown away.  orderly: with
 * TLS's close_notify.
 */
extern void transport_shut(Transport *t, bool orderly);

/* reset: with an RST in place of an orderly end. */
extern void transport_close(Transport *t, bool reset);

extern SSL_CTX *transport_context(const char *cert, const char *key);

#endif							/* SRV_TRANSPORT_H */
