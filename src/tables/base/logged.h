/*
 * logged.h
 *		UNLOGGED data tables, which no subscription may fill.
 *
 * A crash empties an unlogged table, while logged tables still say that the rows exist: cursors
 * have passed the events, and repositories are marked synchronized.
 */
#ifndef ATP_LOGGED_H
#define ATP_LOGGED_H

#include "postgres.h"

/* ERROR with ATP_ERRCODE_STOP if this table or partition is UNLOGGED. */
extern void atp_check_table_logged(Oid relid);

/* ERROR with ATP_ERRCODE_STOP if a data table of the schema, or a partition of one, is UNLOGGED. */
extern void atp_check_logged(const char *target);

/* The text of the error of atp_check_logged(), palloc'd; NULL: all data tables are logged. */
extern char *atp_logged_fault(const char *target);

/*
 * If the table record, or a partition, is UNLOGGED: mark all synchronized repositories as unproven and request an
 * audit, because records may have been lost in a crash, or may be lost in the next one.  SPI is connected.
 */
extern void atp_distrust_unlogged(const char *target);

#endif							/* ATP_LOGGED_H */
