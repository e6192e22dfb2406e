/*
 * repo_tree.c
 *		Builds the tree of a repository from its records (V-45), and checks a record against its CID (V-46):
 *		see repo_tree.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/codec/cid.h"
#include "data/record_value.h"
#include "data/repo_tree.h"
#include "common/sha256.h"
#include "types/types.h"
#include "utils/memutils.h"

void
atp_tree_begin(AtpMstBuilder *tree)
{
	atp_mst_root_begin(tree, tree->buf, tree->room, atp_sha256, NULL);
}

AtpMstBuilder *
atp_tree_make(void)
{
	AtpMstBuilder *tree = palloc(sizeof(AtpMstBuilder));

	tree->room = 4 * ATP_MST_ROOT_SPARE;
	tree->buf = palloc(tree->room);
	atp_tree_begin(tree);
	return tree;
}

void
atp_tree_free(AtpMstBuilder *tree)
{
	pfree(tree->buf);
	pfree(tree);
}

bool
atp_tree_add(AtpMstBuilder *tree, AtpBytes path, AtpBytes cid)
{
	if (tree->room - tree->len < ATP_MST_ROOT_SPARE)
	{
		tree->room *= 2;
		tree->buf = repalloc_huge(tree->buf, tree->room);
	}
	atp_mst_root_leaf(tree, path, cid, atp_mst_height(path.ptr, path.len, atp_sha256, NULL));
	return tree->err == ATP_OK;
}

struct varlena *
atp_tree_root(AtpMstBuilder *tree)
{
	uint8_t		root[ATP_CID_BLESSED_LEN];

	return atp_mst_root_end(tree, root) == ATP_OK ? atp_cidlink_make(root, sizeof(root)) : NULL;
}

static bool
is_of(AtpBytes bytes, AtpBytes cid)
{
	uint8_t		binary[ATP_CID_BLESSED_LEN] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, 32};

	atp_sha256(NULL, bytes.ptr, bytes.len, binary + 4);
	return cid.len == sizeof(binary) && memcmp(cid.ptr, binary, sizeof(binary)) == 0;
}

bool
atp_record_fits(AtpBytes cid, Datum value, bool packed, const bytea *raw)
{
	AtpBytes	block;

	if (raw != NULL && !is_of((AtpBytes) {(const uint8_t *) VARDATA_ANY(raw), VARSIZE_ANY_EXHDR(raw)}, cid))
		return false;
	if (DatumGetPointer(value) == NULL)
		return raw != NULL;
	return atp_record_dagcbor(value, packed, &block) && is_of(block, cid);
}
