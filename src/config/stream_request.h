/*
 * stream_request.h
 *		The request for a stream: from which position, and which events the server may
 *		leave out.
 */
#ifndef ATP_STREAM_REQUEST_H
#define ATP_STREAM_REQUEST_H

#include "postgres.h"

#include "config/subscription.h"

typedef struct AtpStreamRequest
{
	char	   *target;			/* path and query */
	char	   *hello;			/* a text message for which the server waits; NULL: none */
	bool		url;			/* the operator's URL has parameters of its own, possibly filters */
	bool		collections;	/* the server filters by collections; by dids */
	bool		dids;
} AtpStreamRequest;

/*
 * cursor: as in AtpCursor; 0 asks for the oldest event. dictionary: id of the zstd dictionary for
 * compression; 0: no compression.
 */
extern AtpStreamRequest atp_stream_request(const AtpSubscription *sub, int64 cursor, uint32 dictionary);

#endif							/* ATP_STREAM_REQUEST_H */
