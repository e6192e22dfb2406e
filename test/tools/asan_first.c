/*
 * asan_first.c
 *		Lets AddressSanitizer's runtime start in a server that is not
 *		instrumented.  Preload it after the runtime, built with
 *		-Wl,-z,initfirst.
 *
 * Some of the server's libraries allocate memory in their constructors while
 * they hold a lock of the C library that the runtime needs for its own start.
 * If that allocation is the first of the process, the server hangs.  The
 * constructor of an "initfirst" object runs before all others: an allocation
 * here starts the runtime while no lock is held.
 */
#include <stdlib.h>

__attribute__((constructor))
static void
allocate_once(void)
{
	void	   *volatile p = malloc(1);

	free(p);
}
