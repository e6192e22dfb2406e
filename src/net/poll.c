/*
 * poll.c
 *		The sockets for which the fetcher waits, by epoll or by poll(): see poll.h.
 */
#include "postgres.h"

#if defined(__linux__) && !defined(ATP_WAIT_POLL)
#define USE_EPOLL
#include <sys/epoll.h>
#else
#include <poll.h>
#endif

#include "net/poll.h"
#include "storage/fd.h"
#include "storage/latch.h"

/* The events and callback of a socket, in an array indexed by the socket's number. */
typedef struct Watched
{
	uint32		events;			/* 0: not watched */
	AtpPollReady ready;
	void	   *arg;
} Watched;

static Watched *watched;
static int	nwatched = 0;

/* malloc'ed, since libcurl's callbacks may not raise an ERROR; NULL: out of memory. */
static Watched *
watched_of(pgsocket fd)
{
	if (fd >= nwatched)
	{
		int			n = Max(fd + 1, 2 * nwatched);

		Watched    *more = realloc(watched, n * sizeof(Watched));

		if (more == NULL)
			return NULL;
		watched = more;
		memset(watched + nwatched, 0, (n - nwatched) * sizeof(Watched));
		nwatched = n;
	}
	return &watched[fd];
}

/* A socket is ready: an error or an end is both, as it is found by reading, or by writing. */
static void
call_ready(pgsocket fd, bool readable, bool writeable)
{
	const Watched *w = &watched[fd];
	uint32		events = ((readable ? WL_SOCKET_READABLE : 0) | (writeable ? WL_SOCKET_WRITEABLE : 0)) & w->events;

	/* a callback of another socket may have stopped watching this socket */
	if (events != 0)
		w->ready(fd, events, w->arg);
}

#ifdef USE_EPOLL

#define EVENTS_AT_ONCE	64

static int	descriptor = -1;

void
atp_poll_begin(void)
{
	if (!AcquireExternalFD())
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not create an epoll descriptor: %m")));
	descriptor = epoll_create1(EPOLL_CLOEXEC);
	if (descriptor < 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not create an epoll descriptor: %m")));
}

AtpSocketWait *
atp_poll_sockets(int *n)
{
	AtpSocketWait *sockets = palloc(sizeof(AtpSocketWait));

	*sockets = (AtpSocketWait) {descriptor, WL_SOCKET_READABLE};
	*n = 1;
	return sockets;
}

/* False, with errno: the kernel does not watch the socket. */
static bool
tell_kernel(pgsocket fd, uint32 events)
{
	struct epoll_event event = {.data.fd = fd};

	if (events & WL_SOCKET_READABLE)
		event.events |= EPOLLIN;
	if (events & WL_SOCKET_WRITEABLE)
		event.events |= EPOLLOUT;
	if (events == 0)
	{
		(void) epoll_ctl(descriptor, EPOLL_CTL_DEL, fd, &event);
		return true;
	}
	/*
	 * The kernel removes a closed socket from the set, and a new socket may have got the same number: so an
	 * add follows when the modification fails.
	 */
	return epoll_ctl(descriptor, EPOLL_CTL_MOD, fd, &event) == 0 ||
		epoll_ctl(descriptor, EPOLL_CTL_ADD, fd, &event) == 0;
}

void
atp_poll_serve(void)
{
	struct epoll_event event[EVENTS_AT_ONCE];
	int			n = epoll_wait(descriptor, event, EVENTS_AT_ONCE, 0);

	for (int i = 0; i < n; i++)
		call_ready(event[i].data.fd,
				   (event[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0,
				   (event[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0);
}

#else							/* !USE_EPOLL */

void
atp_poll_begin(void)
{
}

AtpSocketWait *
atp_poll_sockets(int *n)
{
	AtpSocketWait *sockets = palloc(Max(nwatched, 1) * sizeof(AtpSocketWait));

	*n = 0;
	for (int fd = 0; fd < nwatched; fd++)
		if (watched[fd].events != 0)
			sockets[(*n)++] = (AtpSocketWait) {fd, watched[fd].events};
	return sockets;
}

static bool
tell_kernel(pgsocket fd, uint32 events)
{
	return true;
}

void
atp_poll_serve(void)
{
	int			n;
	AtpSocketWait *sockets = atp_poll_sockets(&n);
	struct pollfd *polled = palloc(Max(n, 1) * sizeof(struct pollfd));

	for (int i = 0; i < n; i++)
		polled[i] = (struct pollfd) {
			.fd = sockets[i].fd,
			.events = (sockets[i].events & WL_SOCKET_READABLE ? POLLIN : 0) |
			(sockets[i].events & WL_SOCKET_WRITEABLE ? POLLOUT : 0)
		};
	if (n > 0 && poll(polled, n, 0) > 0)
		for (int i = 0; i < n; i++)
			call_ready(polled[i].fd,
					   (polled[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0,
					   (polled[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0);
	pfree(polled);
	pfree(sockets);
}

#endif							/* USE_EPOLL */

void
atp_poll_set(pgsocket fd, uint32 events, AtpPollReady ready, void *arg)
{
	Watched    *w = watched_of(fd);

	if (w == NULL)
	{
		elog(LOG, "could not watch socket %d: out of memory", fd);
		return;
	}
	if (!tell_kernel(fd, events))
		elog(LOG, "could not watch socket %d: %m", fd);
	*w = (Watched) {events, ready, arg};
}
