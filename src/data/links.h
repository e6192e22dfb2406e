/*
 * links.h
 *		The links of a record, as jsonb or as DAG-CBOR.
 */
#ifndef ATP_LINKS_H
#define ATP_LINKS_H

#include "postgres.h"

#include "core/repo/link.h"
#include "utils/jsonb.h"

/* As atp_link_walk_dagcbor() finds them in what the jsonb was made of. */
extern void atp_link_walk_jsonb(AtpLinkWalk *walk, JsonbContainer *container);

/* Other than ATP_OK: it is no DAG-CBOR, and nothing was found. */
extern AtpErr atp_link_walk_dagcbor(AtpLinkWalk *walk, const uint8_t *buf, size_t n, size_t *at);

#endif							/* ATP_LINKS_H */
