/*
 * export_walk.h
 *		The records of an exported repository, or of some collections of a repository, in the order of their
 *		paths: rules.  The caller keeps the blocks.
 *
 * A pull interface: the caller merges records with rows, one record per call.  Whether the tree is valid
 * (V-23, V-24) and complete is known only at its end: a caller must not act on records as if the export were
 * complete before.
 *
 * P-15: with ranges, the end proves that the tree has no more records in the ranges than were delivered, and
 * that it has none where none was delivered (P-16).  The walk reads each node that can have such a record.
 * P-12: each key of these nodes is greater than the key before, and has the height of its node, so that a
 * search in the tree finds each record of the ranges in these nodes or not at all.  P-13: the walk passes
 * over the other nodes, which need not exist, and of which nothing is known.
 */
#ifndef ATP_EXPORT_WALK_H
#define ATP_EXPORT_WALK_H

#include "core/repo/commit.h"
#include "core/repo/mst.h"

/* V-51: bytes of one node, and of all nodes held at one time. */
#define ATP_EXPORT_NODE_MAX		1000000
#define ATP_EXPORT_PATH_MAX		4000000

/*
 * P-14: limits of nodes in a walk with ranges, absent nodes included: of all; for each record that was found;
 * for each range on each level.  Most nodes have a record of a range.  The ends of a range pass through two
 * nodes of each level, and about a fifth of a tree's nodes have no keys.
 */
#define ATP_EXPORT_NODES_MAX	200000
#define ATP_EXPORT_NODES_EACH	8
#define ATP_EXPORT_NODES_BESIDE	64

typedef struct AtpExportSource
{
	/*
	 * The block of a node; false when it is absent.  The block belongs to the source, and must stay unchanged
	 * until read() is called for the same level or for one with a smaller number.  Levels are 0 to
	 * ATP_MST_LEVELS_MAX - 1: a source whose blocks are not in memory needs a buffer for each level in use.
	 */
	bool		(*read) (void *ctx, unsigned level, AtpBytes cid, AtpBytes *node);

	/* Does the export have a record's block?  NULL: the caller knows that no block is missing. */
	bool		(*has) (void *ctx, AtpBytes cid);
	void	   *ctx;
	uint64_t	blocks;			/* number of blocks in the export */
	uint64_t	max_records;
	AtpSha256Fn sha256;
	void	   *sha_ctx;
	const AtpKeyRange *ranges;	/* P-13: joined ranges; NULL: the whole repository */
	size_t		nranges;
} AtpExportSource;

typedef struct AtpExportRecord
{
	AtpSpan		path;			/* valid until the next call, as are its parts */
	AtpSpan		collection;		/* ptr NULL: the path is not a record's path (B-65) */
	AtpSpan		rkey;
	AtpBytes	cid;			/* binary; lies in a node */
} AtpExportRecord;

/* Must not be moved: the struct contains pointers to itself. */
typedef struct AtpExportWalk
{
	AtpExportSource source;
	AtpMstSource nodes;
	AtpMstWalk	mst;
	size_t		held[ATP_MST_LEVELS_MAX];	/* bytes of the node of each level */
	AtpErr		refused;		/* why read_node() refused a node that the export has */
	uint64_t	records;		/* number of records delivered */
	uint64_t	asked;			/* number of nodes that the walk asked the source for */
} AtpExportWalk;

/*
 * parses the block of the export's root, and checks that the commit is of this account.  The caller
 * judges revision and signature (atp_sig_cut()).
 */
extern AtpErr atp_export_commit(AtpBytes block, AtpSpan did, AtpCommit *commit, size_t *at);

/* Begins at data, the tree's root, which the commit names. */
extern AtpErr atp_export_begin(AtpExportWalk *walk, const AtpExportSource *source, AtpBytes data, size_t *at);

/*
 * The next record; ATP_E_MST_END after the last.  *at counts from the start of the node that was read last;
 * walk->mst.last is the path before the fault.
 */
extern AtpErr atp_export_next(AtpExportWalk *walk, AtpExportRecord *record, size_t *at);

#endif							/* ATP_EXPORT_WALK_H */
