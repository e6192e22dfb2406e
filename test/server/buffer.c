/*
 * buffer.c
 *		The byte queue, and memory that never comes back NULL.
 */
#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fputs("streamserver: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
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

void
buffer_add(Buffer *b, const void *bytes, size_t n)
{
	if (n == 0)
		return;
	if (b->end + n > b->cap)
	{
		/* First use the room before the head, then ask for more. */
		if (b->head > 0)
		{
			memmove(b->data, b->data + b->head, b->end - b->head);
			b->end -= b->head;
			b->head = 0;
		}
		if (b->end + n > b->cap)
		{
			b->cap = (b->end + n) * 2;
			b->data = xrealloc(b->data, b->cap);
		}
	}
	memcpy(b->data + b->end, bytes, n);
	b->end += n;
}

void
buffer_consume(Buffer *b, size_t n)
{
	b->head += n;
	if (b->head == b->end)
		b->head = b->end = 0;
}

void
buffer_free(Buffer *b)
{
	free(b->data);
	memset(b, 0, sizeof *b);
}
