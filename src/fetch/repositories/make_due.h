/*
 * make_due.h
 *		Makes due, in many tables, rows that wait for a time.
 */
#ifndef ATP_MAKE_DUE_H
#define ATP_MAKE_DUE_H

#include "postgres.h"

/*
 * A kind of rows that wait for their next try: the query finds the rows, the update makes some of them due.
 * Rows that are due, or that sessions have locked, stay as they are.
 */
typedef struct AtpWaiting
{
	const char *find;
	const char *make_due;
} AtpWaiting;

#define ATP_WAITING(table, condition, set) \
	{ \
		"SELECT ctid FROM " table " t WHERE " condition, \
		"UPDATE " table " t SET " set \
		" WHERE ctid = ANY (ARRAY (SELECT ctid FROM " table " t WHERE ctid = ANY ($1) AND " condition " FOR UPDATE SKIP LOCKED))" \
	}

/* Make due all rows of these kinds, in short transactions with this activity, and wake the fetcher. */
extern void atp_make_due(const AtpWaiting *kinds, int n, const char *activity);

#endif							/* ATP_MAKE_DUE_H */
