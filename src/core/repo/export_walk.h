/*
 * export_walk.h
 *		The records of an exported repository, in the order of their paths, from
 *		blocks that somebody else keeps: rules.
 *
 * A pull interface: who merges the export with rows takes one record after the
 * other.  That the tree is one (V-23, V-24), and complete, is known at its end,
 * not before.
 */
#ifndef ATP_EXPORT_WALK_H
#define ATP_EXPORT_WALK_H

#include "core/repo/commit.h"
#include "core/repo/mst.h"

/* V-51: in bytes; and what the nodes may have that are read at one time. */
#define ATP_EXPORT_NODE_MAX		1000000
#define ATP_EXPORT_PATH_MAX		4000000

typedef struct AtpExportSource
{
	/*
	 * The block of a node; false when it is absent.  The block belongs to the
	 * source and stays as it is until a node is asked for at that level or at one
	 * with a smaller number.  Levels are 0 to ATP_MST_LEVELS_MAX - 1; so a source
	 * whose blocks are not in memory has a buffer for each level that was used.
	 */
	bool		(*read) (void *ctx, unsigned level, AtpBytes cid, AtpBytes *node);

	/* Is the block of a record there?  NULL: that is known of all. */
	bool		(*has) (void *ctx, AtpBytes cid);
	void	   *ctx;
	uint64_t	blocks;			/* how many there are */
	uint64_t	max_records;
	AtpSha256Fn sha256;
	void	   *sha_ctx;
} AtpExportSource;

typedef struct AtpExportRecord
{
	AtpSpan		path;			/* valid until the next call, as are its parts */
	AtpSpan		collection;		/* ptr NULL: the path is not that of a record (B-65) */
	AtpSpan		rkey;
	AtpBytes	cid;			/* binary; lies in a node */
} AtpExportRecord;

/* Must stay where it is: it points to itself. */
typedef struct AtpExportWalk
{
	AtpExportSource source;
	AtpMstSource nodes;
	AtpMstWalk	mst;
	size_t		held[ATP_MST_LEVELS_MAX];	/* bytes of the node of each level */
	AtpErr		refused;		/* why a node that is there was not taken */
	uint64_t	records;		/* delivered */
} AtpExportWalk;

/*
 * the block of the export's root is a commit of this account.  Its
 * revision and signature are for the caller to judge (atp_sig_cut()).
 */
extern AtpErr atp_export_commit(AtpBytes block, AtpSpan did, AtpCommit *commit, size_t *at);

/* From the root of the tree, which is the commit's data. */
extern AtpErr atp_export_begin(AtpExportWalk *walk, const AtpExportSource *source, AtpBytes data, size_t *at);

/*
 * The next record; ATP_E_MST_END after the last.  *at counts from the start of the node
 * that was read last; walk->mst.last is the path before the fault.
 */
extern AtpErr atp_export_next(AtpExportWalk *walk, AtpExportRecord *record, size_t *at);

#endif							/* ATP_EXPORT_WALK_H */
