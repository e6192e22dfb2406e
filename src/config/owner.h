/*
 * owner.h
 *		Owners of subscriptions: who may be one, what keeps them from being
 *		dropped, and acting for one.
 */
#ifndef ATP_OWNER_H
#define ATP_OWNER_H

#include "postgres.h"

/* An ERROR unless the current user may lend this role's rights to a consumer. */
extern void atp_owner_check(Oid role);

/* See to it that the role has been noted as an owner; for what came without triggers. */
extern void atp_owner_note(Oid role);

/* The owner of a data table of this schema; an ERROR unless the current user has his rights. */
extern Oid	atp_owner_of_table(const char *target, const char *name);

/*
 * A function that acts for an owner, whoever calls it, does so in two nested
 * stretches, with SPI connected.  An ERROR in one of them ends both.
 *
 * In the outer one it works with the caller's rights: names mean the same whatever
 * his search_path is, and no trigger waits for the transaction's end, where it
 * would run with his rights.
 *
 * In the inner one it works with the owner's rights, and nothing of what his
 * triggers set stays.
 */
typedef struct AtpCaller
{
	Oid			user;
	int			security;
	int			nest;
} AtpCaller;

/*
 * The search_path of all that is done for somebody.  What is temporary comes last: where it is not
 * named, types and tables are looked for there first, and anybody can make a type pg_temp.text
 * whose check would run with the rights of whoever casts to text.
 */
#define ATP_SEARCH_PATH	"pg_catalog, pg_temp"

extern int	atp_caller_begin(void);
extern void atp_caller_end(int nest);
extern AtpCaller atp_owner_begin(Oid owner);
extern void atp_owner_end(AtpCaller caller);

#endif							/* ATP_OWNER_H */
