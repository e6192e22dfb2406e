/*
 * run_as_owner.h
 *		What the fetcher does in somebody's tables: with his rights, and not for long.
 *
 * Views, triggers, policies and functions of the owner run in it, whoever he is:
 * they get no rights but his, and cannot keep the fetcher from what it does for
 * others.
 */
#ifndef ATP_RUN_AS_OWNER_H
#define ATP_RUN_AS_OWNER_H

#include "postgres.h"

typedef enum AtpBounded
{
	ATP_BOUNDED_DONE,
	ATP_BOUNDED_LATE,			/* it took too long */
	ATP_BOUNDED_FAILED
} AtpBounded;

/*
 * Does the work in a transaction, SPI connected, as this role, within ms; if that
 * comes to nothing it is undone, and *why says why, in current memory.  Who does not
 * stop when he is cancelled ends the process, some seconds later: so what must not be
 * tried again at once is noted before.
 */
extern AtpBounded atp_bounded(Oid owner, const char *activity, int ms, void (*work) (void *), void *arg, char **why);

/*
 * The time limit alone, for who has a transaction of his own: whatever of this role's
 * runs between these is cancelled after ms.  The end is called after an ERROR, too.
 */
extern void atp_limit_begin(Oid owner, int ms);
extern void atp_limit_end(void);

#endif							/* ATP_RUN_AS_OWNER_H */
