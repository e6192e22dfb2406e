/*
 * run_as_owner.h
 *		Runs the fetcher's work in a user's tables: with the rights of the tables' owner, and
 *		within a time limit.
 *
 * Views, triggers, policies and functions of any user may run in this work.  Such code gets no
 * rights but the owner's, and cannot keep the fetcher from its work for all owners.
 */
#ifndef ATP_RUN_AS_OWNER_H
#define ATP_RUN_AS_OWNER_H

#include "postgres.h"

typedef enum AtpRunResult
{
	ATP_RUN_DONE,
	ATP_RUN_LATE,				/* the time limit cancelled the work */
	ATP_RUN_FAILED
} AtpRunResult;

/*
 * Run work(arg) in a transaction as this role, SPI connected, within ms milliseconds.  If the work
 * fails, the transaction is rolled back, and *why says why, palloc'd in the current context.  Code
 * that does not stop when cancelled ends the process some seconds later: the caller must already
 * have committed a note of anything that must not be tried again at once.
 */
extern AtpRunResult atp_run_as_owner(Oid owner, const char *activity, int ms, void (*work) (void *), void *arg, char **why);

/*
 * The time limit alone, for callers with a transaction of their own: the role's code that runs
 * between begin and end is cancelled after ms milliseconds.  The caller calls the end after an
 * ERROR, too.
 */
extern void atp_limit_begin(Oid owner, int ms);
extern void atp_limit_end(void);

#endif							/* ATP_RUN_AS_OWNER_H */
