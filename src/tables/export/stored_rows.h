/*
 * stored_rows.h
 *		Reads the rows of a repository in the order of paths: the order of the tree, not of the
 *		table's primary key.
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
	uint64		rev;
} AtpStoredRow;

typedef struct AtpStoredRows AtpStoredRows;

/* Begin; rows of collections that the filter does not want are left out. */
extern AtpStoredRows *atp_stored_begin(MemoryContext parent, AtpStatements *set, const AtpSettings *settings,
									   struct varlena *did);

/*
 * The current row, valid until atp_stored_next(); NULL: no more rows.  No session but this may
 * write rows of the repository.
 */
extern const AtpStoredRow *atp_stored_row(AtpStoredRows *s);
extern void atp_stored_next(AtpStoredRows *s);

/*
 * The caller has handled this path, of the tree or of a row, and all paths before, and may have
 * written rows there: these rows will not be read.  Paths must be passed in order.
 */
extern void atp_stored_pass(AtpStoredRows *s, AtpBytes path);

/*
 * Close the portal before the transaction ends.  The next atp_stored_row() continues behind the
 * last passed path.
 */
extern void atp_stored_rest(AtpStoredRows *s);

#endif							/* ATP_STORED_ROWS_H */
