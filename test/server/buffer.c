/*
 * buffer.c
 *		The byte queue.
 */
#include "buffer.h"

#include <stdlib.h>
#include <string.h>

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
