/*
 * mst_build.h
 *		A builder of Merkle search trees.
 */
#ifndef ATP_MST_BUILD_H
#define ATP_MST_BUILD_H

#include "core/codec/cid.h"

typedef struct AtpMstItem
{
	AtpBytes	key;
	AtpBytes	value;
	unsigned	height;			/* set by atp_mst_build() */
} AtpMstItem;

/* Called with each block of a new tree, children before their parents. */
typedef void (*AtpBlockFn) (void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN],
							const uint8_t *block, size_t n);

/*
 * Build the tree of n items, sorted by key and unique.  scratch must hold the
 * nodes of one path from the root; ATP_E_MST_ROOM when it does not.
 */
extern AtpErr atp_mst_build(AtpMstItem *items, size_t n, AtpSha256Fn sha256, void *sha_ctx,
							uint8_t *scratch, size_t room,
							AtpBlockFn emit, void *emit_ctx,
							uint8_t root[ATP_CID_BLESSED_LEN]);

#endif							/* ATP_MST_BUILD_H */
