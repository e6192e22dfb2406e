/*
 * record_same.c
 *		Records that a #sync of an archive brings again, unchanged: see record_same.h.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "tables/base/keyset.h"
#include "tables/base/rows.h"
#include "tables/records/record.h"
#include "tables/records/record_same.h"
#include "types/types.h"

/* The caller has locked the repository's row, so no other process changes the record before the transaction ends. */
static const AtpStatement find_same = {
	"SELECT u.n FROM unnest($1, $2, $3, $4, $5) u (did, collection, rkey, cid, n) JOIN #.record r"
	" ON r.did OPERATOR(@.=) u.did AND r.collection OPERATOR(@.=) u.collection AND r.rkey OPERATOR(@.=) u.rkey"
	" WHERE r.cid OPERATOR(@.=) u.cid AND r.rev OPERATOR(@.<=) $6",
	SPI_OK_SELECT,
	{ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_NSID), ATP_ARRAY(ATP_TYPE_RKEY), ATP_ARRAY(ATP_TYPE_CID), ATP_ARRAY(ATP_TYPE_INT4), ATP_TYPE_TID},
	{ATP_TYPE_INT4}, &atp_record_table, ATP_BY_KEY
};

/* Keys and CIDs of the first row of each key, with the places of the rows. */
static AtpRows *
first_rows(AtpStatements *set, AtpRow *const *rows, int n)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_NSID, ATP_TYPE_RKEY, ATP_TYPE_CID, ATP_TYPE_INT4, ATP_TYPE_END};
	AtpKeySet  *keys = atp_keyset_create(n);
	AtpRows    *first = atp_rows_create(set, types, n);

	for (int i = 0; i < n; i++)
	{
		const AtpRecordRow *record = &rows[i]->record;

		if (!atp_keyset_add(keys, (AtpKey) {{record->did, record->collection, record->rkey}}) || record->action == ATP_DELETE)
			continue;
		atp_put_ref(first, record->did);
		atp_put_ref(first, record->collection);
		atp_put_ref(first, record->rkey);
		atp_put_ref(first, record->cid);
		atp_put(first, Int32GetDatum(i), false);
	}
	return first;
}

AtpSameRecords
atp_records_same(AtpApply *a, AtpRow **rows, int n, uint64 rev)
{
	AtpSameRecords same = {0};
	AtpRows    *first;
	Datum		args[ATP_STATEMENT_ARGS];
	uint64		found;

	if (n == 0 || !a->sub->settings.keep_records)
		return same;
	first = first_rows(a->statements, rows, n);
	atp_rows_bind(first, args);
	args[5] = AtpTidGetDatum(rev);
	found = atp_execute(a->statements, &find_same, args, NULL);
	/* a record may have several rows, in a child table (INHERITS) */
	same.rows = palloc(sizeof(AtpRecordRow *) * Max(found, 1));
	for (uint64 i = 0; i < found; i++)
	{
		bool		isnull;
		AtpRow	   *row = rows[DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull))];

		row->known = true;
		same.rows[same.n++] = &row->record;
	}
	SPI_freetuptable(SPI_tuptable);
	return same;
}

void
atp_same_args(AtpStatements *set, AtpSameRecords same, Datum *args)
{
	static const AtpType types[] = {ATP_TYPE_NSID, ATP_TYPE_RKEY, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(set, types, Max(same.n, 1));

	for (int i = 0; i < same.n; i++)
	{
		atp_put_ref(rows, same.rows[i]->collection);
		atp_put_ref(rows, same.rows[i]->rkey);
	}
	atp_rows_bind(rows, args);
}
