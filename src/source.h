/*
 * source.h
 *		The kinds of streams: for each kind a format, which reads messages, a sink,
 *		which puts rows into tables, and the traits in which its servers differ from
 *		others.
 */
#ifndef ATP_SOURCE_H
#define ATP_SOURCE_H

#include "postgres.h"

/* Jetstream takes a cursor from this number on as a time: microseconds since 1970. */
#define ATP_POSITION_TIME	INT64CONST(1000000000000000)

typedef struct AtpStreamKind
{
	const char *stream;			/* as in AtpEndpoint.stream; NULL: any NSID without an entry of its own */
	const char *format_name;	/* as in atproto.subscription.format */
	const struct AtpFormat *format;
	const struct AtpSink *sink;
	bool		by_repo;		/* events belong to repositories (tables repo and record) */
	bool		by_account;		/* events of different accounts do not concern each other, so workers can share the accounts */
	bool		is_signed;		/* events are signed: level full is possible */
	bool		has_chain;		/* F-44: an event names its repository's previous event: level chain is possible */
	bool		is_text;		/* messages are texts; a binary message is a compressed text */
	const char *subprotocol;	/* WebSocket subprotocol to request; NULL: none */

	/*
	 * F-41: for streams whose positions are times: several events may have the same time, and some events come
	 * late.  A connection therefore asks also for the events of this interval before the cursor
	 * (microseconds). 0: positions increase strictly.
	 */
	int64		rewind;
	int64		oldest;			/* the cursor that asks for all events the server still has */

	/* Names of query parameters of the request; NULL: the server has no such parameter. */
	const char *collections;	/* restricts records to some collections ... */
	int			collections_max;	/* ... of which a request may name so many */
	const char *dids;			/* restricts events to some repositories */
	int			dids_max;
	const char *hello;			/* announces that the filters will follow in a text message ("options_update") */
	const char *compress;		/* compression with the well-known dictionary */
	const char *dictionary_parameter;	/* compression with the dictionary of this id ... */
	const char *dictionary_nsid;	/* ... which this XRPC method returns */
	/* M-12: the last part of the path at which the server serves older messages, in pages of lines; NULL: no pages */
	const char *pages;
	const char *archive;		/* the authority of the XRPC methods by which the server's archive is read; NULL: the server has no archive */
} AtpStreamKind;

/* May events of this kind be held? */
static inline bool
atp_stream_kind_holds(const AtpStreamKind *kind)
{
	return kind->is_signed || kind->by_repo;
}

/* SQL: is a row with the columns format and endpoint of a stream with rewind? */
#define ATP_SQL_REWINDS	"format = 'jetstream' AND endpoint LIKE '%/subscribe'"

/*
 * Find a kind of stream by the stream's name (AtpEndpoint.stream) and by format; a NULL format matches any.
 * Returns NULL when no kind has this name and format.
 */
extern const AtpStreamKind *atp_stream_kind_of(const char *stream, const char *format);

#endif							/* ATP_SOURCE_H */
