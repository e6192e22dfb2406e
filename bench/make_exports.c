/*
 * make_exports.c
 *		Exports of repositories that do not exist: make_exports FIRST COUNT RECORDS
 *		HOSTS DIR [RECIPES] writes those of COUNT accounts, from the FIRST on, as
 *		DIR/hN.localhost/DID.car, N from 0 to HOSTS - 1.
 *
 * So many of the records are recipes, half of the remaining ones likes, the others
 * posts and follows: 350 bytes each with its part of the tree.  The same arguments
 * give the same bytes.
 */
#include <stdlib.h>

#include "made_repo.h"

int
main(int argc, char **argv)
{
	bool		complete = argc == 6 || argc == 7;
	uint64_t	first = complete ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t	count = complete ? strtoull(argv[2], NULL, 10) : 0;
	size_t		nrecords = complete ? strtoul(argv[3], NULL, 10) : 0;
	uint64_t	hosts = complete ? strtoull(argv[4], NULL, 10) : 0;
	size_t		recipes = argc == 7 ? strtoul(argv[6], NULL, 10) : 0;
	size_t		others = nrecords - recipes;
	uint64_t	state = 1;
	MadeRepo   *repo;

	if (hosts == 0 || nrecords == 0 || recipes > nrecords)
		made_die("usage: make_exports FIRST COUNT RECORDS HOSTS DIR [RECIPES]");
	repo = made_repo_new(nrecords);
	for (uint64_t account = first; account < first + count; account++)
	{
		char		did[MADE_DID_LEN + 1];

		made_repo_begin(repo);
		for (size_t i = 0; i < nrecords; i++)
			made_repo_add(repo, i >= others ? MADE_RECIPE : i < others / 2 ? MADE_LIKE : i < others / 4 * 3 ? MADE_POST : MADE_FOLLOW, MADE_FIRST_TID + i * MADE_TID_STEP, &state);
		made_did(account, did);
		made_repo_write(repo, account, did, MADE_FIRST_TID + nrecords * MADE_TID_STEP, hosts, argv[5]);
	}
	return 0;
}
