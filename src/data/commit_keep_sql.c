/*
 * commit_keep_sql.c
 *		SQL: atproto.commit_block(), the block of a commit from the columns of its repository's row.
 */
#include "postgres.h"

#include "data/commit_keep.h"
#include "fmgr.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_commit_block);

/* SQL: atproto.commit_block(did, rev, data, sig, commit_block) */
Datum
atp_pg_commit_block(PG_FUNCTION_ARGS)
{
	bytea	   *block;

	for (int i = 0; i < 4; i++)
		if (PG_ARGISNULL(i))
			PG_RETURN_NULL();
	block = atp_commit_make(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(0)), DatumGetAtpTid(PG_GETARG_DATUM(1)),
							PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(2)), PG_GETARG_BYTEA_PP(3),
							PG_ARGISNULL(4) ? NULL : PG_GETARG_BYTEA_PP(4));
	if (block == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(block);
}
