/*
 * identity_answer.h
 *		How the answer to a look-up changes the row of atproto.identity (W-03 to W-08, W-30 to
 *		W-33).  These functions read and write no table, and send no request.
 */
#ifndef ATP_IDENTITY_ANSWER_H
#define ATP_IDENTITY_ANSWER_H

#include "postgres.h"

#include "identity/identity.h"
#include "net/http.h"

/* G to V-41: seconds between two look-ups of the same DID. */
#define ATP_IDENTITY_LEAST_S	60

/* The account that was looked up. */
typedef struct AtpAsked
{
	AtpSpan		did;
	bool		web;
} AtpAsked;

/*
 * Put an answer that came at "now" into the identity.  True: the look-up is done; false: look up
 * again at identity->next_try.
 */
extern bool atp_identity_take(AtpIdentity *identity, AtpAsked asked, const AtpHttpAnswer *answer, TimestampTz now);

/*
 * No server can be asked for this DID, for the reason why.  Always returns true: the look-up is
 * done.
 */
extern bool atp_identity_refuse(AtpIdentity *identity, AtpErr why, TimestampTz now);

#endif							/* ATP_IDENTITY_ANSWER_H */
