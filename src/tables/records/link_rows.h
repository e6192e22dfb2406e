/*
 * link_rows.h
 *		The links of records in the table link.
 */
#ifndef ATP_LINK_ROWS_H
#define ATP_LINK_ROWS_H

#include "tables/base/sink.h"

/*
 * SQLSTATE of the ERROR when a record has links from a source that the table link_source may lack.  Nothing is wrong:
 * the caller does the transaction again after atp_link_sources().  No user sees this ERROR.
 */
#define ATP_ERRCODE_SOURCES	MAKE_SQLSTATE('A', 'T', '0', '0', '3')

/*
 * Add the sources that the rows of the batch and the subscription's settings need, as far as there is room, in the
 * transaction that is open.  Afterwards no flush raises ATP_ERRCODE_SOURCES.
 */
extern void atp_link_sources(AtpApply *a);

/*
 * The two steps of atp_link_sources(), each for a transaction of its own: a process that waits for an id which such a
 * transaction has inserted holds nothing that the transaction wants next.
 */
extern void atp_link_sources_name(AtpApply *a);
extern void atp_link_sources_bring(AtpApply *a);

#endif							/* ATP_LINK_ROWS_H */
