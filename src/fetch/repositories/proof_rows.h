/*
 * proof_rows.h
 *		Rows of atproto.proof_result: which accounts are to be compared, and what was found (P-50 to P-54).
 *
 * Call in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_PROOF_ROWS_H
#define ATP_PROOF_ROWS_H

#include "config/subscription.h"
#include "tables/base/proved_set.h"
#include "tables/export/proof_compare.h"

typedef struct AtpProofJob
{
	char	   *target;
	struct varlena *did;
	char	   *did_text;
	char	   *subscription;
	char	   *server;			/* scheme and host of the account's server */
	AtpProvedSet set;			/* the collections that are compared */
	Oid			owner;			/* of the subscription */
} AtpProofJob;

/* Is any account to be compared within the next minute? */
extern bool atp_proofs_wanted(void);

/* Determine the hosts of accounts, or ask for the accounts' identities.  Returns the number of accounts. */
extern int	atp_proofs_place(int max);

/* Accounts that are due, without the accounts of these hosts and owners, in the current memory context. */
extern List *atp_proofs_due(char **hosts, int nhosts, const Oid *owners, int nowners, int max);

/*
 * No fault of the account: tried again, after a longer pause each time.  If this goes on for ten minutes, the reason is written as
 * for a failure, so that nobody waits for the account any longer.
 */
extern void atp_proof_later(const AtpProofJob *job, const char *reason);

/*
 * The try has failed: tried again later, after a longer pause each time.  reason: by which accounts are counted together
 * (P-52): without URL and account.  asked: false: the account's server rests, and was not asked: what the server said to an
 * earlier try stays.
 */
extern void atp_proof_failed(const AtpProofJob *job, const char *reason, const char *error, bool asked);

/*
 * The rows were compared with the commit of this revision; stored: the revision of the repository's row.  Writes the
 * result, or keeps differences open that the stream may still bring (P-51).  Called as any role.  Returns whether
 * differences are final.
 */
extern bool atp_proof_settle(const AtpProofJob *job, uint64 rev, uint64 stored, const AtpProofCounts *counts);

#endif							/* ATP_PROOF_ROWS_H */
