/*
 * spi.h
 *		Runs SQL statements with parameters, and reads their rows.
 *
 * SPI must be connected.  Columns are read by name, as an expected type: a column of a different type
 * raises an ERROR, and so does an unexpected NULL.
 */
#ifndef ATP_SPI_H
#define ATP_SPI_H

#include "postgres.h"

#include "catalog/pg_type.h"
#include "datatype/timestamp.h"
#include "executor/spi.h"
#include "fmgr.h"

/* A parameter. */
typedef struct AtpArg
{
	Datum		value;
	Oid			type;
	bool		isnull;
} AtpArg;

/* The parameters of a statement, $1 first. */
#define ATP_ARGS(...)	((const AtpArg[]) {__VA_ARGS__}), (int) lengthof(((const AtpArg[]) {__VA_ARGS__}))
#define ATP_NO_ARGS		NULL, 0

/* An argument of the current SQL function. */
#define ATP_FUNCTION_ARG(n, type)	((AtpArg) {PG_GETARG_DATUM(n), (type), PG_ARGISNULL(n)})

extern AtpArg atp_text_arg(const char *value);	/* NULL: a null */
extern AtpArg atp_int4_arg(int32 value);
extern AtpArg atp_int8_arg(int64 value);
extern AtpArg atp_bool_arg(bool value);
extern AtpArg atp_time_arg(TimestampTz value);
extern AtpArg atp_array_arg(Oid element, Datum *values, bool *nulls, int n);	/* nulls may be NULL when no element is null */

/* A row of a result, or of a trigger. */
typedef struct AtpTuple
{
	HeapTuple	tuple;
	TupleDesc	desc;
} AtpTuple;

/* The rows of a query, in their own memory. */
typedef struct AtpResult
{
	uint64		n;
	SPITupleTable *table;
} AtpResult;

/*
 * Run a statement, discarding its rows; returns the number of rows processed.  An ERROR when the statement
 * fails, or when rules rewrite it into another command.
 */
extern uint64 atp_run(const char *sql, const AtpArg *args, int nargs);

/*
 * Like atp_run(), but an ERROR's context does not show the statement: the user has called a function, and did
 * not write the statement.
 */
extern uint64 atp_run_unnamed(const char *sql, const AtpArg *args, int nargs);

/*
 * Run several commands in order.  Citus sends the complete source text of a DDL command to its
 * nodes, so each command has to be run with a text of its own.
 */
extern void atp_run_each(const char *sql);

/*
 * Call around the planning of a cached plan: plan_cache_mode is "auto" in between, whatever the role has set.
 * Citus cannot plan with unknown parameters, so a forced generic plan would fail.
 */
extern int	atp_planning_begin(void);
extern void atp_planning_end(int nest);

/* Run a query, and read the rows; the caller frees the result. */
extern AtpResult atp_query(const char *sql, const AtpArg *args, int nargs);

/*
 * Run a read-only query with the snapshot of the calling statement, and read the rows; the session keeps the plan (see
 * atp_return_query()).
 */
extern AtpResult atp_query_kept(const char *sql, const AtpArg *args, int nargs);
extern AtpTuple atp_result_row(AtpResult result, uint64 i);
extern void atp_result_free(AtpResult result);

/*
 * Return the rows of a read-only query from a set-returning function.  An ERROR when the columns do not have
 * the function's types.  SPI need not be connected. keep_plan: the session caches the plan, up to a small
 * number of plans.
 */
extern void atp_return_query(FunctionCallInfo fcinfo, const char *sql, const AtpArg *args, int nargs, bool keep_plan);

/* The number of a column; an ERROR when the row has no column of this name. */
extern int	atp_column(AtpTuple row, const char *column);

/* The type of a column; an ERROR when the row has no column of this name. */
extern Oid	atp_column_type(AtpTuple row, const char *column);

/* The value of a column.  A pass-by-reference value lives as long as the row. */
extern Datum atp_get(AtpTuple row, const char *column, Oid type, bool *isnull);

/*
 * The same, without a null, which is an ERROR; copied into the current memory.  The owner of a table may drop a NOT NULL, and a view or
 * a trigger in its place give anything.
 */
extern struct varlena *atp_get_copy(AtpTuple row, const char *column, Oid type);
extern bool atp_get_bool(AtpTuple row, const char *column);
extern bool atp_is_true(AtpTuple row, const char *column);	/* null counts as false */
extern int32 atp_get_int4(AtpTuple row, const char *column);
extern int64 atp_get_int8(AtpTuple row, const char *column);

/* The text form of a value, palloc'd. */
extern char *atp_get_text(AtpTuple row, const char *column);
extern char *atp_get_text_or_null(AtpTuple row, const char *column);

/*
 * The elements of an array, palloc'd.  Returns their number, or -1 for a null array; *nulls tells which
 * elements are null.
 */
extern int	atp_get_array(AtpTuple row, const char *column, Oid element, Datum **values, bool **nulls);

/* A column's value as a parameter. */
extern AtpArg atp_get_arg(AtpTuple row, const char *column, Oid type);

/* Was a procedure called in a transaction block or by a function, so that it cannot commit? */
extern bool atp_call_is_atomic(FunctionCallInfo fcinfo);

#endif							/* ATP_SPI_H */
