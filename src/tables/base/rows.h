/*
 * rows.h
 *		Rows on their way into a table, one column after the other: how
 *		statements take them (an array of each column), and heap.h.
 */
#ifndef ATP_ROWS_H
#define ATP_ROWS_H

#include "postgres.h"

#include "tables/base/statements.h"

typedef struct AtpRows
{
	AtpStatements *set;
	int			ncolumns;
	AtpType		types[ATP_STATEMENT_ARGS];	/* of the columns */
	int			max;
	int			n;				/* complete rows */
	int			column;			/* the next one of the row that is being filled */
	Datum	   *values;			/* max of each column */
	bool	   *nulls;
} AtpRows;

/* Of columns of these types, ATP_TYPE_END after the last one; or of those of a table that are written with each row. */
extern AtpRows *atp_rows_create(AtpStatements *set, const AtpType *types, int max);
extern AtpRows *atp_rows_of(AtpStatements *set, const AtpTable *table, int max);

/* An array of each column. */
extern void atp_rows_bind(const AtpRows *rows, Datum *args);

/* The next column of the row; the last one completes it. */
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

/* A value that is passed by reference; NULL: null. */
static inline void
atp_put_ref(AtpRows *rows, const void *value)
{
	atp_put(rows, PointerGetDatum(value), value == NULL);
}

#endif							/* ATP_ROWS_H */
