/*
 * passed.h
 *		Which kinds of rows this process has written since the catalog changed last.
 */
#ifndef ATP_PASSED_H
#define ATP_PASSED_H

#include "postgres.h"

typedef enum AtpPassed
{
	ATP_PASSED_PUT,				/* rows of records, labels, messages */
	ATP_PASSED_REMOVED,			/* deletions of records */
	ATP_PASSED_STATE,			/* what else an event changes: states of repositories */
	ATP_PASSED_KINDS
} AtpPassed;

/* Rows of this kind were written into the tables of a schema, by the current user. */
extern void atp_passed_note(const char *target, AtpPassed kind);

/* Were any, and has no table, function, type, operator, cast, schema or membership been changed since? */
extern bool atp_has_passed(const char *target, AtpPassed kind);

#endif							/* ATP_PASSED_H */
