/*
 * admission_after.h
 *		Verdicts at level full by what is known of who should have signed: the same for
 *		accounts' commits (judge.h) and labelers' labels (label_judge.h).
 *
 * An event here is what is judged and held as one, be it in a batch or a part of such a one.
 */
#ifndef ATP_ADMISSION_AFTER_H
#define ATP_ADMISSION_AFTER_H

#include "identity/identity.h"
#include "tables/base/sink.h"

extern void atp_judged_ignore(AtpEvent *event, AtpSkip skip);
extern void atp_judged_hold(AtpEvent *event, AtpWhyHeld why);

/* Is it held, and comes from the stream? */
extern bool atp_judged_waits_from_now(const AtpEvent *event);
extern void atp_judged_wish(AtpEvent *event, bool refresh);

/* Has its identity been read since it began to wait? */
extern bool atp_judged_was_answered(const AtpEvent *event, const AtpIdentity *who);

/* W-31: has an #identity of the event's own stream, or of one of the same owner, made the key doubtful? */
extern bool atp_judged_is_doubtful(const AtpApply *a, const AtpEvent *event, const AtpIdentity *who);

/*
 * Is there a key that can be asked?  False: the verdict is that it waits for one, or is ignored
 * where there is none.
 */
extern bool atp_judged_known(const AtpApply *a, AtpEvent *event, const AtpIdentity *who, TimestampTz now);

/* Is it signed with this key?  What is NULL is signed by nobody. */
extern bool atp_signed_fits(AtpSigned *s, const uint8_t key[ATP_MULTIKEY_LEN]);

/* The verdict by the answer. */
extern void atp_judged_signed(AtpEvent *event, const AtpIdentity *who, bool fits);

/* The key that was tried last, as text; palloc'd. */
extern const char *atp_signed_key(const AtpSigned *s);

/* A dead letter about what nobody has signed, of the event that it came with; text is palloc'd in the batch's memory. */
extern AtpLetter *atp_judged_letter(AtpBatch *batch, const AtpEvent *event, struct varlena *did, const char *text);

/* For qsort() of pointers to events: by their DIDs. */
extern int	atp_judged_compare(const void *a, const void *b);

/* What follows from the verdicts besides rows and letters: they are held, identities are asked for. */
extern void atp_judged_conclude(AtpApply *a, AtpEvent *const *events, int n);

#endif							/* ATP_ADMISSION_AFTER_H */
