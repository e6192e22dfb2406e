/*
 * stored_rows.h
 *		The rows of a repository in the order of their paths, which is that of the
 *		tree and not that of the table's key.
 */
#ifndef ATP_STORED_ROWS_H
#define ATP_STORED_ROWS_H

#include "core/repo/mst.h"
#include "tables/base/sink.h"

typedef struct AtpStoredRow
{
	AtpBytes	path;
	struct varlena *collection;
	struct varlena *rkey;
	AtpBytes	cid;
} AtpStoredRow;

typedef struct AtpStoredRows AtpStoredRows;

/* Those of collections that the filter wants. */
extern AtpStoredRows *atp_stored_begin(MemoryContext parent, AtpStatements *set, const AtpSettings *settings,
									   struct varlena *did);

/*
 * The one that is next, valid until atp_stored_next(); NULL: there are no more.
 * Nobody else may write rows of this repository.
 */
extern const AtpStoredRow *atp_stored_row(AtpStoredRows *s);
extern void atp_stored_next(AtpStoredRows *s);

/*
 * The caller has dealt with this path, of the tree or of a row, and with all before it, and may have
 * written rows there: none of these is read.  The paths that are passed come in their order.
 */
extern void atp_stored_pass(AtpStoredRows *s, AtpBytes path);

/* Before the transaction ends.  The next one reads on behind the path that was passed last. */
extern void atp_stored_rest(AtpStoredRows *s);

#endif							/* ATP_STORED_ROWS_H */
