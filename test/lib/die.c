/*
 * die.c
 *		An end with a message, and memory that never comes back NULL.
 */
#include "die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void
die(const char *fmt,...)
{
	va_list		args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

void *
xrealloc(void *p, size_t n)
{
	void	   *q = realloc(p, n);

	if (q == NULL && n > 0)
		die("out of memory (%zu bytes)", n);
	return q;
}

void *
xcalloc(size_t n, size_t size)
{
	void	   *p = calloc(n, size);

	if (p == NULL)
		die("out of memory (%zu bytes)", n * size);
	return p;
}
