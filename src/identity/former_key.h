/*
 * former_key.h
 *		Former signing keys of an account of did:plc, by a log that the database follows (M-40).
 *
 * A signature by a former key says little: the holder of a stolen key can sign at any time, and the signer writes the revision,
 * which says when the commit was signed.  So a commit is believed only if something newer confirms the commit: the account's
 * present server (fetch/repositories/repo_signer.c), or the commits that continue its tree (tables/repos/confirm.c).
 *
 * The caller has SPI connected, in a transaction with a snapshot.
 */
#ifndef ATP_FORMER_KEY_H
#define ATP_FORMER_KEY_H

#include "identity/identity.h"

typedef struct AtpFormerKey
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	TimestampTz since;			/* when the operation with this key came ... */
	TimestampTz until;			/* ... and the next operation of the chain */
} AtpFormerKey;

typedef struct AtpFormerKeys
{
	char	   *pds;			/* the account's present server, as in identity.pds; NULL: no server, or no log */
	AtpFormerKey *keys;			/* the latest first */
	int			n;
} AtpFormerKeys;

/*
 * Read the former keys of an account from a log that may answer for the account (identity_log.h); no keys without such a log, after a
 * tombstone, and after a refused operation.  The keys are of the last 200 operations of the chain that holds now: operations
 * nullified by a recovery are left out.
 */
extern AtpFormerKeys atp_former_keys(struct varlena *did);

/* Was the key the account's when a commit of this revision was signed, by the revision's word?  Clocks may differ by 10 minutes. */
extern bool atp_former_key_is_of(const AtpFormerKey *key, uint64 rev);

#endif							/* ATP_FORMER_KEY_H */
