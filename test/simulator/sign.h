/*
 * sign.h
 *		Signatures of commits, rule B-61: k256 or P-256, 64 bytes, low S.
 */
#ifndef SIM_SIGN_H
#define SIM_SIGN_H

#include "core/repo/commit.h"
#include "network.h"

#define PUBLIC_KEY_LEN	33

/* The signature of a commit whose sig.ptr is NULL, by this account. */
extern void sign_commit(const Account *account, const AtpCommit *commit, uint8_t sig[ATP_COMMIT_SIG_LEN]);

/* The account's key, compressed. */
extern void public_key(const Account *account, uint8_t out[PUBLIC_KEY_LEN]);

#endif							/* SIM_SIGN_H */
