/*
 * capture.h
 *		A capture file in memory: repeated [u32 big-endian length][message],
 *		plain or gzip.
 */
#ifndef SRV_CAPTURE_H
#define SRV_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Message
{
	const uint8_t *data;
	size_t		len;

	/*
	 * Its seq; a message without one has the seq of the message before it.  In a
	 * capture where no message has a seq: its position, from 1.
	 */
	int64_t		seq;
} Message;

typedef struct Capture
{
	uint8_t    *bytes;
	Message    *msgs;
	size_t		n;
	bool		has_seq;
} Capture;

extern void capture_load(Capture *c, const char *file);

/* Index of the first message with seq >= the given one; c->n when there is none. */
extern size_t capture_find(const Capture *c, int64_t seq);

/* The last seq; 0 in an empty capture. */
extern int64_t capture_last(const Capture *c);

extern void capture_free(Capture *c);

#endif							/* SRV_CAPTURE_H */
