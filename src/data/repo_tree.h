/*
 * repo_tree.h
 *		The tree of a repository from its records (V-45), in memory that grows with its
 *		widest nodes; and whether a record is what its CID says (V-46).
 */
#ifndef ATP_REPO_TREE_H
#define ATP_REPO_TREE_H

#include "postgres.h"

#include "core/repo/mst_root.h"
#include "utils/jsonb.h"

/* In the current memory; without records. */
extern AtpMstBuilder *atp_tree_make(void);
extern void atp_tree_free(AtpMstBuilder *tree);

/* Another repository's, in the room of the one before. */
extern void atp_tree_begin(AtpMstBuilder *tree);

/* The next record in the order of paths.  False: with it, or one before, this is no tree. */
extern bool atp_tree_add(AtpMstBuilder *tree, AtpBytes path, AtpBytes cid);

/* A cidlink.  NULL: it is no tree. */
extern struct varlena *atp_tree_root(AtpMstBuilder *tree);

/* Has what is there of a record, value or bytes or both, this CID?  NULL: it is not there. */
extern bool atp_record_fits(AtpBytes cid, Jsonb *value, const bytea *raw);

#endif							/* ATP_REPO_TREE_H */
