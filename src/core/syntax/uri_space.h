/*
 * uri_space.h
 *		URIs of spaces (permissioned data, proposal 0016 of 19 August 2026), and of the records in them:
 *		rules S-01, S-02 and S-03.
 *
 *		at://{authority}/space/{type}/{skey}
 *		at://{authority}/space/{type}/{skey}/{author}/{collection}/{rkey}
 *
 * A URI of the general syntax is one of these or not by its text alone; atp_uri_parse() has accepted it before.
 */
#ifndef ATP_URI_SPACE_H
#define ATP_URI_SPACE_H

#include "core/syntax/uri.h"

typedef struct AtpUriSpace
{
	const char *end;			/* the end of the space's URI, in the text */
	AtpSpan		type;			/* an NSID */
	AtpSpan		skey;			/* with the syntax of a record key */
	/* of a record's URI; ptr NULL in the URI of a space */
	AtpSpan		author;			/* a DID */
	AtpSpan		collection;
	AtpSpan		rkey;
} AtpUriSpace;

/* S-01: false if the URI is neither a space's nor that of a record in one.  Query and fragment do not matter. */
extern bool atp_uri_space(const AtpUri *uri, AtpUriSpace *space);

/*
 * S-02: lower-cases what has no case in a path that begins with the segment "space", in place: the domains of its type
 * and collection, as N9, and its author, if the method of the DID is supported.  Escapes have the rules of other segments
 * (N2, N3), which are not those of an authority: in the normal form "%7E" is '~'.  path begins after the first '/'.
 */
extern void atp_uri_space_normalize(char *path, char *end);

#endif							/* ATP_URI_SPACE_H */
