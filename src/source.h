/*
 * source.h
 *		The kinds of streams that there are: each a format, which reads messages,
 *		and a sink, which puts their rows into tables; and what its servers do otherwise
 *		than others.
 */
#ifndef ATP_SOURCE_H
#define ATP_SOURCE_H

#include "postgres.h"

/* From here on a Jetstream takes a number as a time: microseconds since 1970. */
#define ATP_POSITION_TIME	INT64CONST(1000000000000000)

typedef struct AtpSource
{
	const char *stream;			/* as in AtpEndpoint; NULL: any other NSID */
	const char *format_name;	/* as in atproto.subscription.format */
	const struct AtpFormat *format;
	const struct AtpSink *sink;
	bool		by_repo;		/* events are of repositories (tables repo and record): workers can share them */
	bool		is_signed;		/* what they say is: level full is possible */
	bool		has_chain;		/* F-44: a repository's events say which one was before: level chain is possible */
	bool		is_text;		/* messages are texts; binary ones are texts, compressed */
	const char *subprotocol;	/* of WebSocket, which is asked for; NULL: none */

	/*
	 * Positions are times: several events may have the same, some come late.  A
	 * connection asks for what was so long before the cursor, too (microseconds).
	 * 0: positions increase.
	 */
	int64		rewind;
	int64		oldest;			/* which cursor asks for all that the server has */

	/* what can be said in the request's query; each a parameter's name, or NULL */
	const char *collections;	/* only records of these ... */
	int			collections_max;	/* ... so many at most */
	const char *dids;			/* only events of these repositories */
	int			dids_max;
	const char *hello;			/* that filters will come in a text ("options_update") */
	const char *compress;		/* compression by the dictionary that everybody has */
	const char *dictionary_parameter;	/* or by the one of this number ... */
	const char *dictionary_nsid;	/* ... which this method gives */
} AtpSource;

/*
 * By the stream's name in its endpoint, and by format, which may be NULL.  NULL: there
 * is no such stream in that format.
 */
extern const AtpSource *atp_source_of(const char *stream, const char *format);

#endif							/* ATP_SOURCE_H */
