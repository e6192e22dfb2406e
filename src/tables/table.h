/*
 * table.h
 *		The data tables that consumers fill, in a schema of the user's choice.
 *
 * They are ordinary tables and no members of the extension: so the user's
 * indexes, triggers, partitions, grants and row security on them are dumped
 * and restored with everything else.
 */
#ifndef ATP_TABLE_H
#define ATP_TABLE_H

#include "postgres.h"

/*
 * Replace, in SQL of ours, # by the quoted schema of the data tables and @ by
 * the quoted schema of our types and operators.  palloc'd.
 */
extern char *atp_expand_sql(const char *sql, const char *target);

/* Make those of the tables that schema target does not have yet; SPI is open. */
extern void atp_create_tables(const char *target);

#endif							/* ATP_TABLE_H */
