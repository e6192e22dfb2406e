/*
 * out_repo.h
 *		A repository in the tables, for a file: the signed commit, and the tree of the rows, whose root must be
 *		the commit's (O-02, O-03).
 *
 * Call with SPI connected, an active snapshot, and the rights of the SQL function's caller.  Wherever a file would differ from
 * the account's repository, the functions raise an ERROR.
 */
#ifndef ATP_OUT_REPO_H
#define ATP_OUT_REPO_H

#include "postgres.h"

#include "common/compat.h"
#include "config/spi.h"
#include "core/repo/mst_root.h"
#include "tables/audit/audit_rows.h"

/* The contents of a value that is not toasted. */
static inline AtpBytes
atp_out_bytes(const struct varlena *value)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

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
 * Raise an ERROR: the rows have changed between two readings.  A snapshot prevents such changes, except on the nodes of Citus.
 */
pg_noreturn extern void atp_out_changed(const AtpOutRepo *repo);

/* Raise an ERROR: the rows differ from the records of the commit.  DETAIL has the reason, as far as the tables tell. */
pg_noreturn extern void atp_out_differs(const AtpOutRepo *repo);

#endif							/* ATP_OUT_REPO_H */
