/*
 * preload.c
 *		A library that tests preload into a server (AtprotoTest::Preload).  It replaces functions of libc, so that a test
 *		sets the time of day while the server runs, the answers of the name server, the hosts behind addresses
 *		(AtprotoTest::Network), and the free room of disks.
 *
 * ATP_TEST_CLOCK names a file with one int64, the seconds that are added to the time of day.  Nothing is added to the
 * monotonic clock.
 *
 * ATP_TEST_NAMES names a file with lines "NAME ADDRESS...".  Each look-up of a name reads the file again: the first
 * look-up by a process gets the first address, the next look-up the next address, and each look-up after the last
 * address gets the last address.  A line of ".example.com" is for all names below example.com.  A name without a line
 * is looked up by libc.  The name "unanswered.invalid" is never answered.
 *
 * ATP_TEST_PORTS is "FROM:TO,...": a connection to port FROM of an address outside of this machine goes to port TO of
 * 127.0.0.1.  A connection to a different port of such an address is refused.  So the servers of a test have names,
 * addresses and ports as on the Internet, and no packet leaves the machine.
 *
 * ATP_TEST_DISKS names a file with lines "PATH MEGABYTES": statvfs(PATH) reports this free room.  A PATH is compared
 * as a text with the argument of statvfs().  Paths without a line have their real free room.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void
map_clock(void)
{
	const char *file = getenv("ATP_TEST_CLOCK");
	int			fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	void	   *map;

	if (fd < 0)
		return;
	map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED)
		offset = map;
	close(fd);
}

int
clock_gettime(clockid_t clock, struct timespec *t)
{
	int			rc = (int) syscall(SYS_clock_gettime, clock, t);

	if (rc == 0 && clock == CLOCK_REALTIME && offset)
		t->tv_sec += *offset;
	return rc;
}

int
gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	(void) zone;
	(void) clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *t)
{
	struct timespec now;

	(void) clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

/* --- disks --- */

int
statvfs(const char *restrict path, struct statvfs *restrict stat)
{
	static int	(*original) (const char *, struct statvfs *);
	const char *name = getenv("ATP_TEST_DISKS");
	FILE	   *f = name ? fopen(name, "re") : NULL;
	char		line[1024];
	int			rc;

	if (!original)
		*(void **) &original = dlsym(RTLD_NEXT, "statvfs");
	rc = original(path, stat);
	while (f && rc == 0 && fgets(line, sizeof(line), f))
	{
		char	   *rest;
		char	   *word = strtok_r(line, " \n", &rest);
		char	   *free_mb = strtok_r(NULL, " \n", &rest);

		if (word && free_mb && strcmp(word, path) == 0)
			stat->f_bavail = strtoull(free_mb, NULL, 10) * 1024 * 1024 / stat->f_frsize;
	}
	if (f)
		(void) fclose(f);
	return rc;
}

/* --- the test's network --- */

#define MAX_NAMES 256

/* How often this process has looked up each name of the file, by address family: a newer libcurl calls getaddrinfo() once for each family. */
static struct
{
	char		name[256];
	int			family;
	int			times;
}			looked_up[MAX_NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int
look_up_number(const char *name, int family)
{
	int			n = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MAX_NAMES; i++)
	{
		if (looked_up[i].name[0] && (looked_up[i].family != family || strcasecmp(looked_up[i].name, name) != 0))
			continue;
		looked_up[i].family = family;
		snprintf(looked_up[i].name, sizeof(looked_up[i].name), "%s", name);
		n = looked_up[i].times++;
		break;
	}
	pthread_mutex_unlock(&lock);
	return n;
}

/* Is the line with this pattern for the name? */
static int
means(const char *pattern, const char *name)
{
	size_t		p = strlen(pattern),
				n = strlen(name);

	return strcasecmp(pattern, name) == 0 ||
		(pattern[0] == '.' && n > p && strcasecmp(name + n - p, pattern) == 0);
}

/* Looks a name up in the file of ATP_TEST_NAMES.  1: *address is set; -1: the line says "none", the name does not exist; 0: no line has the name. */
static int
from_file(const char *name, int family, char *address, size_t size)
{
	const char *path = getenv("ATP_TEST_NAMES");
	FILE	   *f = path ? fopen(path, "re") : NULL;
	char		line[1024];
	int			found = 0;

	while (f && !found && fgets(line, sizeof(line), f))
	{
		char	   *rest;
		char	   *word = strtok_r(line, " \n", &rest);
		char	   *next;
		int			n;

		if (!word || !means(word, name))
			continue;
		for (n = look_up_number(name, family); (next = strtok_r(NULL, " \n", &rest)); n--)
		{
			found = strcmp(next, "none") == 0 ? -1 : 1;
			snprintf(address, size, "%s", next);
			if (n == 0)
				break;
		}
	}
	if (f)
		fclose(f);
	return found;
}

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *, struct addrinfo **);
	struct addrinfo numeric = hints ? *hints : (struct addrinfo) {0};
	char		address[128];
	int			known;

	while (name && strcmp(name, "unanswered.invalid") == 0)
		pause();
	*(void **) &real = dlsym(RTLD_NEXT, "getaddrinfo");
	known = name ? from_file(name, numeric.ai_family, address, sizeof(address)) : 0;
	if (known < 0)
		return EAI_NONAME;
	if (known == 0)
		return real(name, service, hints, result);
	numeric.ai_flags = (numeric.ai_flags | AI_NUMERICHOST) & ~AI_ADDRCONFIG;
	return real(address, service, &numeric, result);
}

int
connect(int fd, const struct sockaddr *to, socklen_t size)
{
	int			(*real) (int, const struct sockaddr *, socklen_t);
	const char *ports = getenv("ATP_TEST_PORTS");
	const struct sockaddr_in *v4 = (const struct sockaddr_in *) to;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) to;
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 here6 = {.sin6_family = AF_INET6, .sin6_addr = {{{[10] = 0xff, 0xff, 127, 0, 0, 1}}}};
	int			port;

	*(void **) &real = dlsym(RTLD_NEXT, "connect");
	if (!ports || (to->sa_family != AF_INET && to->sa_family != AF_INET6) ||
		(to->sa_family == AF_INET && (ntohl(v4->sin_addr.s_addr) >> 24) == 127) ||
		(to->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)))
		return real(fd, to, size);

	port = ntohs(to->sa_family == AF_INET ? v4->sin_port : v6->sin6_port);
	while (ports)
	{
		int			from,
					instead;

		if (sscanf(ports, "%d:%d", &from, &instead) == 2 && from == port)
		{
			here.sin_port = here6.sin6_port = htons(instead);
			return to->sa_family == AF_INET ? real(fd, (struct sockaddr *) &here, sizeof(here)) :
				real(fd, (struct sockaddr *) &here6, sizeof(here6));
		}
		ports = strchr(ports, ',');
		ports += ports != NULL;
	}
	errno = ECONNREFUSED;
	return -1;
}
