/*
 * record.c
 *		The table record, and the removal of records with their accounts.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "tables/base/derived.h"
#include "tables/records/record.h"
#include "types/types.h"
#include "utils/memutils.h"

/* At most this many records of a deleted account are removed together with the account's event, or in one purge. */
#define PURGE_MAX	10000

/* At most this many records that an unfinished export has left are removed together with the account's event. */
#define EXPORT_MAX	30000

static const AtpColumn columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "the account whose record it is"},
	{"collection", ATP_TYPE_NSID, ATP_KEY, "NOT NULL", "NSID of the collection: the kind of record"},
	{"rkey", ATP_TYPE_RKEY, ATP_KEY, "NOT NULL", "record key: the record's name in the collection, mostly a TID"},
	{"cid", ATP_TYPE_CID, ATP_VALUE, "NOT NULL", "CID: hash of the record's DAG-CBOR"},
	{"rev", ATP_TYPE_TID, ATP_VALUE, "NOT NULL", "revision of the commit that last wrote the record"},
	{"indexed_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database last wrote the record"},
	{"value", ATP_TYPE_VALUE, ATP_VALUE, NULL, "the record, as jsonb or as dagcbor; NULL where jsonb cannot hold the record, see raw"},
	{"raw", ATP_TYPE_BYTEA, ATP_VALUE, NULL,
	"the record's DAG-CBOR, where value is NULL or the subscription keeps the DAG-CBOR"},
	{"fault", ATP_TYPE_TEXT, ATP_VALUE, NULL,
	"how the record violated its Lexicon when the record was written, where the subscription validates; NULL: no violation found"},
};

#define SAME_RECORD \
	"r.did OPERATOR(@.=) u.did AND r.collection OPERATOR(@.=) u.collection AND r.rkey OPERATOR(@.=) u.rkey"

#define PUT \
	"INSERT INTO #.record AS r ({columns}) SELECT * FROM unnest({arrays})" \
	" ON CONFLICT (did, collection, rkey) DO UPDATE SET {set excluded}, indexed_at = excluded.indexed_at"

#define DELETE \
	"DELETE FROM #.record r USING unnest($1, $2, $3, $4) u (did, collection, rkey, rev) WHERE " SAME_RECORD

/*
 * Citus cannot SELECT ... FOR UPDATE across nodes: the lock on the repository's row stands for the records of the
 * repository.
 */
#define OLD_RECORDS \
	"SELECT u.n, r.rev, " CONTENT " FROM unnest($1, $2, $3, $4) u (did, collection, rkey, n)" \
	" JOIN #.record r ON " SAME_RECORD
#define RECORD_REV \
	"SELECT r.rev FROM #.record r, unnest($1, $2, $3) u (did, collection, rkey) WHERE " SAME_RECORD

/*
 * Deletes records of deleted accounts.  The revision is tested again on the row that is deleted (r): when another
 * session has just written the row, READ COMMITTED evaluates the condition again for this row, and for no other.
 */
#define ERASE \
	"DELETE FROM #.record r USING" \
	" (SELECT did, collection, rkey FROM #.record" \
	"  WHERE did OPERATOR(@.=) $2 AND rev OPERATOR(@.<=) $3 LIMIT $1) u" \
	" WHERE " SAME_RECORD " AND r.rev OPERATOR(@.<=) $3"
#define PURGE \
	"DELETE FROM #.record r USING" \
	" (SELECT o.did, o.collection, o.rkey, p.purge_rev, p.purge_seq FROM #.repo p" \
	"  JOIN #.record o ON o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev" \
	"  WHERE p.purge_rev IS NOT NULL LIMIT $1) u" \
	" WHERE " SAME_RECORD " AND r.rev OPERATOR(@.<=) u.purge_rev"

/*
 * Deletes records that a refill has written and that cannot be verified.  Revision and time are tested again on the
 * row that is deleted.
 */
#define UNDO \
	"DELETE FROM #.record r USING" \
	" (SELECT did, collection, rkey FROM #.record" \
	"  WHERE did OPERATOR(@.=) $2 AND rev OPERATOR(@.<=) $3 AND indexed_at >= $4 LIMIT $1) u" \
	" WHERE " SAME_RECORD " AND r.rev OPERATOR(@.<=) $3 AND r.indexed_at >= $4"

/* The removed record, for derived tables. */
#define CONTENT		"r.cid, r.value, CASE WHEN r.value IS NULL THEN r.raw END"
#define GONE(seq)	" RETURNING r.did, r.collection, r.rkey, r.rev, " CONTENT ", " seq
#define GONE_COLUMNS \
	{ATP_TYPE_DID, ATP_TYPE_NSID, ATP_TYPE_RKEY, ATP_TYPE_TID, ATP_TYPE_CID, ATP_TYPE_VALUE, ATP_TYPE_BYTEA, ATP_TYPE_INT8}

/* did[], collection[], rkey[], and a fourth parameter */
#define KEYS_ARGS(type) \
	{ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_NSID), ATP_ARRAY(ATP_TYPE_RKEY), type}

static const AtpStatement statements[] = {
	/* never over a newer record, written meanwhile by any session */
	[ATP_PUT_RECORDS] = {
		PUT " WHERE r.rev OPERATOR(@.<=) excluded.rev",
		SPI_OK_INSERT, {0}, {0}, &atp_record_table, ATP_ROWS_IN | ATP_DIRECT
	},
	[ATP_CREATE_RECORDS] = {
		"INSERT INTO #.record ({columns}) SELECT * FROM unnest({arrays})",
		SPI_OK_INSERT, {0}, {0}, &atp_record_table, ATP_ROWS_IN
	},
	[ATP_PUT_OLDER_RECORDS] = {
		PUT " WHERE r.rev OPERATOR(@.<) excluded.rev",
		SPI_OK_INSERT, {0}, {0}, &atp_record_table, ATP_ROWS_IN
	},
	/* the value follows from the CID; fault and raw follow from settings, which may have changed */
	[ATP_PUT_CHANGED_RECORDS] = {
		PUT " WHERE r.rev OPERATOR(@.<=) excluded.rev AND (r.rev OPERATOR(@.<) excluded.rev OR r.cid OPERATOR(@.<>) excluded.cid"
		" OR r.fault IS DISTINCT FROM excluded.fault OR (r.raw IS NULL) <> (excluded.raw IS NULL))",
		SPI_OK_INSERT, {0}, {0}, &atp_record_table, ATP_ROWS_IN
	},
	[ATP_DELETE_RECORDS] = {
		DELETE " AND r.rev OPERATOR(@.<=) u.rev",
		SPI_OK_DELETE, KEYS_ARGS(ATP_ARRAY(ATP_TYPE_TID)), {0}, &atp_record_table, ATP_BY_KEY | ATP_DIRECT
	},
	[ATP_DELETE_OLDER_RECORDS] = {
		DELETE " AND r.rev OPERATOR(@.<) u.rev",
		SPI_OK_DELETE, KEYS_ARGS(ATP_ARRAY(ATP_TYPE_TID)), {0}, &atp_record_table, ATP_BY_KEY
	},
	[ATP_OLD_RECORDS] = {
		OLD_RECORDS " FOR NO KEY UPDATE OF r",
		SPI_OK_SELECT, KEYS_ARGS(ATP_ARRAY(ATP_TYPE_INT4)),
		{ATP_TYPE_INT4, ATP_TYPE_TID, ATP_TYPE_CID, ATP_TYPE_VALUE, ATP_TYPE_BYTEA}, &atp_record_table, ATP_BY_KEY,
		&(const AtpStatement) {
			OLD_RECORDS, SPI_OK_SELECT, KEYS_ARGS(ATP_ARRAY(ATP_TYPE_INT4)),
			{ATP_TYPE_INT4, ATP_TYPE_TID, ATP_TYPE_CID, ATP_TYPE_VALUE, ATP_TYPE_BYTEA}, &atp_record_table
		}
	},
	[ATP_LAST_REV] = {
		"SELECT rev FROM #.record WHERE did OPERATOR(@.=) $1 ORDER BY rev DESC LIMIT 1",
		SPI_OK_SELECT, {ATP_TYPE_DID}, {ATP_TYPE_TID}, &atp_record_table
	},
	[ATP_ERASE_RECORDS] = {
		ERASE,
		SPI_OK_DELETE, {ATP_TYPE_INT8, ATP_TYPE_DID, ATP_TYPE_TID}, {0}, &atp_record_table
	},
	[ATP_ERASE_RECORDS_TOLD] = {
		ERASE GONE("$4"),
		SPI_OK_DELETE_RETURNING, {ATP_TYPE_INT8, ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_INT8}, GONE_COLUMNS, &atp_record_table
	},
	[ATP_PURGE_RECORDS] = {
		PURGE,
		SPI_OK_DELETE, {ATP_TYPE_INT8}, {0}, &atp_record_table
	},
	[ATP_PURGE_RECORDS_TOLD] = {
		PURGE GONE("COALESCE(u.purge_seq, " CppAsString2(ATP_SEQ_NONE) ")"),
		SPI_OK_DELETE_RETURNING, {ATP_TYPE_INT8}, GONE_COLUMNS, &atp_record_table
	},
	[ATP_UNDO_RECORDS] = {
		UNDO,
		SPI_OK_DELETE, {ATP_TYPE_INT8, ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TIMESTAMP}, {0}, &atp_record_table
	},
	[ATP_UNDO_RECORDS_TOLD] = {
		UNDO GONE("$5"),
		SPI_OK_DELETE_RETURNING, {ATP_TYPE_INT8, ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TIMESTAMP, ATP_TYPE_INT8}, GONE_COLUMNS, &atp_record_table
	},
	[ATP_LOCK_RECORD] = {
		RECORD_REV " FOR NO KEY UPDATE OF r",
		SPI_OK_SELECT, KEYS_ARGS(ATP_TYPE_END), {ATP_TYPE_TID}, &atp_record_table, ATP_BY_KEY,
		&(const AtpStatement) {RECORD_REV, SPI_OK_SELECT, KEYS_ARGS(ATP_TYPE_END), {ATP_TYPE_TID}, &atp_record_table}
	},
	[ATP_FIND_RECORD] = {RECORD_REV, SPI_OK_SELECT, KEYS_ARGS(ATP_TYPE_END), {ATP_TYPE_TID}, &atp_record_table, ATP_PLANNED_ANEW},
	[ATP_FORCE_RECORDS] = {
		PUT,
		SPI_OK_INSERT, {0}, {0}, &atp_record_table, ATP_ROWS_IN
	},
	[ATP_FIRST_COLLECTION] = {
		"SELECT collection FROM #.record WHERE did OPERATOR(@.=) $1 ORDER BY collection LIMIT 1",
		SPI_OK_SELECT, {ATP_TYPE_DID}, {ATP_TYPE_NSID}, &atp_record_table, ATP_BY_INDEX
	},
	[ATP_NEXT_COLLECTION] = {
		"SELECT collection FROM #.record WHERE did OPERATOR(@.=) $1 AND collection OPERATOR(@.>) $2"
		" ORDER BY collection LIMIT 1",
		SPI_OK_SELECT, {ATP_TYPE_DID, ATP_TYPE_NSID}, {ATP_TYPE_NSID}, &atp_record_table, ATP_BY_INDEX
	},
	[ATP_ROWS_OF] = {
		"SELECT rkey, cid, rev FROM #.record WHERE did OPERATOR(@.=) $1 AND collection OPERATOR(@.=) $2 ORDER BY rkey",
		SPI_OK_SELECT, {ATP_TYPE_DID, ATP_TYPE_NSID}, {ATP_TYPE_RKEY, ATP_TYPE_CID, ATP_TYPE_TID}, &atp_record_table, ATP_BY_INDEX
	},
	[ATP_ROWS_AFTER] = {
		"SELECT rkey, cid, rev FROM #.record WHERE did OPERATOR(@.=) $1 AND collection OPERATOR(@.=) $2"
		" AND rkey OPERATOR(@.>) $3 ORDER BY rkey",
		SPI_OK_SELECT, {ATP_TYPE_DID, ATP_TYPE_NSID, ATP_TYPE_RKEY}, {ATP_TYPE_RKEY, ATP_TYPE_CID, ATP_TYPE_TID},
		&atp_record_table, ATP_BY_INDEX
	},
};

/* K-08: a DID and a record key name a record only together with the collection. */
const AtpTable atp_record_table = {
	.name = "record",
	.use = ATP_USE_REPOS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "PRIMARY KEY (did, collection, rkey)",
	.comment = "current records of all repositories seen",
	.statements = statements,
	.nstatements = lengthof(statements),
	.renewed = "indexed_at",
	.shard_by = "did",
};

/* ------------------------------------------------------------------------
 * Records that go with their accounts
 * ------------------------------------------------------------------------
 */

/* The removed records, which the DELETE has returned, as changes for derived tables. */
static AtpChange *
gone_changes(SPITupleTable *gone, int n)
{
	AtpRecordRow *rows = palloc0(sizeof(AtpRecordRow) * Max(n, 1));
	AtpChange  *changes = palloc0(sizeof(AtpChange) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		Datum		v[8];
		bool		null[8];

		heap_deform_tuple(gone->vals[i], gone->tupdesc, v, null);
		/* if the user has replaced the table by a view, any column may be null */
		if (null[0] || null[1] || null[2] || null[3])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("\"%s\" of a row of table \"record\" is null",
							null[0] ? "did" : null[1] ? "collection" : null[2] ? "rkey" : "rev")));
		rows[i] = (AtpRecordRow) {
			.action = ATP_DELETE, .did = PG_DETOAST_DATUM_PACKED(v[0]), .collection = atp_nsid_renew(PG_DETOAST_DATUM_PACKED(v[1])),
			.rkey = PG_DETOAST_DATUM_PACKED(v[2]), .rev = DatumGetAtpTid(v[3])
		};
		changes[i] = (AtpChange) {
			.row = &rows[i], .seq = DatumGetInt64(v[7]), .found = true, .old_rev = rows[i].rev,
			.old_cid = null[4] ? NULL : PG_DETOAST_DATUM_PACKED(v[4]),
			.old_value = null[5] ? NULL : (struct varlena *) DatumGetPointer(v[5]),
			.old_raw = null[6] ? NULL : (struct varlena *) DatumGetPointer(v[6])
		};
	}
	return changes;
}

/* Tell derived tables of the removed records. */
static void
tell_gone(AtpApply *a, int n)
{
	SPITupleTable *gone = SPI_tuptable;

	atp_derived_flush(a, gone_changes(gone, n), n);
	SPI_freetuptable(gone);
}

/* Run one of two statements: "told" returns the removed records for derived tables, "alone" returns no rows. */
static uint64
remove_some(AtpApply *a, int alone, int told, Datum *args)
{
	MemoryContext cxt,
				old;
	uint64		n;

	if (atp_derived_uses(a->sub) == 0)
		return atp_execute(a->statements, &statements[alone], args, NULL);
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto records", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	n = atp_execute(a->statements, &statements[told], args, NULL);
	tell_gone(a, n);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return n;
}

void
atp_records_erase(AtpApply *a, struct varlena *did, uint64 rev, int64 seq)
{
	Datum		args[4] = {Int64GetDatum(PURGE_MAX), PointerGetDatum(did), AtpTidGetDatum(rev), Int64GetDatum(seq)};

	(void) remove_some(a, ATP_ERASE_RECORDS, ATP_ERASE_RECORDS_TOLD, args);
}

void
atp_records_erase_all(AtpApply *a, struct varlena *did, uint64 rev, int64 seq)
{
	Datum		args[4] = {Int64GetDatum(PURGE_MAX), PointerGetDatum(did), AtpTidGetDatum(rev), Int64GetDatum(seq)};

	while (remove_some(a, ATP_ERASE_RECORDS, ATP_ERASE_RECORDS_TOLD, args) >= PURGE_MAX)
		CHECK_FOR_INTERRUPTS();
}

uint64
atp_records_forget(AtpApply *a, struct varlena *did, int64 max, const List *subs)
{
	Datum		args[4] = {Int64GetDatum(max), PointerGetDatum(did), AtpTidGetDatum(PG_UINT64_MAX), Int64GetDatum(ATP_SEQ_NONE)};
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto records", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	uint64		n = atp_execute(a->statements, &statements[ATP_ERASE_RECORDS_TOLD], args, NULL);
	SPITupleTable *gone = SPI_tuptable;
	AtpChange  *changes = gone_changes(gone, n);
	const ListCell *lc;

	foreach(lc, subs)
	{
		a->sub = lfirst(lc);
		atp_derived_flush(a, changes, n);
	}
	SPI_freetuptable(gone);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return n;
}

void
atp_records_undo(AtpApply *a, struct varlena *did, uint64 rev, TimestampTz since, int64 seq)
{
	Datum		args[5] = {
		Int64GetDatum(PURGE_MAX), PointerGetDatum(did), AtpTidGetDatum(rev), TimestampTzGetDatum(since), Int64GetDatum(seq)
	};

	while (remove_some(a, ATP_UNDO_RECORDS, ATP_UNDO_RECORDS_TOLD, args) >= PURGE_MAX)
		CHECK_FOR_INTERRUPTS();
}

bool
atp_records_erase_export(AtpApply *a, struct varlena *did, uint64 rev, int64 seq)
{
	Datum		args[4] = {Int64GetDatum(PURGE_MAX), PointerGetDatum(did), AtpTidGetDatum(rev), Int64GetDatum(seq)};

	for (int i = 0; i < EXPORT_MAX / PURGE_MAX; i++)
	{
		if (remove_some(a, ATP_ERASE_RECORDS, ATP_ERASE_RECORDS_TOLD, args) < PURGE_MAX)
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

bool
atp_records_purge(AtpApply *a)
{
	Datum		arg = Int64GetDatum(PURGE_MAX);

	return remove_some(a, ATP_PURGE_RECORDS, ATP_PURGE_RECORDS_TOLD, &arg) > 0;
}

/* ------------------------------------------------------------------------
 * Looked up
 * ------------------------------------------------------------------------
 */
static bool
first_tid(uint64 *tid)
{
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

	*tid = isnull ? 0 : DatumGetAtpTid(value);
	return !isnull;
}

bool
atp_records_any(AtpApply *a, struct varlena *did)
{
	Datum		arg = PointerGetDatum(did);
	bool		found = atp_execute(a->statements, &statements[ATP_FIRST_COLLECTION], &arg, NULL) > 0;

	SPI_freetuptable(SPI_tuptable);
	return found;
}

bool
atp_records_last_rev(AtpApply *a, struct varlena *did, uint64 *rev)
{
	Datum		arg = PointerGetDatum(did);
	bool		found = atp_execute(a->statements, &statements[ATP_LAST_REV], &arg, NULL) > 0 && first_tid(rev);

	SPI_freetuptable(SPI_tuptable);
	return found;
}

static AtpStanding
look_up(AtpApply *a, int statement, const AtpRecordRow *row)
{
	AtpStatements *set = a->statements;
	Datum		did = PointerGetDatum(row->did);
	Datum		collection = PointerGetDatum(row->collection);
	Datum		rkey = PointerGetDatum(row->rkey);
	Datum		args[3] = {
		atp_array(set, ATP_TYPE_DID, &did, NULL, 1), atp_array(set, ATP_TYPE_NSID, &collection, NULL, 1),
		atp_array(set, ATP_TYPE_RKEY, &rkey, NULL, 1)
	};
	AtpStanding standing = ATP_STANDING_MISSING;
	uint64		rev;

	if (atp_execute(set, &statements[statement], args, NULL) > 0)
		standing = first_tid(&rev) && rev >= row->rev ? ATP_STANDING_OBSOLETE : ATP_STANDING_NEW;
	SPI_freetuptable(SPI_tuptable);
	return standing;
}

AtpStanding
atp_record_standing(AtpApply *a, const AtpRecordRow *row)
{
	return look_up(a, ATP_LOCK_RECORD, row);
}

bool
atp_records_lack(AtpApply *a, const AtpEvent *event)
{
	bool		lack = false;

	for (int r = event->first_row; r < event->first_row + event->nrows && !lack; r++)
	{
		const AtpRecordRow *row = &a->batch->rows[r].record;
		AtpStanding there = a->sub->settings.keep_records ? look_up(a, ATP_FIND_RECORD, row) : ATP_STANDING_MISSING;

		lack = there == ATP_STANDING_NEW || (there == ATP_STANDING_MISSING && row->action != ATP_DELETE);
	}
	return lack;
}
