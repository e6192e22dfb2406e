/*
 * jetstream.h
 *		The requests of Jetstream's two versions: cursors, filters, compression.
 */
#ifndef SRV_JETSTREAM_H
#define SRV_JETSTREAM_H

#include "filter.h"

#define JETSTREAM_NSID	"network.bsky.jetstream.subscribeEvents"

typedef struct Jetstream
{
	bool		is;				/* not: another stream, whose start is not ours to find */
	Filter		filter;
	bool		compressed;
	bool		hello;			/* nothing is sent before the client's options */
	int64_t		after;			/* send what comes after this seq */
	const char *told;			/* what a cursor too old gets: "clamped", "OutdatedCursor" */
	const char *error;			/* why it is refused */
	const char *text;
} Jetstream;

/* False: refused with js->error. */
extern bool jetstream_open(Jetstream *js, const Request *r, const Options *o);

extern bool jetstream_wants_dictionary(const Request *r);

/* Answers; how, for the log. */
extern const char *jetstream_dictionary(Buffer *out, const Request *r, const Dictionary *d);

#endif							/* SRV_JETSTREAM_H */
