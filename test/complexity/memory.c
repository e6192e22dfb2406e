/*
 * memory.c
 *		Counts the bytes that malloc() has given and free() has not taken back: see memory.h.
 *
 * These functions take the place of those of the C library, in the program that is linked with them or, by
 * LD_PRELOAD, in a server.  Only one thread allocates while a shape is measured.
 */
#include <errno.h>
#include <malloc.h>

#include "memory.h"

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);

static size_t used;
static size_t base;
static size_t peak;

static void *
count(void *p)
{
	if (p != NULL)
		used += malloc_usable_size(p);
	if (used > peak)
		peak = used;
	return p;
}

void *
malloc(size_t n)
{
	return count(__libc_malloc(n));
}

void *
calloc(size_t n, size_t size)
{
	return count(__libc_calloc(n, size));
}

void
free(void *p)
{
	if (p != NULL)
		used -= malloc_usable_size(p);
	__libc_free(p);
}

void *
realloc(void *p, size_t n)
{
	size_t		before = p != NULL ? malloc_usable_size(p) : 0;
	void	   *moved = __libc_realloc(p, n);

	if (moved != NULL || n == 0)
		used -= before;
	return count(moved);
}

void *
memalign(size_t align, size_t n)
{
	return count(__libc_memalign(align, n));
}

void *
aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int
posix_memalign(void **p, size_t align, size_t n)
{
	*p = memalign(align, n);
	return *p != NULL ? 0 : ENOMEM;
}

void
memory_reset(void)
{
	base = peak = used;
}

size_t
memory_peak(void)
{
	return peak - base;
}
