/*
 * stream_request.h
 *		What a stream's server is asked for: from where on, and what it shall leave
 *		out by itself.
 */
#ifndef ATP_STREAM_REQUEST_H
#define ATP_STREAM_REQUEST_H

#include "postgres.h"

#include "config/subscription.h"

typedef struct AtpStreamRequest
{
	char	   *target;			/* path and query */
	char	   *hello;			/* a text that the server waits for; NULL: none */
	bool		url;			/* the operator's URL has parameters of its own, which may be filters */
	bool		collections;	/* what the server filters by: the rest is done here */
	bool		dids;
} AtpStreamRequest;

/*
 * cursor: as in AtpCursor; 0 asks for the oldest.  dictionary: by which zstd
 * dictionary messages may be compressed; 0: they may not.
 */
extern AtpStreamRequest atp_stream_request(const AtpSubscription *sub, int64 cursor, uint32 dictionary);

#endif							/* ATP_STREAM_REQUEST_H */
