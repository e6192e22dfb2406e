/*
 * link.h
 *		The tables link and link_source: what records link to, and from where.
 *
 * link is the image of record: a row for each target that record_links() finds in its value,
 * or dagcbor_links() in raw where there is no value, at a path that is a source.  They are the
 * same in content at the end of each transaction that writes both.
 *
 * Nobody has to lock link_source.  Who needs a source that is not there inserts it, ON CONFLICT
 * DO NOTHING, with an id that is free:
 *
 *		the highest of 1 to ATP_LINK_SOURCES_MAX, and 1, when a record brings it
 *		the highest id, ATP_LINK_SOURCES_MAX at least, and 1, when a subscription's "links"
 *		or an operator names it
 *
 * and looks again.  Another who does so at the same time is waited for, since the ids are the
 * same: so the key is what holds the limit.  When there is no free one for what records bring,
 * its links are passed over, and counted.  Sources are never removed, nor their ids given to
 * others: processes remember them.
 *
 * That is a strangers' choice of paths, and a record may bring ATP_LINK_SOURCES_NEW of them.
 */
#ifndef ATP_TABLES_LINK_H
#define ATP_TABLES_LINK_H

#include "tables/table.h"

/* Literals: they are put into SQL. */
#define ATP_LINK_SOURCES_MAX	10000

/* of one record */
#define ATP_LINK_SOURCES_NEW	16

#endif							/* ATP_TABLES_LINK_H */
