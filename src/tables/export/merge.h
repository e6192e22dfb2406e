/*
 * merge.h
 *		Writes an export into the rows of its repository.
 */
#ifndef ATP_MERGE_H
#define ATP_MERGE_H

#include "tables/export/export.h"
#include "tables/base/sink.h"

/* What happened to the records. */
typedef struct AtpMerged
{
	int64		created;
	int64		updated;
	int64		deleted;
	int64		same;			/* unchanged */
	int64		refused;		/* became dead letters */
} AtpMerged;

typedef struct AtpMerge AtpMerge;

#ifdef ATP_INJECTION_POINTS
extern void atp_merge_init(void);
#else
#define atp_merge_init()	((void) 0)
#endif

/*
 * Begin.  R-53: rows and record_event get the export's revision, and no number of the stream.  The
 * export must be checked, and until the end no consumer may write the repository's
 * records (its events are held).  Newer rows are overwritten, too.  All memory is freed with the
 * parent.
 */
extern AtpMerge *atp_merge_begin(MemoryContext parent, const AtpSubscription *sub, AtpStatements *statements,
								 AtpExport *e, struct varlena *did);

/* Default for the rows that a single statement writes; fewer if triggers are slow. */
#define ATP_MERGE_ROWS	2000

/*
 * continue in the current transaction, as the subscription's owner, with SPI connected: in steps of
 * so many rows, until so many changes were made or this time has come.  False: done.  After an
 * ERROR the caller rolls back and begins a new merge; rows that were committed are equal then and
 * not written again.
 */
extern bool atp_merge_some(AtpMerge *m, int rows, int64 changes, AtpTime until);

/*
 * Write the counts of links (link_count.h) that the merge has changed in the transaction: once, and as the last rows of
 * the transaction, with the rights and settings of atp_merge_some().
 */
extern void atp_merge_counts(AtpMerge *m);

/* Free a merge that does not continue; its last transaction may be over. */
extern void atp_merge_free(AtpMerge *m);

extern AtpMerged atp_merge_done(const AtpMerge *m);

#endif							/* ATP_MERGE_H */
