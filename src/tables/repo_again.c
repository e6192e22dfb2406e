/*
 * repo_again.c
 *		Where a dead letter of subscribeRepos stands, by what is in the tables now.
 *
 * The repository's state is locked first: who has it may write the records.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "tables/repo.h"
#include "tables/repo_again.h"
#include "tables/statements.h"
#include "types/types.h"

AtpAgain
atp_again_repos(AtpApply *a, int event)
{
	return atp_repo_states_standing(atp_repo_states_load(a, event, event + 1), event);
}

AtpAgain
atp_again_repos_row(AtpApply *a, int index)
{
	const AtpRecordRow *row = &a->batch->rows[index].record;
	Datum		did = PointerGetDatum(row->did);
	Datum		collection = PointerGetDatum(row->collection);
	Datum		rkey = PointerGetDatum(row->rkey);
	Datum		args[3] = {
		atp_array(ATP_ARRAY_DID, &did, NULL, 1), atp_array(ATP_ARRAY_NSID, &collection, NULL, 1),
		atp_array(ATP_ARRAY_RKEY, &rkey, NULL, 1)
	};
	AtpAgain	standing = ATP_AGAIN_MISSING;

	if (a->sub->settings.keep_records && atp_execute(ATP_SQL_LOCK_RECORD, args, NULL) > 0)
	{
		bool		isnull;
		Datum		rev = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

		standing = !isnull && DatumGetAtpTid(rev) >= row->rev ? ATP_AGAIN_OBSOLETE : ATP_AGAIN_NEW;
		SPI_freetuptable(SPI_tuptable);
	}
	/* a record that is not there needs not be removed */
	else if (a->sub->settings.keep_records && row->action == ATP_DELETE)
		standing = ATP_AGAIN_OBSOLETE;
	return standing;
}
