/*
 * merge.h
 *		An export into the rows of its repository: rules.
 */
#ifndef ATP_MERGE_H
#define ATP_MERGE_H

#include "tables/export/export.h"
#include "tables/base/sink.h"

/* What became of records. */
typedef struct AtpMerged
{
	int64		created;
	int64		updated;
	int64		deleted;
	int64		same;			/* not touched */
	int64		refused;		/* became dead letters */
} AtpMerged;

typedef struct AtpMerge AtpMerge;

#ifdef ATP_INJECTION_POINTS
extern void atp_merge_init(void);
#else
#define atp_merge_init()	((void) 0)
#endif

/*
 * The export has been checked, and the repository's records are nobody else's
 * until the end.  force: also over rows that are newer.  All of it goes with the parent.
 */
extern AtpMerge *atp_merge_begin(MemoryContext parent, const AtpSubscription *sub, AtpStatements *statements,
								 AtpExport *e, struct varlena *did, bool force);

/* So many rows are written in one statement, or fewer where triggers take their time. */
#define ATP_MERGE_ROWS	2000

/*
 * More of it, in the transaction that runs, as the subscription's owner, with SPI
 * connected: in steps of so many rows, until so many are changed, or it is so late.  False: that was
 * all.  After an ERROR, the transaction being rolled back, it is to be begun anew;
 * what was committed is not done again.
 */
extern bool atp_merge_some(AtpMerge *m, int rows, int64 changes, AtpTime until);

/* It is not gone on with; the transaction in which it was may be over. */
extern void atp_merge_free(AtpMerge *m);

extern AtpMerged atp_merge_done(const AtpMerge *m);

#endif							/* ATP_MERGE_H */
