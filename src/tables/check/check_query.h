/*
 * check_query.h
 *		Runs a query of check(): the caller's rights on the relations, the rights of the tables' owner for
 *		what the owner has put into the tables.
 */
#ifndef ATP_CHECK_QUERY_H
#define ATP_CHECK_QUERY_H

#include "executor/tuptable.h"

/*
 * Run a SELECT with the parameter $1 of type name, in the active snapshot, and hand each row to the function.  whole: the
 * query reads whole tables, with the links in their records.  *foreign: whether the query reads tables of a role that the caller does not trust; also set when the query fails.  An ERROR with
 * SQLSTATE 42501 if such a query cannot be run with the rights of a single owner.
 */
extern void atp_check_query(const char *sql, Datum target, bool isnull, bool whole, bool *foreign,
							void (*row) (void *arg, TupleTableSlot *slot), void *arg);

#endif							/* ATP_CHECK_QUERY_H */
