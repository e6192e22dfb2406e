/*
 * source.h
 *		The kinds of streams that there are: each a format, which reads messages,
 *		and a sink, which puts their rows into tables.
 */
#ifndef ATP_SOURCE_H
#define ATP_SOURCE_H

#include "postgres.h"

typedef struct AtpSource
{
	const char *nsid;			/* of the lexicon; NULL: any other */
	const struct AtpFormat *format;
	const struct AtpSink *sink;
	bool		by_repo;		/* events are of repositories (tables repo and record): workers can share them */
	bool		is_signed;		/* what they say is: level full is possible */
} AtpSource;

/* By the stream's NSID; never NULL. */
extern const AtpSource *atp_source_of(const char *nsid);

#endif							/* ATP_SOURCE_H */
