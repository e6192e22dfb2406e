/*
 * statements.h
 *		Prepared statements on the data tables of a schema, and arrays as arguments.
 */
#ifndef ATP_STATEMENTS_H
#define ATP_STATEMENTS_H

#include "postgres.h"

#include "config/subscription.h"
#include "executor/spi.h"
#include "tables/base/table.h"

/*
 * The statements that a caller has run on one schema, with their plans, and the OIDs of the types in this database.
 * The schema stays the same for the whole life of the set.
 */
typedef struct AtpStatements AtpStatements;

/* Number of the subscription's worker that runs the statements; this constant for all processes but workers. */
#define ATP_WRITER_OTHER	(-1)

extern AtpStatements *atp_statements_create(const char *schema, int writer);
extern void atp_statements_free(AtpStatements *set);

/* Does this process have an AtpStatements, that is, are tables being filled right now? */
extern bool atp_statements_in_use(void);

/*
 * ERROR if a table of these uses (ATP_USE_...) is missing, or lacks a column or key needed by the statements, or if
 * the current user lacks a privilege on a table.
 */
extern void atp_statements_check(AtpStatements *set, int uses);

/* Run a statement; ERROR unless the statement succeeds.  Needs an open SPI connection.  Returns SPI_processed. */
extern uint64 atp_execute(AtpStatements *set, const AtpStatement *statement, Datum *values, const char *nulls);

/*
 * Copy the DIDs of the n result rows (one column) of the last statement, and free the result.  Returns how many: the
 * DID may be null in a table that a user has altered, and such a row is left out.
 */
extern int	atp_take_dids(struct varlena **dids, int n);

/* Open a cursor for a statement, whose rows can be fetched until the transaction ends. */
extern Portal atp_open(AtpStatements *set, const AtpStatement *statement, Datum *values);

/*
 * True: the statement reads or writes the table itself.  False: an extension has planned the statement and may keep
 * the rows elsewhere.  ERROR if the current user may not run the statement, as from the executor.  Locks the table.
 */
extern bool atp_statement_is_ordinary(AtpStatements *set, const AtpStatement *statement);

/* The schema, and the number of the writer. */
extern const char *atp_target(const AtpStatements *set);
extern int	atp_writer(const AtpStatements *set);

/*
 * Are the values of records of the type dagcbor?  Asks the catalog, and forgets the plans made for another type: for the
 * begin of a transaction, after the tables have been locked.
 */
extern bool atp_statements_pack(AtpStatements *set);

/* What atp_statements_pack() has found last: the type of the values that statements have returned in this transaction. */
extern bool atp_values_are_packed(const AtpStatements *set);

/*
 * An ERROR that passes, unless the values have the type of which values are made by these settings: a user has changed the
 * column's type since the settings were read.  Locks the table record as an INSERT does, so that the type stays until the end
 * of the transaction.  Another ERROR if a column of values in a table of these uses has another type than the column value of
 * the table record.
 */
extern void atp_require_values(AtpStatements *set, const AtpSettings *settings, int uses);

/* OID of a table in the schema, or InvalidOid. */
extern Oid	atp_target_table(const AtpStatements *set, const char *name);

/* Does Citus keep the table's rows (distributed.h)? */
extern bool atp_target_is_distributed(AtpStatements *set, const AtpTable *table);

/* OID of the type. */
extern Oid	atp_element(AtpStatements *set, AtpType type);

/* An array Datum of n elements; nulls may be NULL. */
extern Datum atp_array(AtpStatements *set, AtpType type, Datum *values, bool *nulls, int n);

#endif							/* ATP_STATEMENTS_H */
