/*
 * direct.h
 *		Rows into a table without an SQL statement, where that comes to the same.
 */
#ifndef ATP_DIRECT_H
#define ATP_DIRECT_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "tables/rows.h"
#include "tables/statements.h"

/*
 * SQLSTATE of the ERROR when a row may be there already, or somebody else is
 * writing it: nothing is wrong, the transaction is to be done again with
 * statements, which wait and look.  No user sees it.
 */
#define ATP_ERRCODE_CONFLICT	MAKE_SQLSTATE('A', 'T', '0', '0', '1')

/* A table, and those of its columns that are written; in new rows all others get their defaults. */
typedef struct AtpTable
{
	const char *name;
	const char *const *columns;
	const AtpArrayType *types;
	int			ncolumns;
	bool		keyed;			/* rows are found by the first column, which is unique */
	int			nstatements;
	AtpStatement statements[3]; /* whoever may run these may do the same directly */
} AtpTable;

typedef struct AtpDirect AtpDirect;

/* NULL when it would not come to the same; the statements always do. */
extern AtpDirect *atp_direct_open(const AtpTable *table);
extern void atp_direct_insert(AtpDirect *direct, const AtpRows *rows);

/*
 * The row with this key, as of now: where it lies, and its columns, which stay
 * valid until the next call.  Only of a keyed table.
 */
extern bool atp_direct_find(AtpDirect *direct, Datum key, ItemPointer place, Datum *values, bool *nulls);

/* Replace rows that were found, in this order; a conflict if one has changed since. */
extern void atp_direct_update(AtpDirect *direct, ItemPointer places, const AtpRows *rows);
extern void atp_direct_close(AtpDirect *direct);

#endif							/* ATP_DIRECT_H */
