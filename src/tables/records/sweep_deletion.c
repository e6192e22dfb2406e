/*
 * sweep_deletion.c
 *		The table sweep_deletion: see sweep_deletion.h.
 *
 * A row is a fact: whatever the account's records were before rev, they are not any more.  So a row does no harm when it is kept for
 * too long, and only the largest revision of each path is kept.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "core/syntax/tid.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "tables/base/rows.h"
#include "tables/records/record.h"
#include "tables/records/sweep_deletion.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Records removed between two looks for interrupts. */
#define REPLACE_STEP	5000

static const AtpColumn columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "the account"},
	{"path", ATP_TYPE_TEXT, ATP_KEY, "COLLATE \"C\" NOT NULL",
	"what was deleted: collection/rkey, a record; #account, all records; #sync and a subscription, all records within the subscription's filter that the account had no more"},
	{"rev", ATP_TYPE_TID, ATP_VALUE, "NOT NULL", "what is not newer than this revision is passed over while an archive is read"},
	{"within", ATP_TYPE_TEXT, ATP_VALUE, NULL, "of #sync: the filter, an array of collections; NULL: all collections"},
	{"kept_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this row was written"},
};

enum
{
	KEEP,						/* {arrays} */
	KEEP_RECORDS,				/* keys, rev[] */
	FIND,						/* keys, rev[], n[] -> n, maybe several times */
	REMOVE,						/* time: all rows before */
	REMOVE_OF,					/* did: deletions of records */
	LARGE,						/* number, max -> did */
	COUNT,						/* max -> number */
	OLDER_OF					/* did, rev, filter, limit, collection[], rkey[] of records that stay -> collection, rkey, rev */
};

#define PATH	"(u.collection::text || '/' || u.rkey::text) COLLATE \"C\""
#define OF_RECORD	"NOT starts_with(path, '#')"
#define NEWER	"s.did OPERATOR(@.=) u.did AND s.rev OPERATOR(@.>=) u.rev"
#define ON_CONFLICT \
	" ON CONFLICT (did, path) DO UPDATE SET rev = excluded.rev, within = excluded.within, kept_at = excluded.kept_at" \
	" WHERE s.rev OPERATOR(@.<) excluded.rev"

/* did[], collection[], rkey[], and more parameters */
#define KEYS(...)	{ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_NSID), ATP_ARRAY(ATP_TYPE_RKEY), __VA_ARGS__}

static const AtpStatement statements[] = {
	[KEEP] = {
		"INSERT INTO #.sweep_deletion AS s ({columns}) SELECT * FROM unnest({arrays})" ON_CONFLICT,
		SPI_OK_INSERT, {0}, {0}, &atp_sweep_deletion_table, ATP_ROWS_IN
	},
	[KEEP_RECORDS] = {
		"INSERT INTO #.sweep_deletion AS s (did, path, rev) SELECT u.did, " PATH ", u.rev"
		" FROM unnest($1, $2, $3, $4) u (did, collection, rkey, rev)" ON_CONFLICT,
		SPI_OK_INSERT, KEYS(ATP_ARRAY(ATP_TYPE_TID)), {0}, &atp_sweep_deletion_table
	},
	[FIND] = {
		"SELECT u.n FROM unnest($1, $2, $3, $4, $5) u (did, collection, rkey, rev, n)"
		" JOIN #.sweep_deletion s ON " NEWER " AND s.path = ANY (ARRAY[" PATH ", '#account' COLLATE \"C\"])"
		" UNION ALL SELECT u.n FROM unnest($1, $2, $3, $4, $5) u (did, collection, rkey, rev, n)"
		" JOIN #.sweep_deletion s ON " NEWER " AND s.path > '#sync ' AND s.path < '#sync!'"
		" WHERE " ATP_SQL_ARCHIVED("u.collection::text", "u.rkey::text", "s.within"),
		SPI_OK_SELECT, KEYS(ATP_ARRAY(ATP_TYPE_TID), ATP_ARRAY(ATP_TYPE_INT4)), {ATP_TYPE_INT4},
		&atp_sweep_deletion_table, ATP_BY_INDEX,
		/* Citus sends no join with parameters to the nodes: the rows of the accounts come to the coordinator */
		&(const AtpStatement) {
			"WITH s AS MATERIALIZED (SELECT did, path, rev, within FROM #.sweep_deletion WHERE did OPERATOR(@.=) ANY ($1))"
			" SELECT u.n FROM unnest($1, $2, $3, $4, $5) u (did, collection, rkey, rev, n) JOIN s ON " NEWER
			" WHERE s.path = ANY (ARRAY[" PATH ", '#account' COLLATE \"C\"])"
			"  OR (starts_with(s.path, '#sync ') AND " ATP_SQL_ARCHIVED("u.collection::text", "u.rkey::text", "s.within") ")",
			SPI_OK_SELECT, KEYS(ATP_ARRAY(ATP_TYPE_TID), ATP_ARRAY(ATP_TYPE_INT4)), {ATP_TYPE_INT4}, &atp_sweep_deletion_table
		}
	},
	[REMOVE] = {
		"DELETE FROM #.sweep_deletion WHERE kept_at < $1",
		SPI_OK_DELETE, {ATP_TYPE_TIMESTAMP}, {0}, &atp_sweep_deletion_table
	},
	[REMOVE_OF] = {
		"DELETE FROM #.sweep_deletion WHERE did OPERATOR(@.=) $1 AND " OF_RECORD,
		SPI_OK_DELETE, {ATP_TYPE_DID}, {0}, &atp_sweep_deletion_table
	},
	[LARGE] = {
		"SELECT did FROM #.sweep_deletion WHERE " OF_RECORD " GROUP BY did HAVING count(*) > $1 ORDER BY did LIMIT $2",
		SPI_OK_SELECT, {ATP_TYPE_INT8, ATP_TYPE_INT8}, {ATP_TYPE_DID}, &atp_sweep_deletion_table
	},
	[COUNT] = {
		/* with a column, because Citus cannot plan a subquery without columns */
		"SELECT count(*) FROM (SELECT rev FROM #.sweep_deletion LIMIT $1) s",
		SPI_OK_SELECT, {ATP_TYPE_INT8}, {ATP_TYPE_INT8}, &atp_sweep_deletion_table
	},
	[OLDER_OF] = {
		"SELECT r.collection, r.rkey, r.rev FROM #.record r WHERE r.did OPERATOR(@.=) $1 AND r.rev OPERATOR(@.<=) $2"
		" AND " ATP_SQL_ARCHIVED("r.collection::text", "r.rkey::text", "$3") " AND " ATP_SQL_NOT_SAME("$5", "$6") " LIMIT $4",
		SPI_OK_SELECT, {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_ARRAY(ATP_TYPE_NSID), ATP_ARRAY(ATP_TYPE_RKEY)},
		{ATP_TYPE_NSID, ATP_TYPE_RKEY, ATP_TYPE_TID}, &atp_record_table
	},
};

const AtpTable atp_sweep_deletion_table = {
	.name = "sweep_deletion",
	.whole = true,
	.use = ATP_USE_SWEEP,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "PRIMARY KEY (did, path)",
	.comment = "deletions that are kept while an archive is read, so that no older record comes back; otherwise empty. Experimental.",
	.statements = statements,
	.nstatements = lengthof(statements),
	.shard_by = "did",
};

/* ------------------------------------------------------------------------
 * Records
 * ------------------------------------------------------------------------
 */

/* Rows of the keys and revisions of operations; numbered: with the place of each operation, too. */
static AtpRows *
key_rows(AtpApply *a, const AtpRecordRow *const *records, int n, bool numbered)
{
	const AtpType types[] = {
		ATP_TYPE_DID, ATP_TYPE_NSID, ATP_TYPE_RKEY, ATP_TYPE_TID, numbered ? ATP_TYPE_INT4 : ATP_TYPE_END, ATP_TYPE_END
	};
	AtpRows    *rows = atp_rows_create(a->statements, types, n);

	for (int i = 0; i < n; i++)
	{
		atp_put_ref(rows, records[i]->did);
		atp_put_ref(rows, records[i]->collection);
		atp_put_ref(rows, records[i]->rkey);
		atp_put(rows, AtpTidGetDatum(records[i]->rev), false);
		if (numbered)
			atp_put(rows, Int32GetDatum(i), false);
	}
	return rows;
}

void
atp_sweep_find(AtpApply *a, const AtpRecordRow *const *records, int n, bool *passed)
{
	Datum		args[5];
	uint64		found;

	memset(passed, 0, sizeof(bool) * n);
	if (n == 0)
		return;
	atp_rows_bind(key_rows(a, records, n, true), args);
	found = atp_execute(a->statements, &statements[FIND], args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		Datum		place;
		bool		null;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, &place, &null);
		passed[DatumGetInt32(place)] = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

void
atp_sweep_keep(AtpApply *a, const AtpRecordRow *const *records, int n)
{
	Datum		args[4];

	if (n == 0)
		return;
	atp_rows_bind(key_rows(a, records, n, false), args);
	(void) atp_execute(a->statements, &statements[KEEP_RECORDS], args, NULL);
}

/* ------------------------------------------------------------------------
 * All records of an account
 * ------------------------------------------------------------------------
 */
static void
keep_path(AtpApply *a, struct varlena *did, const char *path, uint64 rev, const text *within)
{
	AtpRows    *rows = atp_rows_of(a->statements, &atp_sweep_deletion_table, 1);
	Datum		args[ATP_STATEMENT_ARGS];

	atp_put_ref(rows, did);
	atp_put_ref(rows, cstring_to_text(path));
	atp_put(rows, AtpTidGetDatum(rev), false);
	atp_put_ref(rows, within);
	atp_rows_bind(rows, args);
	(void) atp_execute(a->statements, &statements[KEEP], args, NULL);
}

void
atp_sweep_keep_account(AtpApply *a, struct varlena *did, uint64 rev)
{
	keep_path(a, did, "#account", rev, NULL);
}

void
atp_sweep_keep_gone(const char *target, AtpArg did, AtpArg rev)
{
	atp_run(atp_expand_sql("INSERT INTO #.sweep_deletion AS s (did, path, rev) VALUES ($1, '#account', $2)" ON_CONFLICT, target), ATP_ARGS(did, rev));
}

text *
atp_sweep_filter(const AtpSettings *settings)
{
	Datum	   *names;
	ArrayType  *array;
	Oid			out;
	bool		varlena;

	if (settings->ncollections < 0)
		return NULL;
	names = palloc(sizeof(Datum) * Max(settings->ncollections, 1));
	for (int i = 0; i < settings->ncollections; i++)
		names[i] = CStringGetTextDatum(settings->collections[i]);
	array = construct_array(names, settings->ncollections, TEXTOID, -1, false, TYPALIGN_INT);
	getTypeOutputInfo(TEXTARRAYOID, &out, &varlena);
	return cstring_to_text(OidOutputFunctionCall(out, PointerGetDatum(array)));
}

void
atp_sweep_keep_sync(AtpApply *a, struct varlena *did, uint64 rev)
{
	keep_path(a, did, psprintf("#sync %s", a->sub->name), rev, atp_sweep_filter(&a->sub->settings));
}

/* Queue the deletion of the found records.  Without a bound, each is deleted at its own revision, which a user of record_event knows. */
static void
queue_found(AtpRecords *records, struct varlena *did, uint64 rev, int64 seq, uint64 n)
{
	SPITupleTable *found = SPI_tuptable;

	for (uint64 i = 0; i < n; i++)
	{
		AtpRecordRow *row = palloc0(sizeof(AtpRecordRow));
		Datum		values[3];
		bool		nulls[3];

		heap_deform_tuple(found->vals[i], found->tupdesc, values, nulls);
		if (nulls[0] || nulls[1] || nulls[2])
			continue;
		*row = (AtpRecordRow) {
			.action = ATP_DELETE, .did = did, .collection = atp_nsid_renew(PG_DETOAST_DATUM_COPY(values[0])),
			.rkey = PG_DETOAST_DATUM_COPY(values[1]),
			.rev = rev == ATP_TID_MAX_CANONICAL ? DatumGetAtpTid(values[2]) : rev, .unkept = true
		};
		atp_records_queue(records, row, seq, false);
	}
	SPI_freetuptable(found);
}

void
atp_records_replace(AtpApply *a, struct varlena *did, uint64 rev, int64 seq, AtpSameRecords same)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto replaced records", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	uint64		n;

	do
	{
		text	   *filter = atp_sweep_filter(&a->sub->settings);
		Datum		args[6] = {PointerGetDatum(did), AtpTidGetDatum(rev), PointerGetDatum(filter), Int64GetDatum(REPLACE_STEP)};
		AtpRecords *records = atp_records_begin(a, REPLACE_STEP);
		int64		removed = a->removed;

		CHECK_FOR_INTERRUPTS();
		atp_same_args(a->statements, same, args + 4);
		n = atp_execute(a->statements, &statements[OLDER_OF], args, filter == NULL ? "  n   " : NULL);
		queue_found(records, did, rev, seq, n);
		atp_records_flush(records);
		/* a policy or trigger keeps the rows: looking again would not end */
		if (a->removed == removed)
			break;
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
		MemoryContextSwitchTo(cxt);
	} while (n == REPLACE_STEP);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ------------------------------------------------------------------------
 * The end
 * ------------------------------------------------------------------------
 */
uint64
atp_sweep_empty(AtpStatements *set, TimestampTz before)
{
	Datum		arg = TimestampTzGetDatum(before);

	return atp_execute(set, &statements[REMOVE], &arg, NULL);
}

int
atp_sweep_large(AtpStatements *set, int64 n, struct varlena **dids, int max)
{
	Datum		args[2] = {Int64GetDatum(n), Int64GetDatum(max)};

	return atp_take_dids(dids, atp_execute(set, &statements[LARGE], args, NULL));
}

uint64
atp_sweep_drop(AtpStatements *set, struct varlena *did)
{
	Datum		arg = PointerGetDatum(did);

	return atp_execute(set, &statements[REMOVE_OF], &arg, NULL);
}

int64
atp_sweep_count(AtpStatements *set, int64 max)
{
	Datum		arg = Int64GetDatum(max);
	bool		isnull;
	int64		n;

	(void) atp_execute(set, &statements[COUNT], &arg, NULL);
	n = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return n;
}
