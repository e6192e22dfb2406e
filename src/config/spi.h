/*
 * spi.h
 *		One way to run a statement with parameters, and to read its rows.
 *
 * SPI is connected.  Columns are read by their names and as the types that they
 * should have: where a table or view gives something else that is an ERROR, and
 * so is a NULL that nobody expects.
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

/* An argument of the SQL function that runs. */
#define ATP_FUNCTION_ARG(n, type)	((AtpArg) {PG_GETARG_DATUM(n), (type), PG_ARGISNULL(n)})

extern AtpArg atp_text_arg(const char *value);	/* NULL: a null */
extern AtpArg atp_int4_arg(int32 value);
extern AtpArg atp_int8_arg(int64 value);
extern AtpArg atp_bool_arg(bool value);
extern AtpArg atp_time_arg(TimestampTz value);
extern AtpArg atp_array_arg(Oid element, Datum *values, bool *nulls, int n);	/* nulls: NULL when there are none */

/* A row, of a result or as a trigger has it. */
typedef struct AtpTuple
{
	HeapTuple	tuple;
	TupleDesc	desc;
} AtpTuple;

/* Rows that came back, in memory of their own. */
typedef struct AtpResult
{
	uint64		n;
	SPITupleTable *table;
} AtpResult;

/* Run one that gives no rows; how many it touched.  An ERROR when it fails, or when rules make another of it. */
extern uint64 atp_run(const char *sql, const AtpArg *args, int nargs);

/* As atp_run(), for what a user has asked for in other words: an ERROR does not name the statement. */
extern uint64 atp_run_unnamed(const char *sql, const AtpArg *args, int nargs);

/* Commands, one after the other: Citus sends the nodes the text of a DDL command with all that is beside it, and that may be one only. */
extern void atp_run_each(const char *sql);

/*
 * Around the planning of a kept plan: whether it is for these parameters or for any is not decided by a
 * setting of the role.  Citus can plan nothing whose parameters it does not know.
 */
extern int	atp_planning_begin(void);
extern void atp_planning_end(int nest);

/* Run one that gives rows, and free them. */
extern AtpResult atp_query(const char *sql, const AtpArg *args, int nargs);
extern AtpTuple atp_result_row(AtpResult result, uint64 i);
extern void atp_result_free(AtpResult result);

/*
 * What a set-returning function gives: the rows of a query, which changes nothing.  An ERROR when
 * their columns are not of the function's types.  SPI need not be connected.  keep_plan: the
 * session keeps the plan, while it has no more than a few.
 */
extern void atp_return_query(FunctionCallInfo fcinfo, const char *sql, const AtpArg *args, int nargs, bool keep_plan);

/* A column's number; an ERROR when there is none of this name. */
extern int	atp_column(AtpTuple row, const char *column);

/* Its value, which lives as long as the row does where it is no copy. */
extern Datum atp_get(AtpTuple row, const char *column, Oid type, bool *isnull);
extern bool atp_get_bool(AtpTuple row, const char *column);
extern int32 atp_get_int4(AtpTuple row, const char *column);
extern int64 atp_get_int8(AtpTuple row, const char *column);

/* palloc'd, as its type prints it. */
extern char *atp_get_text(AtpTuple row, const char *column);
extern char *atp_get_text_or_null(AtpTuple row, const char *column);

/* The elements of an array, palloc'd; how many, or -1: a null.  *nulls says which of them are. */
extern int	atp_get_array(AtpTuple row, const char *column, Oid element, Datum **values, bool **nulls);

/* The same value as a parameter. */
extern AtpArg atp_get_arg(AtpTuple row, const char *column, Oid type);

#endif							/* ATP_SPI_H */
