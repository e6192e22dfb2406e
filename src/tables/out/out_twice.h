/*
 * out_twice.h
 *		Finds blocks that stand at several places of a repository, so that a file has each block once (O-01).
 *
 * Nearly all blocks stand at a single place.  A sort of 8 bytes of each CID, bounded in memory, finds the few blocks that may be
 * repeated; the whole CIDs of these few are remembered.
 */
#ifndef ATP_OUT_TWICE_H
#define ATP_OUT_TWICE_H

#include "postgres.h"

#include "core/atp.h"
#include "tables/out/out_repo.h"

typedef struct AtpOutTwice AtpOutTwice;

extern AtpOutTwice *atp_twice_make(void);
extern void atp_twice_free(AtpOutTwice *twice);

/* First, each place of a block. */
extern void atp_twice_note(AtpOutTwice *twice, AtpBytes cid);

/* Then, after the last place.  An ERROR when too many different blocks of the repository stand at several places. */
extern void atp_twice_ready(AtpOutTwice *twice, const AtpOutRepo *repo);

/* Then, at each place in the order of the file: has no place before had the block? */
extern bool atp_twice_is_first(AtpOutTwice *twice, AtpBytes cid);

#endif							/* ATP_OUT_TWICE_H */
