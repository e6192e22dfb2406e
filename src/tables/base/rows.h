/*
 * rows.h
 *		Rows on their way into a table, stored as one array for each column.
 *
 * Statements take an array for each column; direct.h reads single cells.
 */
#ifndef ATP_ROWS_H
#define ATP_ROWS_H

#include "postgres.h"

#include "tables/base/statements.h"

typedef struct AtpRows
{
	AtpStatements *set;
	int			ncolumns;
	AtpType		types[ATP_STATEMENT_ARGS];	/* types of the columns */
	int			max;
	int			n;				/* number of complete rows */
	int			column;			/* next column of the unfinished row */
	Datum	   *values;			/* max values for each column */
	bool	   *nulls;
} AtpRows;

/*
 * Rows with columns of these types (the list ends with ATP_TYPE_END), or with the columns of a table that are written
 * with each row.
 */
extern AtpRows *atp_rows_create(AtpStatements *set, const AtpType *types, int max);
extern AtpRows *atp_rows_of(AtpStatements *set, const AtpTable *table, int max);

/* Bind an array for each column. */
extern void atp_rows_bind(const AtpRows *rows, Datum *args);

/* Append the value of the next column; the last column completes the row. */
static inline void
atp_put(AtpRows *rows, Datum value, bool isnull)
{
	int			cell = rows->column * rows->max + rows->n;

	Assert(rows->n < rows->max);
	rows->values[cell] = value;
	rows->nulls[cell] = isnull;
	if (++rows->column == rows->ncolumns)
	{
		rows->column = 0;
		rows->n++;
	}
}

/* Append a value that is passed by reference; a NULL pointer is an SQL null. */
static inline void
atp_put_ref(AtpRows *rows, const void *value)
{
	atp_put(rows, PointerGetDatum(value), value == NULL);
}

#endif							/* ATP_ROWS_H */
