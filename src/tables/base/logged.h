/*
 * logged.h
 *		Data tables that are UNLOGGED, which no subscription may fill.
 *
 * After a crash such a table is empty, and what is in others says that its rows are there: cursors have passed
 * the events, and repositories are synchronized.
 */
#ifndef ATP_LOGGED_H
#define ATP_LOGGED_H

#include "postgres.h"

/* ERROR that stops a subscription if this table, or partition, is UNLOGGED. */
extern void atp_check_table_logged(Oid relid);

/* ERROR likewise if any data table of the schema is, or one of its partitions. */
extern void atp_check_logged(const char *target);

/* The same as a text, palloc'd; NULL: all are logged. */
extern char *atp_logged_fault(const char *target);

/*
 * Where records are in such a table, they may be gone after the next crash, or since the last one: what is known of
 * repositories is not believed before an audit has found their records.  SPI is connected.
 */
extern void atp_distrust_unlogged(const char *target);

#endif							/* ATP_LOGGED_H */
