/*
 * transport.c
 *		Plain sockets and TLS behind one read and one write.
 */
#include "transport.h"

#include "buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

SSL_CTX *
transport_context(const char *cert, const char *key)
{
	SSL_CTX    *ctx = SSL_CTX_new(TLS_server_method());

	if (ctx == NULL)
		die("cannot make a TLS context");
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		die("cannot use the certificate %s", cert);
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
		die("cannot use the key %s", key);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ctx;
}

void
transport_open(Transport *t, int fd, SSL_CTX *ctx)
{
	int			on = 1;

	*t = (Transport) {.fd = fd};
	fcntl(fd, F_SETFL, O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (ctx == NULL)
		return;
	t->ssl = SSL_new(ctx);
	if (t->ssl == NULL || SSL_set_fd(t->ssl, fd) != 1)
		die("cannot make a TLS connection");
	SSL_set_accept_state(t->ssl);
}

static ssize_t
plain_result(ssize_t n)
{
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? IO_AGAIN : IO_ERROR;
}

ssize_t
transport_read(Transport *t, void *buf, size_t n)
{
	int			got;

	if (t->ssl == NULL)
		return plain_result(recv(t->fd, buf, n, 0));
	t->read_wants_out = false;
	ERR_clear_error();
	if ((got = SSL_read(t->ssl, buf, (int) n)) > 0)
		return got;
	switch (SSL_get_error(t->ssl, got))
	{
		case SSL_ERROR_WANT_READ:
			return IO_AGAIN;
		case SSL_ERROR_WANT_WRITE:
			t->read_wants_out = true;
			return IO_AGAIN;
		case SSL_ERROR_ZERO_RETURN:
			return 0;
		default:
			return IO_ERROR;
	}
}

ssize_t
transport_write(Transport *t, const void *buf, size_t n)
{
	int			put;

	if (t->ssl == NULL)
		return plain_result(send(t->fd, buf, n, MSG_NOSIGNAL));
	t->write_wants_in = false;
	ERR_clear_error();
	if ((put = SSL_write(t->ssl, buf, (int) n)) > 0)
		return put;
	switch (SSL_get_error(t->ssl, put))
	{
		case SSL_ERROR_WANT_WRITE:
			return IO_AGAIN;
		case SSL_ERROR_WANT_READ:
			t->write_wants_in = true;
			return IO_AGAIN;
		default:
			return IO_ERROR;
	}
}

bool
transport_in_handshake(const Transport *t)
{
	return t->ssl != NULL && !SSL_is_init_finished(t->ssl);
}

void
transport_shut(Transport *t, bool orderly)
{
	if (t->ssl && orderly)
		SSL_shutdown(t->ssl);
	shutdown(t->fd, SHUT_WR);
	SSL_free(t->ssl);
	t->ssl = NULL;
}

void
transport_close(Transport *t, bool reset)
{
	struct linger hard = {.l_onoff = 1, .l_linger = 0};

	if (reset)
		setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	SSL_free(t->ssl);
	close(t->fd);
	t->ssl = NULL;
	t->fd = -1;
}
