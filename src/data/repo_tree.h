/*
 * repo_tree.h
 *		Builds the tree of a repository from its records (V-45), in memory that grows with the widest nodes,
 *		and checks a record against its CID (V-46).
 */
#ifndef ATP_REPO_TREE_H
#define ATP_REPO_TREE_H

#include "postgres.h"

#include "core/repo/mst_root.h"

/* A tree without records, in the current memory context. */
extern AtpMstBuilder *atp_tree_make(void);
extern void atp_tree_free(AtpMstBuilder *tree);

/* Begins another repository's tree in the memory of the present tree. */
extern void atp_tree_begin(AtpMstBuilder *tree);

/* Adds the next record, in the order of paths.  False: the records so far form no tree. */
extern bool atp_tree_add(AtpMstBuilder *tree, AtpBytes path, AtpBytes cid);

/* The root, a cidlink; NULL: the records form no tree. */
extern struct varlena *atp_tree_root(AtpMstBuilder *tree);

/*
 * Do value and bytes of a record both have this CID?  NULL is not compared; false if both are NULL.  packed: the value is a
 * dagcbor, and else a jsonb; a NULL is the null pointer.
 */
extern bool atp_record_fits(AtpBytes cid, Datum value, bool packed, const bytea *raw);

#endif							/* ATP_REPO_TREE_H */
