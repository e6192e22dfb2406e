/*
 * made_account.h
 *		Accounts of a network of any size, for measurements: what an account has written follows from its number.
 */
#ifndef MADE_ACCOUNT_H
#define MADE_ACCOUNT_H

#include "made_repo.h"

typedef struct MadeNetwork
{
	uint64_t	accounts;
	uint64_t	records;		/* of each account at first: half likes, the others posts and follows */
	uint64_t	first_like;		/* the number of the first like after these: records, or more */
	bool		spread;			/* DIDs are those of made_spread_did() */
} MadeNetwork;

/* Writes the DID of an account. */
extern void made_account_did(const MadeNetwork *network, uint64_t account, char did[MADE_DID_LEN + 1]);

/* The number in a DID that is not spread; at least network->accounts if the DID is another. */
extern uint64_t made_account_of(const MadeNetwork *network, const char *did, size_t len);

/* The revision of an account that has liked so often since. */
extern uint64_t made_account_rev(const MadeNetwork *network, uint64_t account, uint64_t likes);

/* Build the repository of that revision, with its commit.  Returns the place of the account's newest like among its blocks. */
extern size_t made_account_build(MadeRepo *repo, const MadeNetwork *network, uint64_t account, uint64_t likes);

#endif							/* MADE_ACCOUNT_H */
