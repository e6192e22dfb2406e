/*
 * capture.h
 *		A capture file in memory: repeated [u32 big-endian length][message],
 *		plain or gzip.  The messages are frames of DAG-CBOR, or JSON texts.
 */
#ifndef SRV_CAPTURE_H
#define SRV_CAPTURE_H

#include "json.h"

typedef enum Wire
{
	WIRE_CBOR,					/* binary messages: two DAG-CBOR objects */
	WIRE_JETSTREAM,				/* texts of Jetstream's first version */
	WIRE_JSON					/* texts of xrpc.v1.json, which its second speaks */
} Wire;

typedef struct Message
{
	const uint8_t *data;
	size_t		len;

	/*
	 * Its seq; a message without one has the seq of the message before it.  In a
	 * capture where no message has a seq: its position, from 1.
	 */
	int64_t		seq;

	/* Of a text: what filters and cursors look at. */
	int64_t		time_us;
	Slice		kind;			/* commit, identity, ... */
	Slice		did;
	Slice		collection;		/* of a commit */
} Message;

typedef struct Capture
{
	uint8_t    *bytes;
	size_t		mapped;			/* of a file of so many bytes, which is mapped; 0: in memory of their own */
	Message    *msgs;
	size_t		n;
	bool		has_seq;
	Wire		wire;			/* the form of the first message, for all messages */
} Capture;

extern void capture_load(Capture *c, const char *file);

/* Index of the first message with seq >= the given one; c->n when there is none. */
extern size_t capture_find(const Capture *c, int64_t seq);

/* Index of the first text with such a time, or a later one: those after it may be earlier. */
extern size_t capture_find_time(const Capture *c, int64_t time_us);

/* The last seq; 0 in an empty capture. */
extern int64_t capture_last(const Capture *c);

extern void capture_free(Capture *c);

#endif							/* SRV_CAPTURE_H */
