/*
 * plc_tables.c
 *		The tables plc_operation and plc_refused: see plc_tables.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "tables/base/error_class.h"
#include "tables/base/rows.h"
#include "tables/plc/plc_tables.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/timestamp.h"

/* In this order a row has the fewest bytes between its columns, and no more than eight columns need a shorter head. */
static const AtpColumn operation_columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "the account"},
	{"cid", ATP_TYPE_CID, ATP_VALUE, "NOT NULL", "CID of the operation"},
	{"n", ATP_TYPE_INT4, ATP_KEY, "NOT NULL", "place in the account's log, from 1, not counting refused entries; the same at every directory"},
	{"prev", ATP_TYPE_INT4, ATP_VALUE, NULL, "place of the operation that this one follows; NULL: the genesis"},
	{"nullified_by", ATP_TYPE_INT4, ATP_VALUE, NULL, "place of the recovery that nullified this operation; NULL: in the present chain"},
	{"created_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, "NOT NULL", "when the operation came, by the directory's word"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL, "sequence number at the directory that brought the operation first"},
	{"packed", ATP_TYPE_BYTEA, ATP_VALUE, "NOT NULL", "the signed operation, packed: plc_log() gives its JSON and its DAG-CBOR"},
};

static const AtpColumn refused_columns[] = {
	{"did", ATP_TYPE_DID, ATP_KEY, "NOT NULL", "the account, by the directory's word"},
	{"digest", ATP_TYPE_BYTEA, ATP_KEY, "NOT NULL", "SHA-256 of the operation's DAG-CBOR; where there is none, of its JSON, of its CID's text, or of the entry"},
	{"reason", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL", "reason as in plc_check()"},
	{"detail", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL", "the broken rule"},
	{"created_at", ATP_TYPE_TIMESTAMP, ATP_VALUE, NULL, "when the operation came, by the directory's word; NULL: not readable"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL, "sequence number of the entry"},
	{"entry", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "the entry, as received; NULL: more than 64 kB"},
	{"subscription", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "the subscription that received the entry"},
	{"refused_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database refused the entry"},
	{"again_seq", ATP_TYPE_INT8, ATP_APART, NULL, "sequence number of the last later entry with the same operation, from the same subscription; NULL: none"},
	{"again_at", ATP_TYPE_TIMESTAMP, ATP_APART, NULL, "latest later time at which the operation came, by the directory's word; NULL: none"},
};

enum
{
	FIND_NEWEST, FIND_LOGS, FIND_PACKED, FIND_ENTRIES, ADD, NULLIFY, REPLACE
};

/* packed is the column, or as much of it as is needed. */
#define FIND(packed, which) \
	"SELECT o.did, o.cid, o.n, o.prev, o.nullified_by, o.created_at, o.seq, " packed " FROM unnest($1) w (did), LATERAL" \
	" (SELECT * FROM #.plc_operation p WHERE p.did OPERATOR(@.=) w.did ORDER BY p.n" which ") o", \
	SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, \
	{ATP_TYPE_DID, ATP_TYPE_CID, ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_TIMESTAMP, ATP_TYPE_INT8, ATP_TYPE_BYTEA}, \
	&atp_plc_operation_table, ATP_BY_INDEX
#define FOUND_COLUMNS	8

static const AtpStatement operation_statements[] = {
	[FIND_NEWEST] = {FIND("o.packed", " DESC LIMIT 1")},
	/* the signer is the first byte */
	[FIND_LOGS] = {FIND("substring(o.packed FROM 1 FOR 1)", "")},
	[FIND_PACKED] = {
		"SELECT u.i, (SELECT o.packed FROM #.plc_operation o WHERE o.did OPERATOR(@.=) u.did AND o.n = u.n LIMIT 1)"
		" FROM unnest($1, $2, $3) u (did, n, i)",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_INT4), ATP_ARRAY(ATP_TYPE_INT4)},
		{ATP_TYPE_INT4, ATP_TYPE_BYTEA}, &atp_plc_operation_table, ATP_BY_INDEX
	},
	/* an operation that cannot be unpacked is no entry */
	[FIND_ENTRIES] = {
		"SELECT w.n::integer, o.seq, convert_to(jsonb_build_object('did', o.did, 'operation', j.operation, 'cid', o.cid,"
		"  'createdAt', " ATP_PLC_ENTRY_TIME ")::text, 'UTF8')"
		" FROM unnest($1) WITH ORDINALITY w (did, n) JOIN #.plc_operation o ON o.did OPERATOR(@.=) w.did"
		" LEFT JOIN #.plc_operation p ON p.did OPERATOR(@.=) o.did AND p.n = o.prev,"
		" LATERAL (SELECT atproto.plc_json(" ATP_PLC_UNPACKED("o.packed", "p.cid") ") AS operation) j"
		" WHERE j.operation IS NOT NULL ORDER BY w.n, o.n",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_INT4, ATP_TYPE_INT8, ATP_TYPE_BYTEA}, &atp_plc_operation_table, ATP_BY_INDEX
	},
	[ADD] = {
		"INSERT INTO #.plc_operation ({columns}) SELECT * FROM unnest({arrays}) ON CONFLICT (did, n) DO NOTHING",
		SPI_OK_INSERT, {0}, {0}, &atp_plc_operation_table, ATP_ROWS_IN
	},
	[NULLIFY] = {
		"UPDATE #.plc_operation o SET nullified_by = u.by FROM unnest($1, $2, $3) u (did, n, by)"
		" WHERE o.did OPERATOR(@.=) u.did AND o.n = u.n",
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_INT4), ATP_ARRAY(ATP_TYPE_INT4)}, {0}, &atp_plc_operation_table, ATP_BY_INDEX
	},
	[REPLACE] = {
		"DELETE FROM #.plc_operation o USING unnest($1, $2) u (did, n) WHERE o.did OPERATOR(@.=) u.did AND o.n >= u.n",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_INT4)}, {0}, &atp_plc_operation_table, ATP_BY_INDEX
	},
};

enum
{
	REFUSE, REPEAT, FORGIVE, FIND_REFUSED, FIND_WAITING, CORRECT
};

/* M-11: so many entries of an account, of so many bytes together, are judged again when the account's log has come; the log has the rest. */
#define WAITING_MAX		"1000"
#define WAITING_BYTES	"4194304"

/* Is the entry u later than what the row r has? */
#define IS_LATER_AT		"u.created_at > COALESCE(GREATEST(r.created_at, r.again_at), '-infinity')"
#define IS_LATER_SEQ	"r.subscription = $1 AND u.seq > COALESCE(GREATEST(r.seq, r.again_seq), 0)"

static const AtpStatement refused_statements[] = {
	[REFUSE] = {
		"INSERT INTO #.plc_refused (subscription, {columns}) SELECT $1, * FROM unnest({arrays}) ON CONFLICT (did, digest) DO NOTHING",
		SPI_OK_INSERT, {ATP_TYPE_TEXT}, {0}, &atp_plc_refused_table, ATP_ROWS_IN
	},
	/* M-31: a directory may send a refused operation again, behind later operations; the numbers of two directories cannot be compared */
	[REPEAT] = {
		"UPDATE #.plc_refused r SET again_at = CASE WHEN " IS_LATER_AT " THEN u.created_at ELSE r.again_at END,"
		" again_seq = CASE WHEN " IS_LATER_SEQ " THEN u.seq ELSE r.again_seq END"
		" FROM (SELECT did, digest, max(created_at), max(seq) FROM unnest({arrays}) u ({columns}) GROUP BY did, digest) u (did, digest, created_at, seq)"
		" WHERE r.did OPERATOR(@.=) u.did AND r.digest = u.digest AND (" IS_LATER_AT " OR (" IS_LATER_SEQ "))",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT}, {0}, &atp_plc_refused_table, ATP_ROWS_IN | ATP_BY_INDEX
	},
	/* M-01: the refusal of an operation ends when the operation is accepted */
	[FORGIVE] = {
		"DELETE FROM #.plc_refused r USING unnest($1, $2) u (did, digest) WHERE r.did OPERATOR(@.=) u.did AND r.digest = u.digest",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_BYTEA)}, {0}, &atp_plc_refused_table, ATP_BY_INDEX
	},
	[FIND_REFUSED] = {
		"SELECT u.i FROM unnest($1, $2, $3) u (did, digest, i)"
		" WHERE EXISTS (SELECT FROM #.plc_refused r WHERE r.did OPERATOR(@.=) u.did AND r.digest = u.digest)",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_BYTEA), ATP_ARRAY(ATP_TYPE_INT4)}, {ATP_TYPE_INT4},
		&atp_plc_refused_table, ATP_BY_INDEX
	},
	[FIND_WAITING] = {
		"SELECT w.n::integer, e.seq, e.entry FROM unnest($1) WITH ORDINALITY w (did, n), LATERAL"
		" (SELECT x.seq, x.entry, sum(octet_length(x.entry)) OVER (ORDER BY x.seq, x.digest) AS bytes FROM"
		"  (SELECT r.seq, r.entry, r.digest FROM #.plc_refused r WHERE r.did OPERATOR(@.=) w.did AND r.reason = 'prev' AND r.entry IS NOT NULL"
		"   ORDER BY r.seq, r.digest LIMIT " WAITING_MAX ") x) e WHERE e.bytes <= " WAITING_BYTES " ORDER BY w.n, e.seq",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_INT4, ATP_TYPE_INT8, ATP_TYPE_BYTEA}, &atp_plc_refused_table, ATP_BY_INDEX
	},
	/* M-11: a waiting entry was refused for a reason of its own, or does not wait for a log any more */
	[CORRECT] = {
		"UPDATE #.plc_refused r SET reason = u.reason, detail = u.detail FROM unnest($1, $2, $3, $4) u (did, digest, reason, detail)"
		" WHERE r.did OPERATOR(@.=) u.did AND r.digest = u.digest AND r.reason = 'prev' AND r.detail <> u.detail",
		SPI_OK_UPDATE, {ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_BYTEA), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TEXT)}, {0},
		&atp_plc_refused_table, ATP_BY_INDEX
	},
};

/* No shard_by: the newest operations of many accounts are found by a join that Citus does not divide. */
const AtpTable atp_plc_operation_table = {
	.name = "plc_operation",
	.use = ATP_USE_PLC,
	.columns = operation_columns,
	.ncolumns = lengthof(operation_columns),
	.key = "PRIMARY KEY (did, n)",
	.comment = "operations of did:plc accounts that hold, nullified ones included. Experimental.",
	.whole = true,
	.view = "plc_history",
	.view_query = "SELECT o.did, o.n, o.created_at AS since, lead(o.created_at) OVER (PARTITION BY o.did ORDER BY o.n) AS until,"
	" s.key, s.label_key, s.server, s.handle, s.gone FROM #.plc_operation o, LATERAL atproto.plc_state(" ATP_PLC_UNPACKED("o.packed", "NULL") ") s"
	" WHERE o.nullified_by IS NULL",
	.view_comment = "what each did:plc account said of itself, and when, by the chain that holds now: signing key, server, claimed handle. Experimental.",
	.view_more = "COMMENT ON COLUMN #.plc_history.since IS 'when the operation came, by the directory''s word';"
	"COMMENT ON COLUMN #.plc_history.until IS 'when the next operation of the chain came, from which time on that operation counts; NULL: the present state';"
	"COMMENT ON COLUMN #.plc_history.key IS 'signing key of commits, as written, also what is no did:key; NULL: none';"
	"COMMENT ON COLUMN #.plc_history.label_key IS 'signing key of labels, as written, also what is no did:key; NULL: none';"
	"COMMENT ON COLUMN #.plc_history.server IS 'endpoint of the account''s PDS, as written; NULL: none';"
	"COMMENT ON COLUMN #.plc_history.handle IS 'handle that the account claims, as written and not verified; NULL: none';"
	"COMMENT ON COLUMN #.plc_history.gone IS 'the operation is a tombstone'",
	.statements = operation_statements,
	.nstatements = lengthof(operation_statements),
};

const AtpTable atp_plc_refused_table = {
	.name = "plc_refused",
	.use = ATP_USE_PLC,
	.columns = refused_columns,
	.ncolumns = lengthof(refused_columns),
	.key = "PRIMARY KEY (did, digest)",
	.comment = "entries of a did:plc directory that do not hold, with the reason. Experimental.",
	.whole = true,
	.statements = refused_statements,
	.nstatements = lengthof(refused_statements),
};

/* --- rows out --- */

static struct varlena *
copy_varlena(Datum value)
{
	return (struct varlena *) PG_DETOAST_DATUM_COPY(value);
}

/* A user may have altered the table: a row with impossible values is an operation that nothing follows. */
static AtpPlcStored
take_row(HeapTuple tuple, TupleDesc desc)
{
	Datum		v[FOUND_COLUMNS];
	bool		null[FOUND_COLUMNS];
	AtpPlcStored row = {0};

	heap_deform_tuple(tuple, desc, v, null);
	row.did = null[0] ? NULL : PG_DETOAST_DATUM_PACKED(datumCopy(v[0], false, -1));
	if (!null[1])
	{
		struct varlena *cid = copy_varlena(v[1]);

		memcpy(row.cid, VARDATA(cid), Min(VARSIZE(cid) - VARHDRSZ, sizeof(row.cid)));
	}
	row.n = null[2] ? 0 : DatumGetInt32(v[2]);
	row.prev = null[3] ? 0 : DatumGetInt32(v[3]);
	row.nullified_by = null[4] ? 0 : DatumGetInt32(v[4]);
	row.created_at = null[5] ? 0 : DatumGetTimestampTz(v[5]) + ATP_UNIX_TO_POSTGRES;
	row.seq = null[6] ? 0 : DatumGetInt64(v[6]);
	row.packed = null[7] ? NULL : copy_varlena(v[7]);
	return row;
}

static int
compare_stored(const void *a, const void *b)
{
	const AtpPlcStored *one = a;
	const AtpPlcStored *two = b;
	int			c = atp_compare_dids(one->did, two->did);

	return c != 0 ? c : (one->n > two->n) - (one->n < two->n);
}

static AtpPlcStored *
read_rows(AtpStatements *set, int statement, struct varlena **dids, int n, int *found)
{
	Datum	   *values = palloc(Max(n, 1) * sizeof(Datum));
	Datum		args[1];
	AtpPlcStored *rows;
	uint64		nrows;

	for (int i = 0; i < n; i++)
		values[i] = PointerGetDatum(dids[i]);
	args[0] = atp_array(set, ATP_TYPE_DID, values, NULL, n);
	nrows = atp_execute(set, &operation_statements[statement], args, NULL);
	rows = palloc_extended(Max(nrows, 1) * sizeof(AtpPlcStored), MCXT_ALLOC_HUGE);
	*found = 0;
	for (uint64 i = 0; i < nrows; i++)
	{
		rows[*found] = take_row(SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
		if (rows[*found].did != NULL)
			(*found)++;
	}
	SPI_freetuptable(SPI_tuptable);
	qsort(rows, *found, sizeof(AtpPlcStored), compare_stored);
	return rows;
}

AtpPlcStored *
atp_plc_read_newest(AtpStatements *set, struct varlena **dids, int n, int *found)
{
	AtpPlcStored *rows = read_rows(set, FIND_NEWEST, dids, n, found);

	for (int i = 0; i < *found; i++)
		rows[i].whole = true;
	return rows;
}

AtpPlcStored *
atp_plc_read_logs(AtpStatements *set, struct varlena **dids, int n, int *found)
{
	return read_rows(set, FIND_LOGS, dids, n, found);
}

static const AtpType place_types[] = {ATP_TYPE_DID, ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_END};

void
atp_plc_read_packed(AtpStatements *set, AtpPlcStored **rows, int n)
{
	AtpRows    *places = atp_rows_create(set, place_types, n);
	Datum		args[3];
	uint64		found;

	for (int i = 0; i < n; i++)
	{
		atp_put_ref(places, rows[i]->did);
		atp_put(places, Int32GetDatum(rows[i]->n), false);
		atp_put(places, Int32GetDatum(i), false);
	}
	if (n == 0)
		return;
	atp_rows_bind(places, args);
	found = atp_execute(set, &operation_statements[FIND_PACKED], args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		Datum		v[2];
		bool		null[2];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		rows[DatumGetInt32(v[0])]->whole = true;
		rows[DatumGetInt32(v[0])]->packed = null[1] ? NULL : copy_varlena(v[1]);
	}
	SPI_freetuptable(SPI_tuptable);
}

static const AtpType refused_types[] = {ATP_TYPE_DID, ATP_TYPE_BYTEA, ATP_TYPE_INT4, ATP_TYPE_END};

void
atp_plc_find_refused(AtpStatements *set, struct varlena *const *dids, const uint8_t *const *cids, int n, bool *refused)
{
	AtpRows    *rows = atp_rows_create(set, refused_types, Max(n, 1));
	Datum		args[3];
	uint64		found;

	for (int i = 0; i < n; i++)
	{
		refused[i] = false;
		atp_put_ref(rows, dids[i]);
		atp_put_ref(rows, atp_varlena(cids[i] + 4, 32));
		atp_put(rows, Int32GetDatum(i), false);
	}
	if (n == 0)
		return;
	atp_rows_bind(rows, args);
	found = atp_execute(set, &refused_statements[FIND_REFUSED], args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		bool		isnull;

		refused[DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull))] = true;
	}
	SPI_freetuptable(SPI_tuptable);
}

static AtpPlcEntries
read_entries(AtpStatements *set, const AtpStatement *statement, struct varlena *const *dids, int n)
{
	Datum	   *values = palloc(Max(n, 1) * sizeof(Datum));
	Datum		args[1];
	AtpPlcEntries in;
	int			found;

	for (int i = 0; i < n; i++)
		values[i] = PointerGetDatum(dids[i]);
	args[0] = atp_array(set, ATP_TYPE_DID, values, NULL, n);
	found = (int) atp_execute(set, statement, args, NULL);
	in.n = 0;
	in.entries = palloc_extended(sizeof(AtpPlcStoredEntry) * Max(found, 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (int i = 0; i < found; i++)
	{
		Datum		v[3];
		bool		null[3];
		struct varlena *text;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		if (null[2])
			continue;
		text = copy_varlena(v[2]);
		in.entries[in.n++] = (AtpPlcStoredEntry) {
			.account = DatumGetInt32(v[0]) - 1, .seq = null[1] ? 0 : DatumGetInt64(v[1]),
			.text = {(const uint8_t *) VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text)}
		};
	}
	SPI_freetuptable(SPI_tuptable);
	return in;
}

AtpPlcEntries
atp_plc_read_waiting(AtpStatements *set, struct varlena *const *dids, int n)
{
	return read_entries(set, &refused_statements[FIND_WAITING], dids, n);
}

AtpPlcEntries
atp_plc_read_stored(AtpStatements *set, struct varlena *const *dids, int n)
{
	return read_entries(set, &operation_statements[FIND_ENTRIES], dids, n);
}

/* --- rows in --- */

struct AtpPlcWriter
{
	AtpStatements *set;
	const char *subscription;
	AtpRows    *operations;
	AtpRows    *refused;
	AtpRows    *nullified;
	AtpRows    *replaced;
	uint64		nreplaced;		/* rows of the table that are replaced */
	AtpRows    *forgiven;
	AtpRows    *corrected;
};

static const AtpType nullified_types[] = {ATP_TYPE_DID, ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_END};
static const AtpType replaced_types[] = {ATP_TYPE_DID, ATP_TYPE_INT4, ATP_TYPE_END};
static const AtpType corrected_types[] = {ATP_TYPE_DID, ATP_TYPE_BYTEA, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_END};
static const AtpType forgiven_types[] = {ATP_TYPE_DID, ATP_TYPE_BYTEA, ATP_TYPE_END};

AtpPlcWriter *
atp_plc_writer(AtpStatements *set, const char *subscription, int max)
{
	AtpPlcWriter *w = palloc0(sizeof(AtpPlcWriter));

	w->set = set;
	w->subscription = subscription;
	w->operations = atp_rows_of(set, &atp_plc_operation_table, Max(max, 1));
	w->refused = atp_rows_of(set, &atp_plc_refused_table, Max(max, 1));
	w->replaced = atp_rows_create(set, replaced_types, Max(max, 1));
	/* an operation whose row is replaced is known, and is put, too */
	w->forgiven = atp_rows_create(set, forgiven_types, 2 * Max(max, 1));
	w->corrected = atp_rows_create(set, corrected_types, Max(max, 1));
	return w;
}

void
atp_plc_put_known(AtpPlcWriter *w, struct varlena *did, const uint8_t *cid)
{
	atp_put_ref(w->forgiven, did);
	atp_put_ref(w->forgiven, atp_varlena(cid + 4, 32));
}

void
atp_plc_put_operation(AtpPlcWriter *w, const AtpPlcStored *row)
{
	AtpRows    *rows = w->operations;

	atp_put_ref(rows, row->did);
	atp_put_ref(rows, atp_cidlink_make(row->cid, sizeof(row->cid)));
	atp_put(rows, Int32GetDatum(row->n), false);
	atp_put(rows, Int32GetDatum(row->prev), row->prev == 0);
	atp_put(rows, Int32GetDatum(row->nullified_by), row->nullified_by == 0);
	atp_put(rows, TimestampTzGetDatum(row->created_at - ATP_UNIX_TO_POSTGRES), false);
	atp_put(rows, Int64GetDatum(row->seq), row->seq == 0);
	atp_put_ref(rows, row->packed);
	atp_plc_put_known(w, row->did, row->cid);
}

/* The number of nullified operations has no bound but the lengths of the logs. */
void
atp_plc_put_nullified(AtpPlcWriter *w, struct varlena *did, int32 n, int32 by)
{
	Datum		args[3];

	if (w->nullified == NULL)
		w->nullified = atp_rows_create(w->set, nullified_types, 1000);
	atp_put_ref(w->nullified, did);
	atp_put(w->nullified, Int32GetDatum(n), false);
	atp_put(w->nullified, Int32GetDatum(by), false);
	if (w->nullified->n < w->nullified->max)
		return;
	atp_rows_bind(w->nullified, args);
	(void) atp_execute(w->set, &operation_statements[NULLIFY], args, NULL);
	w->nullified = NULL;
}

void
atp_plc_put_replaced(AtpPlcWriter *w, struct varlena *did, int32 first, int32 n)
{
	atp_put_ref(w->replaced, did);
	atp_put(w->replaced, Int32GetDatum(first), false);
	w->nreplaced += n;
}

void
atp_plc_put_refused(AtpPlcWriter *w, const AtpEvent *event, const AtpPlcRow *row, AtpErr err)
{
	AtpRows    *rows = w->refused;

	atp_put_ref(rows, event->did);
	atp_put_ref(rows, atp_varlena(row->digest, sizeof(row->digest)));
	atp_put_ref(rows, cstring_to_text(atp_plc_reason(err)));
	atp_put_ref(rows, cstring_to_text(atp_err_text(err)));
	atp_put(rows, TimestampTzGetDatum(row->created_at - ATP_UNIX_TO_POSTGRES), row->created_at == 0);
	atp_put(rows, Int64GetDatum(event->seq), event->seq == 0);
	atp_put_ref(rows, event->message.len <= ATP_PLC_OP_MAX ? atp_varlena(event->message.ptr, event->message.len) : NULL);
	atp_put_ref(w->corrected, event->did);
	atp_put_ref(w->corrected, atp_varlena(row->digest, sizeof(row->digest)));
	atp_put_ref(w->corrected, cstring_to_text(atp_plc_reason(err)));
	atp_put_ref(w->corrected, cstring_to_text(atp_err_text(err)));
}

/* With so many conflicts in a row, no other source is the cause: a user's trigger or rule keeps rows in the table, or out, say. */
#define CONFLICTS_MAX	20

static int	conflicts = 0;		/* in a row */

/* sqlstate: of the error at the end. */
static void
check_conflict(bool conflict, int sqlstate)
{
	if (conflict)
		ereport(ERROR,
				(errcode(++conflicts % CONFLICTS_MAX == 0 ? sqlstate : ATP_ERRCODE_TRY_AGAIN),
				 errmsg("another source of the same tables has written operations of the same accounts")));
}

void
atp_plc_write(AtpPlcWriter *w)
{
	Datum		args[ATP_STATEMENT_ARGS];
	/* the events of the batch one by one replace no rows */
	int			sqlstate = w->replaced->n > 0 ? ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION : ERRCODE_T_R_SERIALIZATION_FAILURE;

	if (w->replaced->n > 0)
	{
		atp_rows_bind(w->replaced, args);
		check_conflict(atp_execute(w->set, &operation_statements[REPLACE], args, NULL) != w->nreplaced, sqlstate);
	}
	if (w->operations->n > 0)
	{
		atp_rows_bind(w->operations, args);
		check_conflict(atp_execute(w->set, &operation_statements[ADD], args, NULL) < (uint64) w->operations->n, sqlstate);
	}
	conflicts = 0;
	if (w->forgiven->n > 0)
	{
		atp_rows_bind(w->forgiven, args);
		(void) atp_execute(w->set, &refused_statements[FORGIVE], args, NULL);
	}
	if (w->nullified != NULL)
	{
		atp_rows_bind(w->nullified, args);
		(void) atp_execute(w->set, &operation_statements[NULLIFY], args, NULL);
	}
	if (w->refused->n > 0)
	{
		args[0] = PointerGetDatum(cstring_to_text(w->subscription));
		atp_rows_bind(w->refused, args + 1);
		if (atp_execute(w->set, &refused_statements[REFUSE], args, NULL) < (uint64) w->refused->n)
			(void) atp_execute(w->set, &refused_statements[REPEAT], args, NULL);
		atp_rows_bind(w->corrected, args);
		(void) atp_execute(w->set, &refused_statements[CORRECT], args, NULL);
	}
}
