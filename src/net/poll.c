/*
 * poll.c
 *		Many sockets behind one descriptor, by epoll: see poll.h.
 */
#include "postgres.h"

#include <sys/epoll.h>

#include "net/poll.h"
#include "storage/fd.h"
#include "storage/latch.h"

#define EVENTS_AT_ONCE	64

/* The events and callback of a socket, in an array indexed by the socket's number. */
typedef struct Watched
{
	uint32		events;			/* 0: not watched */
	AtpPollReady ready;
	void	   *arg;
} Watched;

static int	descriptor = -1;
static Watched *watched;
static int	nwatched = 0;

void
atp_poll_begin(void)
{
	if (!AcquireExternalFD())
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not create an epoll descriptor: %m")));
	descriptor = epoll_create1(EPOLL_CLOEXEC);
	if (descriptor < 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not create an epoll descriptor: %m")));
}

pgsocket
atp_poll_descriptor(void)
{
	return descriptor;
}

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

void
atp_poll_set(pgsocket fd, uint32 events, AtpPollReady ready, void *arg)
{
	Watched    *w = watched_of(fd);
	struct epoll_event event = {.data.fd = fd};

	if (w == NULL)
	{
		elog(LOG, "could not watch socket %d: out of memory", fd);
		return;
	}
	if (events & WL_SOCKET_READABLE)
		event.events |= EPOLLIN;
	if (events & WL_SOCKET_WRITEABLE)
		event.events |= EPOLLOUT;
	/*
	 * The kernel removes a closed socket from the set, and a new socket may have got the same number: so an
	 * add follows when the modification fails.
	 */
	if (events == 0)
		(void) epoll_ctl(descriptor, EPOLL_CTL_DEL, fd, &event);
	else if (epoll_ctl(descriptor, EPOLL_CTL_MOD, fd, &event) != 0 &&
			 epoll_ctl(descriptor, EPOLL_CTL_ADD, fd, &event) != 0)
		elog(LOG, "could not watch socket %d: %m", fd);
	*w = (Watched) {events, ready, arg};
}

void
atp_poll_serve(void)
{
	struct epoll_event event[EVENTS_AT_ONCE];
	int			n = epoll_wait(descriptor, event, EVENTS_AT_ONCE, 0);

	for (int i = 0; i < n; i++)
	{
		const Watched *w = &watched[event[i].data.fd];
		uint32		events = 0;

		/* an error or an end is found by reading, or by writing */
		if (event[i].events & (EPOLLIN | EPOLLERR | EPOLLHUP))
			events |= WL_SOCKET_READABLE;
		if (event[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
			events |= WL_SOCKET_WRITEABLE;
		/* a callback called before in this loop may have stopped watching this socket */
		if ((events &= w->events) != 0)
			w->ready(event[i].data.fd, events, w->arg);
	}
}
