/*
 * link_count.h
 *		The table link_count: how many links there are to a target, from each counted source.
 *
 * A row has as many links as SELECT count(*) FROM link finds for its target and source; a target without links has no
 * row.  The rule holds for sources with link_source.counted, at every commit.  count_links() sets this column and counts
 * the links that are there already, in one transaction that keeps all writers of links out (table_link.h).  A process
 * that changes links adds the difference in the transaction that changes the links.
 *
 * Many transactions change the count of a popular target.  So a transaction sums up all its differences, and writes them
 * once, at its end, in the order of the primary key: so two transactions cannot deadlock, and the lock on a row lasts only
 * for the commit.
 */
#ifndef ATP_LINK_COUNT_H
#define ATP_LINK_COUNT_H

#include "tables/base/sink.h"

#ifdef ATP_INJECTION_POINTS
extern void atp_link_count_init(void);
#else
#define atp_link_count_init()	((void) 0)
#endif

/*
 * Note that the transaction of a has added (removed: -1) so many links.  The function executes no statement, since
 * link_rows.c calls the function while reading the rows of a statement (SPI_tuptable).
 */
extern void atp_link_count_note(AtpApply *a, const struct varlena *target, int32 source, int64 n);

/* Write the noted differences.  The caller has written all other rows of the transaction, and has the right to write link. */
extern void atp_link_counts_write(AtpApply *a);

/* Write the noted differences if their number has reached the limit. */
extern void atp_link_counts_limit(AtpApply *a);

/* Make link_count agree with link; the caller keeps the writers of links out. */
extern void atp_link_counts_rebuild(const char *target);

#endif							/* ATP_LINK_COUNT_H */
