/*
 * rows.c
 *		Rows on their way into a table, stored as one array for each column.
 */
#include "postgres.h"

#include "tables/base/rows.h"

static AtpRows *
make_cells(AtpRows *rows, int max)
{
	rows->max = max;
	rows->values = palloc(sizeof(Datum) * rows->ncolumns * Max(max, 1));
	rows->nulls = palloc(sizeof(bool) * rows->ncolumns * Max(max, 1));
	return rows;
}

AtpRows *
atp_rows_create(AtpStatements *set, const AtpType *types, int max)
{
	AtpRows    *rows = palloc0(sizeof(AtpRows));

	rows->set = set;
	for (; types[rows->ncolumns] != ATP_TYPE_END; rows->ncolumns++)
	{
		Assert(rows->ncolumns < ATP_STATEMENT_ARGS);
		rows->types[rows->ncolumns] = types[rows->ncolumns];
	}
	return make_cells(rows, max);
}

AtpRows *
atp_rows_of(AtpStatements *set, const AtpTable *table, int max)
{
	AtpRows    *rows = palloc0(sizeof(AtpRows));
	const AtpColumn **columns = atp_row_columns(table, &rows->ncolumns);

	Assert(rows->ncolumns <= ATP_STATEMENT_ARGS);
	rows->set = set;
	for (int i = 0; i < rows->ncolumns; i++)
		rows->types[i] = columns[i]->type;
	return make_cells(rows, max);
}

void
atp_rows_bind(const AtpRows *rows, Datum *args)
{
	/* a remainder means: the caller fills another number of columns than the table has */
	Assert(rows->column == 0);
	for (int c = 0; c < rows->ncolumns; c++)
		args[c] = atp_array(rows->set, rows->types[c], rows->values + c * rows->max,
							rows->nulls + c * rows->max, rows->n);
}
