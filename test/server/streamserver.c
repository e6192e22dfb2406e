/*
 * streamserver.c
 *		A real event-stream server that replays a capture: the listening socket,
 *		the poll loop and the signals.
 *
 * SIGTERM and SIGINT end it; SIGUSR1 releases the next --hold-at.
 */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;
static volatile sig_atomic_t released;	/* holds that are over */
static int	signalled[2];		/* a pipe: a signal that comes before poll() ends poll(), too */

static void
on_signal(int sig)
{
	int			before = errno;

	if (sig == SIGUSR1)
		released++;
	else
		stopped = 1;
	(void) !write(signalled[1], "", 1);
	errno = before;
}

typedef struct Server
{
	Options		options;
	SSL_CTX    *tls;
	int			listener;
	Conn	  **conns;
	struct pollfd *fds;			/* listener, standard input, the pipe of signals, then the connections */
	size_t		nconns;
	size_t		cap;
	int64_t		streams;
	bool		watch_stdin;
} Server;

#define FDS_FIXED	3

static int64_t
now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int
listen_on(const char *address, const char *port)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	struct addrinfo *found;
	int			on = 1;
	int			fd = -1;

	if (getaddrinfo(address, port, &hints, &found) != 0)
		die("\"%s\" is not an address", address);
	fd = socket(found->ai_family, SOCK_STREAM, 0);
	if (fd < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
		bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 64) != 0)
		die("cannot listen on %s port %s", address, port);
	freeaddrinfo(found);
	return fd;
}

/* Says where we listen; the port file appears whole, by a rename. */
static void
announce(int fd, const char *port_file)
{
	struct sockaddr_storage addr;
	socklen_t	len = sizeof addr;
	char		port[NI_MAXSERV];
	char		tmp[4096];
	FILE	   *f;

	if (getsockname(fd, (struct sockaddr *) &addr, &len) != 0 ||
		getnameinfo((struct sockaddr *) &addr, len, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
		die("cannot find out the port");
	if (port_file != NULL)
	{
		snprintf(tmp, sizeof tmp, "%s.tmp", port_file);
		if ((f = fopen(tmp, "w")) == NULL || fprintf(f, "%s\n", port) < 0 || fclose(f) != 0 ||
			rename(tmp, port_file) != 0)
			die("cannot write %s", port_file);
	}
	printf("listening on %s\n", port);
	fflush(stdout);
}

static void
catch_signals(void)
{
	static const int caught[] = {SIGTERM, SIGINT, SIGUSR1};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (pipe(signalled) != 0)
		die("cannot make a pipe");
	for (int i = 0; i < 2; i++)
		fcntl(signalled[i], F_SETFL, O_NONBLOCK);
	for (size_t i = 0; i < sizeof caught / sizeof *caught; i++)
		sigaction(caught[i], &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void
accept_all(Server *s)
{
	int			fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0)
	{
		if (s->nconns == s->cap)
		{
			s->cap = s->cap ? s->cap * 2 : 16;
			s->conns = xrealloc(s->conns, s->cap * sizeof *s->conns);
			s->fds = xrealloc(s->fds, (s->cap + FDS_FIXED) * sizeof *s->fds);
		}
		s->fds[FDS_FIXED + s->nconns].revents = POLLIN;
		s->conns[s->nconns++] = conn_new(fd, s->tls, &s->options, &s->streams);
	}
}

/* Prepares s->fds and returns when to wake up (INT64_MAX: when something comes). */
static int64_t
prepare(Server *s)
{
	int64_t		wake = INT64_MAX;

	s->fds[0] = (struct pollfd) {s->listener, POLLIN, 0};
	s->fds[1] = (struct pollfd) {s->watch_stdin ? 0 : -1, POLLIN, 0};
	s->fds[2] = (struct pollfd) {signalled[0], POLLIN, 0};
	for (size_t i = 0; i < s->nconns; i++)
	{
		Conn	   *c = s->conns[i];

		s->fds[FDS_FIXED + i] = (struct pollfd) {c->transport.fd, conn_events(c), 0};
		if (c->wake < wake)
			wake = c->wake;
	}
	return wake;
}

static void
wait_for_something(Server *s)
{
	int64_t		wake = prepare(s);
	int			timeout = -1;
	char		signals[16];

	if (wake != INT64_MAX)
	{
		int64_t		left = wake - now_usec();

		/* poll() counts milliseconds: less than one is waited for without it */
		if (left > 0 && left < 1000)
			nanosleep(&(struct timespec) {0, left * 1000}, NULL);
		timeout = left < 1000 ? 0 : left > 1000000 ? 1000 : (int) (left / 1000);
	}
	/* not ppoll(), which macOS lacks */
	if (poll(s->fds, FDS_FIXED + s->nconns, timeout) < 0)
		for (size_t i = 0; i < FDS_FIXED + s->nconns; i++)
			s->fds[i].revents = 0;
	while (read(signalled[0], signals, sizeof signals) > 0)
		;
}

static bool
stdin_ended(void)
{
	char		chunk[256];

	return read(0, chunk, sizeof chunk) <= 0;
}

static void
run_connections(Server *s)
{
	const Options *o = &s->options;
	unsigned	over = (unsigned) released;
	int64_t		held = over < o->nholds ? o->hold[over] : INT64_MAX;
	int64_t		now = now_usec();
	size_t		kept = 0;

	for (size_t i = 0; i < s->nconns; i++)
	{
		Conn	   *c = s->conns[i];

		conn_run(c, s->fds[FDS_FIXED + i].revents, now, held);
		if (c->state == CONN_DONE)
			conn_free(c);
		else
			s->conns[kept++] = c;
	}
	s->nconns = kept;
}

int
main(int argc, char **argv)
{
	Server		s = {.listener = -1};

	options_parse(&s.options, argc, argv);
	log_open(s.options.log);
	if (s.options.tls_cert)
		s.tls = transport_context(s.options.tls_cert, s.options.tls_key);
	s.watch_stdin = s.options.exit_on_eof;
	s.fds = xcalloc(FDS_FIXED, sizeof *s.fds);
	catch_signals();
	s.listener = listen_on(s.options.bind, s.options.port);
	announce(s.listener, s.options.port_file);

	while (!stopped)
	{
		wait_for_something(&s);
		if (s.fds[1].revents && stdin_ended())
			break;
		run_connections(&s);
		if (s.fds[0].revents)
			accept_all(&s);
	}
	for (size_t i = 0; i < s.nconns; i++)
		conn_free(s.conns[i]);
	free(s.conns);
	free(s.fds);
	close(s.listener);
	SSL_CTX_free(s.tls);
	options_free(&s.options);
	return 0;
}
