/*
 * out_repo.h
 *		A repository in the tables, as it is written out again: its signed commit, and its tree, which must be the tree
 *		that the commit signs (O-02, O-03).
 *
 * Call with SPI connected, an active snapshot, and the rights of the caller of the SQL function.  Every way to a
 * file that is not the account's own repository ends with an ERROR.
 */
#ifndef ATP_OUT_REPO_H
#define ATP_OUT_REPO_H

#include "postgres.h"

#include "config/spi.h"
#include "core/repo/mst_root.h"
#include "tables/audit/audit_rows.h"

typedef struct AtpOutRepo
{
	const char *target;
	AtpArg		did;
	const char *did_text;		/* for messages */
	AtpArg		purge_rev;		/* records up to this revision are about to be purged */
	struct varlena *commit;		/* CID of ... */
	bytea	   *block;			/* ... the commit's block */
	struct varlena *data;		/* root of the tree */
	const char *sync;			/* for messages */
} AtpOutRepo;

/* Read the repository's row.  An ERROR when no commit can be made of the row. */
extern void atp_out_repo_read(AtpOutRepo *repo, const char *target, AtpArg did);

/* Called with each record in the order of paths, before it is added to the tree and after; in the end without a record: path.ptr is NULL. */
typedef void (*AtpOutRowFn) (void *ctx, AtpMstBuilder *tree, AtpBytes path, AtpBytes cid, bool added);

/*
 * Build the tree of the rows.  take_node, take_row: see mst_root.h and above; both get ctx.  An ERROR when the root is
 * not the commit's.
 */
extern void atp_out_repo_build(const AtpOutRepo *repo, AtpMstNodeFn take_node, AtpOutRowFn take_row, void *ctx);

/*
 * The block of a record, whose hash is its CID; in the current memory context, or in the row.  An ERROR when neither raw
 * nor value makes this block.
 */
extern AtpBytes atp_out_record(const AtpOutRepo *repo, AtpBytes path, AtpBytes cid, const AtpAuditRow *row);

/*
 * The rows have changed between two readings: only where one snapshot does not hold for both, as on the nodes of Citus.  An
 * ERROR that asks for another call.
 */
pg_noreturn extern void atp_out_changed(const AtpOutRepo *repo);

/* The rows are not those of the commit: an ERROR that says why, as far as the tables tell. */
pg_noreturn extern void atp_out_differs(const AtpOutRepo *repo);

#endif							/* ATP_OUT_REPO_H */
