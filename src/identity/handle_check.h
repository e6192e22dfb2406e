/*
 * handle_check.h
 *		Whether a handle that a DID document claims is the account's (W-23, W-24):
 *		what is known of it in the rows of atproto.identity, and who asks.
 *
 * SPI is connected, in a transaction with a snapshot.
 */
#ifndef ATP_HANDLE_CHECK_H
#define ATP_HANDLE_CHECK_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef enum AtpHandleState
{
	ATP_HANDLE_UNKNOWN,
	ATP_HANDLE_VALID,			/* its domain names this account */
	ATP_HANDLE_INVALID,			/* it names another one, or none */
	ATP_HANDLE_UNREACHABLE		/* it does not say */
} AtpHandleState;

typedef struct AtpHandleCheck
{
	struct varlena *did;
	char	   *handle;
	AtpHandleState state;
	TimestampTz checked_at;		/* when its domain said something; DT_NOBEGIN: never */
	TimestampTz next;			/* when it is to be asked again */
	int			tries;			/* answers in a row, the last one too, that were not "valid" */
	const char *error;			/* why it is not, for people; NULL: it is */
} AtpHandleCheck;

/* Is any handle to be checked, now or at some time? */
extern bool atp_handles_are_wanted(void);

/* Those that are to be checked now, at most so many, palloc'd; *all: also those that nobody asked for (handles => 'verify'). */
extern int	atp_handles_due(TimestampTz now, int max, AtpHandleCheck *due, bool *all);

/* Write what came of one, unless the document claims another one by now; who asked for it has his answer. */
extern void atp_handle_write(const AtpHandleCheck *check);

/* Its host may not be asked before. */
extern void atp_handle_put_off(const AtpHandleCheck *check, TimestampTz until);

#endif							/* ATP_HANDLE_CHECK_H */
