/*
 * identity_answer.h
 *		What the answer to a look-up makes of what was known of an account (W-03 to
 *		W-08, W-30 to W-33).  No table, no request.
 */
#ifndef ATP_IDENTITY_ANSWER_H
#define ATP_IDENTITY_ANSWER_H

#include "postgres.h"

#include "identity/identity.h"
#include "net/http.h"

/* G to V-41: no look-up of a DID comes sooner after another one of it. */
#define ATP_IDENTITY_LEAST_S	60

/* Whose document it is that was asked for. */
typedef struct AtpAsked
{
	AtpSpan		did;
	bool		web;
} AtpAsked;

/*
 * The answer came "now".  True: it settles what was asked for; false: it is to be asked for
 * again at identity->next_try.
 */
extern bool atp_identity_take(AtpIdentity *identity, AtpAsked asked, const AtpHttpAnswer *answer, TimestampTz now);

/* There is nobody who could be asked for this DID: why, and likewise. */
extern bool atp_identity_refuse(AtpIdentity *identity, AtpErr why, TimestampTz now);

#endif							/* ATP_IDENTITY_ANSWER_H */
