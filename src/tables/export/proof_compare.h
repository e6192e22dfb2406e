/*
 * proof_compare.h
 *		Compares the records of an account's commit with the rows of the table record, and changes nothing (P-50).
 *
 * Call as the owner of the tables, under the lock of the repository's row.  A comparison may go on in a later
 * transaction, if the caller has found that the row's revision is the same.
 */
#ifndef ATP_PROOF_COMPARE_H
#define ATP_PROOF_COMPARE_H

#include "common/clock.h"
#include "tables/export/export.h"
#include "tables/base/sink.h"

#define ATP_PROOF_PATHS		100	/* P-54: differences that are kept by path */

typedef struct AtpProofCounts
{
	int64		records;		/* records of the commit, in the collections */
	int64		missing;		/* P-50: records without a row */
	int64		extra;			/* rows without a record */
	int64		other;			/* rows with a different CID */
	int64		letters;		/* P-44: records without a row, with a dead letter */
	int			npaths;
	char	   *paths[ATP_PROOF_PATHS];
} AtpProofCounts;

typedef struct AtpProofCompare AtpProofCompare;

/* settings: those of the subscription, with the collections that are compared.  The memory is a child of parent. */
extern AtpProofCompare *atp_proof_begin(MemoryContext parent, AtpStatements *set, const AtpSettings *settings, AtpExport *export, struct varlena *did);

/* False: the comparison has ended.  A fault of the export raises an ERROR. */
extern bool atp_proof_some(AtpProofCompare *p, AtpTime until);

extern const AtpProofCounts *atp_proof_counts(const AtpProofCompare *p);

extern void atp_proof_free(AtpProofCompare *p);

#endif							/* ATP_PROOF_COMPARE_H */
