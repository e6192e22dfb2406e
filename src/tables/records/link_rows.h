/*
 * link_rows.h
 *		The links of records into the table link.
 */
#ifndef ATP_LINK_ROWS_H
#define ATP_LINK_ROWS_H

#include "tables/base/sink.h"

/*
 * SQLSTATE of the ERROR when a record has links from a source that the table link_source may lack.
 * Nothing is wrong: the transaction is to be done again after atp_link_sources().  No user sees it.
 */
#define ATP_ERRCODE_SOURCES	MAKE_SQLSTATE('A', 'T', '0', '0', '3')

/*
 * Add the sources that the rows of the batch, and the subscription's settings, bring to the table,
 * as far as there is room; then no flush asks for it any more.  In the transaction that runs ...
 */
extern void atp_link_sources(AtpApply *a);

/* ... or its two steps, in transactions of their own, in which nobody waits for anything else. */
extern void atp_link_sources_name(AtpApply *a);
extern void atp_link_sources_bring(AtpApply *a);

#endif							/* ATP_LINK_ROWS_H */
