/*
 * log.h
 *		The log of connections: JSON lines without times, for tests to read.
 */
#ifndef SRV_LOG_H
#define SRV_LOG_H

#include "http.h"

typedef struct Tally
{
	int64_t		messages;		/* sent (written to the output buffer) */
	int64_t		first_seq;
	int64_t		last_seq;
	int64_t		pings;			/* got from the client */
	int64_t		pongs;
	int64_t		data;			/* data messages got from the client */
	const char *told;			/* FutureCursor, OutdatedCursor or NULL */
} Tally;

extern void log_open(const char *file);
extern void log_request(int64_t connection, const Request *r);
extern void log_end(int64_t connection, const Tally *t, const char *how);

#endif							/* SRV_LOG_H */
