/*
 * made_account.c
 *		Accounts of a network of any size: see made_account.h.
 */
#include <string.h>

#include "made_account.h"

void
made_account_did(const MadeNetwork *network, uint64_t account, char did[MADE_DID_LEN + 1])
{
	if (network->spread)
		made_spread_did(account, did);
	else
		made_did(account, did);
}

uint64_t
made_account_of(const MadeNetwork *network, const char *did, size_t len)
{
	char		again[MADE_DID_LEN + 1];
	uint64_t	account = 0;

	if (len != MADE_DID_LEN)
		return network->accounts;
	for (size_t i = len; i-- > 8;)
		account = account << 5 | (uint64_t) (did[i] >= 'a' ? did[i] - 'a' + 6 : did[i] - '2');
	made_did(account, again);
	return memcmp(did, again, len) == 0 ? account : network->accounts;
}

/* Accounts begin at different moments, so that their keys differ. */
static uint64_t
tid(uint64_t account, uint64_t n)
{
	uint64_t	state = account;

	return MADE_FIRST_TID + (made_number(&state) & 0xffffffff) + n * MADE_TID_STEP;
}

uint64_t
made_account_rev(const MadeNetwork *network, uint64_t account, uint64_t likes)
{
	return tid(account, network->first_like + likes);
}

static void
add_record(MadeRepo *repo, MadeCollection collection, uint64_t account, uint64_t n)
{
	uint64_t	state = account << 16 | n;

	made_repo_add(repo, collection, tid(account, n), &state);
}

size_t
made_account_build(MadeRepo *repo, const MadeNetwork *network, uint64_t account, uint64_t likes)
{
	uint64_t	first_post = (network->records + 1) / 2;
	uint64_t	first_follow = network->records - network->records / 4;
	char		did[MADE_DID_LEN + 1];

	made_repo_begin(repo);
	for (uint64_t n = 0; n < first_post; n++)
		add_record(repo, MADE_LIKE, account, n);
	for (uint64_t n = 0; n < likes; n++)
		add_record(repo, MADE_LIKE, account, network->first_like + n);
	for (uint64_t n = first_post; n < network->records; n++)
		add_record(repo, n < first_follow ? MADE_POST : MADE_FOLLOW, account, n);
	made_account_did(network, account, did);
	made_repo_commit(repo, did, made_account_rev(network, account, likes));
	return first_post + likes - 1;
}
