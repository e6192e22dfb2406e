/*
 * admission_after.h
 *		Verdicts at level full that depend on the signer's identity.
 *
 * Commits of accounts (admission.h) and labels of labelers (label_judge.h) share these functions.  An
 * AtpEvent here is the unit that is judged and held: an event of a batch, or one labeler's part of a
 * message.
 */
#ifndef ATP_ADMISSION_AFTER_H
#define ATP_ADMISSION_AFTER_H

#include "identity/identity.h"
#include "tables/base/sink.h"

extern void atp_admission_ignore(AtpEvent *event, AtpSkip skip);
extern void atp_admission_hold(AtpEvent *event, AtpWhyHeld why);

/* Was the event received from the stream (not read from atproto.held_event), with the verdict held? */
extern bool atp_admission_waits_from_now(const AtpEvent *event);

/* Request a look-up of the account's identity; refresh: even if the identity is known. */
extern void atp_admission_request_identity(AtpEvent *event, bool refresh);

/* Has a look-up of the signer's identity succeeded since the event began to wait? */
extern bool atp_admission_was_answered(const AtpEvent *event, const AtpIdentity *who);

/* W-31: has an #identity event made the key doubtful for the owner of the subscription that received the event? */
extern bool atp_admission_is_doubtful(const AtpApply *a, const AtpEvent *event, const AtpIdentity *who);

/*
 * Is there a key to check the signature with?  False: the function has set the verdict, which is held if a key
 * may still come, or ignored if the identity is broken.
 */
extern bool atp_admission_has_key(const AtpApply *a, AtpEvent *event, const AtpIdentity *who, TimestampTz now);

/* Was the signature made with this key?  False for NULL: there is no signature. */
extern bool atp_signed_fits(AtpSigned *s, const uint8_t key[ATP_MULTIKEY_LEN]);

/* Set the verdict by the result of the signature check. */
extern void atp_admission_by_signature(AtpEvent *event, const AtpIdentity *who, bool fits);

/* The last key with which the signature was checked, in hex; palloc'd. */
extern const char *atp_signed_key(const AtpSigned *s);

/* Add a dead letter of stage signature to the batch.  The caller has allocated the text in the batch's memory. */
extern AtpDeadLetter *atp_admission_dead_letter(AtpBatch *batch, const AtpEvent *event, struct varlena *did, const char *text);

/* Comparator of qsort() for pointers to events: by DID. */
extern int	atp_admission_compare_dids(const void *a, const void *b);

/* Write the results of the verdicts other than rows and dead letters: held events, and requests for identities. */
extern void atp_admission_write(AtpApply *a, AtpEvent *const *events, int n);

#endif							/* ATP_ADMISSION_AFTER_H */
