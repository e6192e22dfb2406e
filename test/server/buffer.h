/*
 * buffer.h
 *		A growing byte queue: bytes go in at the end and out at the head.
 */
#ifndef SRV_BUFFER_H
#define SRV_BUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct Buffer
{
	uint8_t    *data;
	size_t		head;			/* first byte not yet consumed */
	size_t		end;			/* one past the last byte */
	size_t		cap;
} Buffer;

extern void buffer_add(Buffer *b, const void *bytes, size_t n);
extern void buffer_consume(Buffer *b, size_t n);
extern void buffer_free(Buffer *b);

static inline size_t
buffer_len(const Buffer *b)
{
	return b->end - b->head;
}

static inline const uint8_t *
buffer_bytes(const Buffer *b)
{
	return b->data + b->head;
}

/* Memory, or the end of the program with a message. */
extern void *xrealloc(void *p, size_t n);
extern void *xcalloc(size_t n, size_t size);

/* Prints "streamserver: ..." and ends the program. */
extern void die(const char *fmt,...) __attribute__((format(printf, 1, 2), noreturn));

#endif							/* SRV_BUFFER_H */
