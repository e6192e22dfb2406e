/*
 * commit_keep.h
 *		What the tables keep of a signed commit, so that the commit's block can be made again (O-02).
 */
#ifndef ATP_COMMIT_KEEP_H
#define ATP_COMMIT_KEEP_H

#include "postgres.h"

#include "core/repo/commit.h"

/*
 * The columns sig and commit_block for a commit: the signature, and the block, if the commit has more than the
 * members that the table repo has columns for (NULL: it has not).  Of a block of more than ATP_COMMIT_KEPT_MAX bytes
 * nothing is kept, and commit_block is empty.
 */
extern bytea *atp_commit_keep(AtpBytes sig, AtpBytes block, bool plain, bytea **kept);

/*
 * The block of a commit, made of the columns of its row.  NULL: a commit that was too large to be kept, or sig is not
 * a signature.
 */
extern bytea *atp_commit_make(const struct varlena *did, uint64 rev, const struct varlena *data, const bytea *sig, const bytea *kept);

#endif							/* ATP_COMMIT_KEEP_H */
