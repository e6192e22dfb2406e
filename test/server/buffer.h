/*
 * buffer.h
 *		A growing byte queue: bytes go in at the end and out at the head.
 */
#ifndef SRV_BUFFER_H
#define SRV_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "die.h"

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

#endif							/* SRV_BUFFER_H */
