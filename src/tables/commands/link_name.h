/*
 * link_name.h
 *		How a function's caller names a source of links: "collection:path".
 */
#ifndef ATP_LINK_NAME_H
#define ATP_LINK_NAME_H

#include "core/atp.h"

typedef struct AtpLinkName
{
	AtpSpan		collection;
	AtpSpan		path;
} AtpLinkName;

/* The parts of a source, which point into the text; an ERROR if the text is no source. */
extern AtpLinkName atp_link_name(const text *source);

#endif							/* ATP_LINK_NAME_H */
