/*
 * statements.h
 *		Statements on the data tables of one schema, prepared, and arrays to bind
 *		to them.
 */
#ifndef ATP_STATEMENTS_H
#define ATP_STATEMENTS_H

#include "postgres.h"

#include "executor/spi.h"
#include "tables/base/table.h"

/*
 * The statements that its owner has run, with their plans, and the types as they
 * are in this database.  It is of the schema for all its life.
 */
typedef struct AtpStatements AtpStatements;

/* Who runs them: a worker of a subscription, by its number, or somebody else. */
#define ATP_WRITER_OTHER	(-1)

extern AtpStatements *atp_statements_create(const char *schema, int writer);
extern void atp_statements_free(AtpStatements *set);

/* Does anybody in this process have such a set: are tables being filled? */
extern bool atp_statements_in_use(void);

/*
 * ERROR if one of these tables (ATP_USE_...) is missing, or a column or key that
 * its statements need, or if the current user lacks a privilege on one.
 */
extern void atp_statements_check(AtpStatements *set, int uses);

/* Run one; ERROR unless it succeeds.  Needs an open SPI connection.  Returns SPI_processed. */
extern uint64 atp_execute(AtpStatements *set, const AtpStatement *statement, Datum *values, const char *nulls);

/*
 * Of what that gave back, n rows of one DID each: copies; then it is freed.  Returns how
 * many: in a table that somebody has altered they may be null, and are nobody's.
 */
extern int	atp_take_dids(struct varlena **dids, int n);

/* The same for one whose rows are fetched from a cursor, until the transaction ends. */
extern Portal atp_open(AtpStatements *set, const AtpStatement *statement, Datum *values);

/*
 * Whether the table itself is what it reads or writes: not when an extension
 * plans it, which may keep the rows elsewhere.  ERROR if the current user may not
 * run it, as from the executor.  Locks the table.
 */
extern bool atp_statement_is_ordinary(AtpStatements *set, const AtpStatement *statement);

/* The schema, and the writer. */
extern const char *atp_target(const AtpStatements *set);
extern int	atp_writer(const AtpStatements *set);

/* A table there; InvalidOid: there is none. */
extern Oid	atp_target_table(const AtpStatements *set, const char *name);

/* Does Citus keep its rows (distributed.h)? */
extern bool atp_target_is_distributed(AtpStatements *set, const AtpTable *table);

/* The type's OID. */
extern Oid	atp_element(AtpStatements *set, AtpType type);

/* An array Datum of n elements; nulls may be NULL. */
extern Datum atp_array(AtpStatements *set, AtpType type, Datum *values, bool *nulls, int n);

#endif							/* ATP_STATEMENTS_H */
