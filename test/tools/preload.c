/*
 * preload.c
 *		Preloaded into a server by tests (AtprotoTest::Preload): a time of day that
 *		the test sets while the server runs, and a name that no name server
 *		answers for.
 *
 * ATP_TEST_CLOCK names a file with one int64: the seconds that the time of day
 * is off.  The monotonic clock is right.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

int
getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *, struct addrinfo **);

	while (name && strcmp(name, "unanswered.invalid") == 0)
		pause();
	*(void **) &real = dlsym(RTLD_NEXT, "getaddrinfo");
	return real(name, service, hints, result);
}
