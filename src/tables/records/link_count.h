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

/* Note that the transaction of a has added (removed: -1) so many links. */
extern void atp_link_count_note(AtpApply *a, const struct varlena *target, int32 source, int64 n);

/* Write what was noted.  Called once in a transaction, after all other rows, with the rights to write link. */
extern void atp_link_counts_write(AtpApply *a);

/* Make link_count agree with link; the caller keeps the writers of links out. */
extern void atp_link_counts_rebuild(const char *target);

#endif							/* ATP_LINK_COUNT_H */
