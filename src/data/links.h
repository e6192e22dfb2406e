/*
 * links.h
 *		The links of a record that is jsonb.
 */
#ifndef ATP_LINKS_H
#define ATP_LINKS_H

#include "postgres.h"

#include "core/link.h"
#include "utils/jsonb.h"

/* As atp_link_walk_dagcbor() finds them in what the jsonb was made of. */
extern void atp_link_walk_jsonb(AtpLinkWalk *walk, JsonbContainer *container);

#endif							/* ATP_LINKS_H */
