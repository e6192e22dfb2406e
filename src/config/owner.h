/*
 * owner.h
 *		Owners of subscriptions: which roles may own one, protection of owners against
 *		DROP ROLE, and acting with an owner's rights.
 */
#ifndef ATP_OWNER_H
#define ATP_OWNER_H

#include "postgres.h"

/* An ERROR unless the current user may let a consumer act with this role's rights. */
extern void atp_owner_check(Oid role);

/*
 * Ensure that pg_shdepend has an entry for this owner; for rows that came without triggers.  The caller's transaction holds
 * no lock for which a session waits that has changed subscriptions of this owner, such as a cursor's.
 */
extern void atp_owner_note(Oid role);

/* The owner of a data table of this schema; an ERROR unless the current user has the owner's rights. */
extern Oid	atp_owner_of_table(const char *target, const char *name);

/* Has the current user the rights of the owner of this table? */
extern bool atp_has_owners_rights(const char *target, const char *name);

/*
 * Does the role trust the owner of a table anyway?  The owner has the role's rights, or the role is a member of the owner
 * and no superuser.  Membership gives a superuser no rights, so it says nothing about trust.
 */
extern bool atp_owner_is_trusted(Oid role, Oid owner);

/*
 * Of several owners of tables that are read together, the functions in the tables get the rights that all these owners
 * have: then no owner's function gains rights.  Call for each owner, with *narrowest InvalidOid at first.  False: neither
 * the owner nor *narrowest has the other's rights.
 */
extern bool atp_owner_narrow(Oid *narrowest, Oid owner);

/*
 * A function that acts for an owner uses two nested sections, with SPI connected.  An ERROR in a section ends
 * both.
 *
 * atp_caller_begin() begins the outer section, with the caller's rights.  Its search_path is fixed, so names
 * mean the same for every caller.  All constraints are immediate: a deferred trigger of the owner would run
 * at the end of the transaction, with the caller's rights.
 *
 * atp_owner_begin() begins the inner section, with the owner's rights.  Settings that the owner's triggers
 * change are restored at its end.
 */
typedef struct AtpCaller
{
	Oid			user;
	int			security;
	int			nest;
	bool		in_queue;
} AtpCaller;

/*
 * The search_path for all code that acts for a user. pg_temp must be named, and last: an unnamed pg_temp is
 * searched first, so any user could create a type pg_temp.text, whose check would run with the rights of a
 * role that casts to text.
 */
#define ATP_SEARCH_PATH	"pg_catalog, pg_temp"

/*
 * Set the search_path until the section ends that the caller has just begun.  A section with the rights of the extension's
 * owner needs this in a section of another role, too: a trigger of this role may have changed the search_path.
 */
extern void atp_fix_search_path(void);

extern int	atp_caller_begin(void);
extern void atp_caller_end(int nest);
extern AtpCaller atp_owner_begin(Oid owner);
extern void atp_owner_end(AtpCaller caller);

/*
 * Like atp_owner_begin(), for a function that reads or writes data tables with the caller's rights.  The functions that
 * the tables' owner has put into the tables run when somebody uses the tables, so a superuser acts as the owner of the
 * tables in names, which ends with NULL.  Other callers act as themselves.
 */
extern AtpCaller atp_visitor_begin(const char *target, const char *const *names);

/*
 * Waits for rows of the extension's tables (requests for fetches, audits, statuses and look-ups, held events, dead letters).
 *
 * A session that has such a row locked may go on to lock tables that a batch has written to: BEGIN; unsubscribe(); DROP
 * SCHEMA.  If the batch waited for the row, that would be a deadlock.  So while "limited" is set, statements on the
 * extension's tables (atp_as_table_owner()) wait for a short time only, and then raise ERRCODE_LOCK_NOT_AVAILABLE; the
 * caller gives back all locks and tries again.  After an ERROR, in_queue tells whether a statement on the extension's
 * tables has raised the ERROR, rather than a user's trigger.
 */
typedef struct AtpQueueWait
{
	bool		limited;
	bool		in_queue;
} AtpQueueWait;

extern AtpQueueWait atp_queue_wait;

/* Limit the waits of the section that atp_owner_begin() has begun, as the owner of a table of the extension. */
extern void atp_queue_wait_begin(void);

/* Has a wait that was too long for the limit raised this ERROR? */
extern bool atp_queue_wait_failed(int sqlstate);

#endif							/* ATP_OWNER_H */
