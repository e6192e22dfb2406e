/*
 * links.h
 *		Finds the links of a record (core/repo/link.h), given as jsonb or as
 *		DAG-CBOR.  Both must give the same links with the same paths.
 */
#ifndef ATP_LINKS_H
#define ATP_LINKS_H

#include "postgres.h"

#include "core/repo/link.h"
#include "utils/jsonb.h"

/* Finds the same links as atp_link_walk_dagcbor() in the DAG-CBOR that the jsonb was made from. */
extern void atp_link_walk_jsonb(AtpLinkWalk *walk, JsonbContainer *container);

/* An error: buf is not valid DAG-CBOR, and no link was reported. */
extern AtpErr atp_link_walk_dagcbor(AtpLinkWalk *walk, const uint8_t *buf, size_t n, size_t *at);

#endif							/* ATP_LINKS_H */
