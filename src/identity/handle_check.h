/*
 * handle_check.h
 *		Rows about the check whether a handle claimed by a DID document belongs to the
 *		account (W-23, W-24): which handles are due, and the results in
 *		atproto.identity.  The look-ups themselves are in fetch/identities/task_handle.c.
 *
 * The caller has SPI connected, in a transaction with a snapshot.
 */
#ifndef ATP_HANDLE_CHECK_H
#define ATP_HANDLE_CHECK_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef enum AtpHandleState
{
	ATP_HANDLE_UNKNOWN,
	ATP_HANDLE_VALID,			/* the handle's domain names this account */
	ATP_HANDLE_INVALID,			/* the domain names a different account, or no account */
	ATP_HANDLE_UNREACHABLE		/* the domain gives no answer */
} AtpHandleState;

typedef struct AtpHandleCheck
{
	struct varlena *did;		/* NULL: a look-up, whose handle may name any account */
	char	   *handle;
	AtpHandleState state;
	TimestampTz checked_at;		/* when the domain answered last; DT_NOBEGIN: never */
	TimestampTz next;			/* when the next check is due */
	int			tries;			/* number of results in a row, up to the last, other than "valid" */
	const char *error;			/* why the handle is not valid, for people; NULL: valid */
} AtpHandleCheck;

/* Is there any handle to check, now or later?  (Then the fetcher has work.) */
extern bool atp_handles_are_wanted(void);

/*
 * The handles due for a check, at most max, palloc'd.  *all: some subscription has handles => 'verify', so
 * handles are included although no role requested a check.
 */
extern int	atp_handles_due(TimestampTz now, int max, AtpHandleCheck *due, bool *all);

/*
 * Write the result of a check, unless the document claims a different handle by now; a written result also
 * fulfills the requests for the account's handle.
 */
extern void atp_handle_write(const AtpHandleCheck *check);

/*
 * Look-ups of handles (atproto.handle_lookup): which account does the handle's domain name?  At most max that are due,
 * palloc'd; the roles take turns.
 */
extern int	atp_handle_lookups_due(TimestampTz now, int max, AtpHandleCheck *due);

/* Write the account that the domain names; NULL: none, for the reason check->error. */
extern void atp_handle_lookup_write(const AtpHandleCheck *check, const struct varlena *found);

/* Postpone the check or look-up, because the handle's host may not be asked before then. */
extern void atp_handle_put_off(const AtpHandleCheck *check, TimestampTz until);

#endif							/* ATP_HANDLE_CHECK_H */
