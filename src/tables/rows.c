/*
 * rows.c
 *		Rows on their way into a table, one column after the other.
 */
#include "postgres.h"

#include "tables/rows.h"

AtpRows *
atp_rows_create(const AtpArrayType *types, int ncolumns, int max)
{
	AtpRows    *rows = palloc0(sizeof(AtpRows));

	rows->ncolumns = ncolumns;
	rows->types = types;
	rows->max = max;
	rows->values = palloc(sizeof(Datum) * ncolumns * Max(max, 1));
	rows->nulls = palloc(sizeof(bool) * ncolumns * Max(max, 1));
	return rows;
}

void
atp_rows_bind(const AtpRows *rows, Datum *args)
{
	for (int c = 0; c < rows->ncolumns; c++)
		args[c] = atp_array(rows->types[c], rows->values + c * rows->max,
							rows->nulls + c * rows->max, rows->n);
}
