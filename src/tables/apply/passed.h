/*
 * passed.h
 *		Which kinds of rows this process has written since the catalog last changed.
 *
 * suspect.c uses this to decide whether an error is due to a row or to the schema.
 */
#ifndef ATP_PASSED_H
#define ATP_PASSED_H

#include "postgres.h"

typedef enum AtpPassed
{
	ATP_PASSED_PUT,				/* rows of records, labels, messages */
	ATP_PASSED_REMOVED,			/* deletions of records */
	ATP_PASSED_STATE,			/* the other changes of an event: states of repositories */
	ATP_PASSED_KINDS
} AtpPassed;

/* Note that the current user has written rows of this kind into the tables of schema target. */
extern void atp_passed_note(const char *target, AtpPassed kind);

/* Has the current user written rows of this kind, without a later change of any table, function, type, operator, cast, schema or membership? */
extern bool atp_has_passed(const char *target, AtpPassed kind);

#endif							/* ATP_PASSED_H */
