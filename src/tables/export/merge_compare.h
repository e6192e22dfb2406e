/*
 * merge_compare.h
 *		Compares the records of an export's tree with the rows of a repository, both in the order of paths
 *		for the merge, for a fetch that asks for values (P-22), and for audits that only compare.
 *
 * Call as the subscription's owner, with SPI connected.  A fault of the export raises an ERROR.
 */
#ifndef ATP_MERGE_COMPARE_H
#define ATP_MERGE_COMPARE_H

#include "tables/export/export.h"
#include "tables/export/stored_rows.h"

/* Where the current path is. */
typedef enum AtpCompared
{
	ATP_COMPARED_END,			/* tree and table are at their ends */
	ATP_COMPARED_INVALID,		/* in the tree; B-65: it is not a record's path, so no row can have it */
	ATP_COMPARED_UNWANTED,		/* in the tree, of a collection that the filter does not want */
	ATP_COMPARED_TREE,			/* only in the tree */
	ATP_COMPARED_TABLE,			/* only in the table */
	ATP_COMPARED_BOTH
} AtpCompared;

typedef struct AtpMergeCompare
{
	const AtpSettings *settings;
	AtpExport  *export;
	AtpExportState state;
	AtpExportRecord record;		/* of the tree, unless the path is only in the table, or END */
	AtpStoredRows *rows;
} AtpMergeCompare;

/* Begin at the first path.  Memory is a child of parent. */
extern void atp_compare_begin(AtpMergeCompare *c, MemoryContext parent, AtpStatements *set, const AtpSettings *settings,
							  AtpExport *e, struct varlena *did);

/* The current path; *row: its row, valid until atp_compare_next(), if the path is in the table. */
extern AtpCompared atp_compare_look(AtpMergeCompare *c, const AtpStoredRow **row);

/*
 * Go on behind the current path, which was found to be there.  A row that the caller has written at this path, or
 * before, is not read any more.
 */
extern void atp_compare_next(AtpMergeCompare *c, AtpCompared where);

/*
 * Do record and row agree?  A row that is newer than the export came from an export that was given up, or the export is
 * forced: such a row gets the export's revision, because a row that is newer than the repository would not take the next
 * commits.
 */
extern bool atp_compare_is_same(const AtpMergeCompare *c, const AtpStoredRow *row);

/* Close the portal before the transaction ends; the next one continues at the current path. */
extern void atp_compare_rest(AtpMergeCompare *c);

#endif							/* ATP_MERGE_COMPARE_H */
