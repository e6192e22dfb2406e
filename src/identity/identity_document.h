/*
 * identity_document.h
 *		How a DID document changes the row of atproto.identity, whether a look-up has brought the document or a log of the
 *		did:plc directory says what the document is (W-10 to W-15, W-33).  These functions read and write no table.
 */
#ifndef ATP_IDENTITY_DOCUMENT_H
#define ATP_IDENTITY_DOCUMENT_H

#include "identity/identity.h"

/* seconds, doubled with each time after the first, up to the limit */
extern double atp_doubled_seconds(double seconds, int times, double limit);

/* Sets the error of the last look-up, shortened; NULL: success. */
extern void atp_identity_set_error(AtpIdentity *identity, const char *error);

/*
 * W-33: the account does not function, and will hardly recover soon: look again after an hour, doubled each time.  Returns
 * true: the look-up is done.
 */
extern bool atp_identity_settle_broken(AtpIdentity *identity, AtpIdentityState state, const char *error, TimestampTz now);

/* Puts a document that holds at "now" into the identity.  Returns true: the look-up is done. */
extern bool atp_identity_take_document(AtpIdentity *identity, const AtpDidDoc *doc, TimestampTz now);

#endif							/* ATP_IDENTITY_DOCUMENT_H */
