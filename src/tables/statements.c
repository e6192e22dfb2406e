/*
 * statements.c
 *		The consumer's SQL statements on the data tables.
 *
 * Rows travel as arrays, one for each column, so that a batch is a handful of
 * statements; they are ordinary INSERT, UPDATE and DELETE, so triggers, row
 * security, generated columns, partitions and foreign keys do what they always
 * do.  (Tables that have none of that may be written as direct.c does it.)  The
 * arrays are of the extension's types, whatever the columns are; operators are
 * named with their schema, since the search_path is empty.
 *
 * The tables are their owner's, who may change a column's type at any time.  So
 * what comes back is compared with what is expected before it is believed.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "compat.h"
#include "config/extension.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "tables/statements.h"
#include "tables/table.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define MAX_ARGS	18

/*
 * How to plan.  A statement that joins its arrays with a table is planned each
 * time, for the table as it has grown by now; one that only inserts them is
 * planned once, and its large parameters are not copied into a plan.
 */
#define CUSTOM		1

/* A parameter that is one value of an AtpArrayType. */
#define SCALAR(type)	(1000 + (type))

#define SAME_RECORD \
	"r.did OPERATOR(@.=) u.did AND r.collection OPERATOR(@.=) u.collection AND r.rkey OPERATOR(@.=) u.rkey"

#define PUT_RECORDS \
	"INSERT INTO #.record AS r (did, collection, rkey, rev, cid, value, raw)" \
	" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)" \
	" ON CONFLICT (did, collection, rkey) DO UPDATE SET rev = excluded.rev," \
	" cid = excluded.cid, value = excluded.value, raw = excluded.raw, indexed_at = now()"
#define PUT_RECORDS_ARGS \
	7, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA}

#define DELETE_RECORDS \
	"DELETE FROM #.record r USING unnest($1, $2, $3, $4) u (did, collection, rkey, rev) WHERE " SAME_RECORD
#define DELETE_RECORDS_ARGS \
	4, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID}

#define ADD_EVENTS \
	"INSERT INTO #.record_event (subscription, seq, action, did, collection, rkey, rev, cid, value, raw, old_cid, old_value)" \
	" SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
#define ADD_EVENTS_ARGS \
	12, {-TEXTOID, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, \
	 ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA, ATP_ARRAY_CID, ATP_ARRAY_JSONB}

/*
 * Records of deleted accounts.  Their revision is tested on the row that goes:
 * when somebody else has just written it, READ COMMITTED looks again at that row
 * and at no other.
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

/* The same with an event for each; subscription and seq are SQL. */
#define WITH_EVENTS(removal, subscription, seq) \
	"WITH gone AS (" removal " RETURNING r.did, r.collection, r.rkey, r.rev, r.cid, r.value, " seq " AS seq)" \
	" INSERT INTO #.record_event (subscription, seq, action, did, collection, rkey, rev, old_cid, old_value)" \
	" SELECT " subscription ", seq, 'delete', did, collection, rkey, rev, cid, value FROM gone"
#define ERASE_WITH_EVENTS	WITH_EVENTS(ERASE, "$4", "$5")
#define PURGE_WITH_EVENTS	WITH_EVENTS(PURGE, "$2", "COALESCE(u.purge_seq, 0)")
#define ERASE_ARGS	3, {-INT8OID, SCALAR(ATP_ARRAY_DID), SCALAR(ATP_ARRAY_TID)}
#define ERASE_WITH_EVENTS_ARGS	5, {-INT8OID, SCALAR(ATP_ARRAY_DID), SCALAR(ATP_ARRAY_TID), -TEXTOID, -INT8OID}

/* Where rows of record_event lie, which are to go again. */
#define PLACES	" RETURNING tableoid, ctid"
#define PLACES_RESULT	2, {-OIDOID, -TIDOID}

/* subscription, digest, path, seq, stage, sqlstate, message, did */
#define LETTER_ARGS \
	{-TEXTOID, -BYTEAOID, -TEXTOID, -INT8OID, -TEXTOID, -TEXTOID, -TEXTOID, SCALAR(ATP_ARRAY_DID)}

/* # stands for the schema of the data tables, @ for that of our operators. */
static const struct
{
	const char *sql;
	int			nargs;
	/* >= 0: array of that AtpArrayType, or one value of it; < 0: minus the type's OID */
	int			args[MAX_ARGS];
	int			result;
	int			planning;		/* CUSTOM, or 0: once */
	int			uses;			/* tables: ATP_USE_... */
	int			ncolumns;		/* that come back and are read */
	int			columns[MAX_ARGS];	/* of what type: as args, but no arrays */
}			statements[ATP_SQL_COUNT] = {
	[ATP_SQL_LOCK_REPOS] = {
		/* foreign keys to the table need not wait for us, nor we for them */
		"SELECT r.did, rev, first_rev, commit, data, active, status, status_at, status_endpoint, status_seq, host, handle,"
		" desynchronized, deleted_rev, refill_by, refill_rev, updated_at"
		" FROM unnest($1) u (did) JOIN #.repo r ON r.did OPERATOR(@.=) u.did"
		" ORDER BY r.did FOR NO KEY UPDATE OF r",
		1, {ATP_ARRAY_DID}, SPI_OK_SELECT, CUSTOM, ATP_USE_REPOS,
		17, {SCALAR(ATP_ARRAY_DID), SCALAR(ATP_ARRAY_TID), SCALAR(ATP_ARRAY_TID), SCALAR(ATP_ARRAY_CID),
			SCALAR(ATP_ARRAY_CID), -BOOLOID, -TEXTOID, -TIMESTAMPTZOID, -TEXTOID, -INT8OID, -TEXTOID, SCALAR(ATP_ARRAY_HANDLE),
		-BOOLOID, SCALAR(ATP_ARRAY_TID), -TEXTOID, SCALAR(ATP_ARRAY_TID), -TIMESTAMPTZOID}
	},
	[ATP_SQL_ADD_REPOS] = {
		"INSERT INTO #.repo (did) SELECT d FROM unnest($1) d ON CONFLICT DO NOTHING",
		1, {ATP_ARRAY_DID}, SPI_OK_INSERT, 0, ATP_USE_REPOS
	},
	[ATP_SQL_SET_REPOS] = {
		"UPDATE #.repo r SET rev = u.rev, first_rev = u.first_rev, commit = u.commit, data = u.data, active = u.active,"
		" status = u.status, status_at = u.status_at, status_endpoint = u.status_endpoint,"
		" status_seq = u.status_seq, host = u.host, handle = u.handle,"
		" desynchronized = u.desynchronized, deleted_rev = u.deleted_rev, refill_by = u.refill_by,"
		" refill_rev = u.refill_rev, updated_at = u.updated_at"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) u"
		" (did, rev, first_rev, commit, data, active, status, status_at, status_endpoint, status_seq, host, handle,"
		" desynchronized, deleted_rev, refill_by, refill_rev, updated_at)"
		" WHERE r.did OPERATOR(@.=) u.did",
		17, {ATP_ARRAY_DID, ATP_ARRAY_TID, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_CID, ATP_ARRAY_BOOL,
			ATP_ARRAY_TEXT, ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TEXT, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_HANDLE,
		ATP_ARRAY_BOOL, ATP_ARRAY_TID, ATP_ARRAY_TEXT, ATP_ARRAY_TID, ATP_ARRAY_TIMESTAMP},
		SPI_OK_UPDATE, CUSTOM, ATP_USE_REPOS
	},
	/* never an older one, whoever has written the record meanwhile */
	[ATP_SQL_PUT_RECORDS] = {
		PUT_RECORDS " WHERE r.rev OPERATOR(@.<=) excluded.rev", PUT_RECORDS_ARGS, SPI_OK_INSERT, 0, ATP_USE_REPOS
	},
	[ATP_SQL_PUT_OLDER_RECORDS] = {
		PUT_RECORDS " WHERE r.rev OPERATOR(@.<) excluded.rev", PUT_RECORDS_ARGS, SPI_OK_INSERT, 0, ATP_USE_REPOS
	},
	[ATP_SQL_DELETE_RECORDS] = {
		DELETE_RECORDS " AND r.rev OPERATOR(@.<=) u.rev", DELETE_RECORDS_ARGS, SPI_OK_DELETE, CUSTOM, ATP_USE_REPOS
	},
	[ATP_SQL_DELETE_OLDER_RECORDS] = {
		DELETE_RECORDS " AND r.rev OPERATOR(@.<) u.rev", DELETE_RECORDS_ARGS, SPI_OK_DELETE, CUSTOM, ATP_USE_REPOS
	},
	[ATP_SQL_OLD_RECORDS] = {
		"SELECT u.n, r.rev, r.cid, r.value FROM unnest($1, $2, $3, $4) u (did, collection, rkey, n)"
		" JOIN #.record r ON " SAME_RECORD " FOR NO KEY UPDATE OF r",
		4, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_INT4}, SPI_OK_SELECT, CUSTOM, ATP_USE_REPOS,
		4, {-INT4OID, SCALAR(ATP_ARRAY_TID), SCALAR(ATP_ARRAY_CID), -JSONBOID}
	},
	[ATP_SQL_LAST_REV] = {
		"SELECT rev FROM #.record WHERE did OPERATOR(@.=) $1 ORDER BY rev DESC LIMIT 1",
		1, {SCALAR(ATP_ARRAY_DID)}, SPI_OK_SELECT, 0, ATP_USE_REPOS, 1, {SCALAR(ATP_ARRAY_TID)}
	},
	[ATP_SQL_ERASE_RECORDS] = {ERASE, ERASE_ARGS, SPI_OK_DELETE, 0, ATP_USE_REPOS},
	[ATP_SQL_ERASE_KEEP] = {
		ERASE_WITH_EVENTS, ERASE_WITH_EVENTS_ARGS, SPI_OK_INSERT, 0, ATP_USE_REPOS | ATP_USE_EVENTS
	},
	[ATP_SQL_ERASE_HAND] = {
		ERASE_WITH_EVENTS PLACES, ERASE_WITH_EVENTS_ARGS, SPI_OK_INSERT_RETURNING, 0, ATP_USE_REPOS | ATP_USE_EVENTS,
		PLACES_RESULT
	},
	[ATP_SQL_LEAVE_TO_PURGE] = {
		"UPDATE #.repo SET purge_rev = GREATEST(purge_rev, $2), purge_seq = $3 WHERE did OPERATOR(@.=) $1 AND EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) $1 AND o.rev OPERATOR(@.<=) $2)",
		3, {SCALAR(ATP_ARRAY_DID), SCALAR(ATP_ARRAY_TID), -INT8OID}, SPI_OK_UPDATE, 0, ATP_USE_REPOS
	},
	[ATP_SQL_PURGE_RECORDS] = {PURGE, 1, {-INT8OID}, SPI_OK_DELETE, 0, ATP_USE_REPOS},
	[ATP_SQL_PURGE_KEEP] = {
		PURGE_WITH_EVENTS, 2, {-INT8OID, -TEXTOID}, SPI_OK_INSERT, 0, ATP_USE_REPOS | ATP_USE_EVENTS
	},
	[ATP_SQL_PURGE_HAND] = {
		PURGE_WITH_EVENTS PLACES, 2, {-INT8OID, -TEXTOID}, SPI_OK_INSERT_RETURNING, 0, ATP_USE_REPOS | ATP_USE_EVENTS,
		PLACES_RESULT
	},
	[ATP_SQL_LOCK_PURGED] = {
		"SELECT FROM #.repo WHERE purge_rev IS NOT NULL ORDER BY did FOR NO KEY UPDATE",
		0, {0}, SPI_OK_SELECT, 0, ATP_USE_REPOS
	},
	[ATP_SQL_PURGE_DONE] = {
		"UPDATE #.repo p SET purge_rev = NULL WHERE p.purge_rev IS NOT NULL AND NOT EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev)",
		0, {0}, SPI_OK_UPDATE, 0, ATP_USE_REPOS
	},
	[ATP_SQL_LOCK_RECORD] = {
		"SELECT r.rev FROM #.record r, unnest($1, $2, $3) u (did, collection, rkey)"
		" WHERE " SAME_RECORD " FOR NO KEY UPDATE OF r",
		3, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY}, SPI_OK_SELECT, CUSTOM, ATP_USE_REPOS,
		1, {SCALAR(ATP_ARRAY_TID)}
	},
	[ATP_SQL_MARK_REPOS] = {
		"UPDATE #.repo r SET desynchronized = true, updated_at = now() FROM unnest($1) u (did)"
		" WHERE r.did OPERATOR(@.=) u.did AND NOT r.desynchronized",
		1, {ATP_ARRAY_DID}, SPI_OK_UPDATE, CUSTOM, ATP_USE_REPOS
	},
	[ATP_SQL_ADD_EVENTS] = {ADD_EVENTS, ADD_EVENTS_ARGS, SPI_OK_INSERT, 0, ATP_USE_EVENTS},
	[ATP_SQL_HAND_EVENTS] = {
		ADD_EVENTS PLACES, ADD_EVENTS_ARGS, SPI_OK_INSERT_RETURNING, 0, ATP_USE_EVENTS, PLACES_RESULT
	},
	[ATP_SQL_TAKE_EVENTS] = {
		/* places repeat when somebody has partitioned the table */
		"DELETE FROM #.record_event e WHERE e.ctid = ANY ($2)"
		" AND EXISTS (SELECT FROM unnest($1, $2) u (relid, place) WHERE u.relid = e.tableoid AND u.place = e.ctid)",
		2, {-OIDARRAYOID, -TIDARRAYOID}, SPI_OK_DELETE, 0, ATP_USE_EVENTS
	},
	[ATP_SQL_PUT_LABELS] = {
		"INSERT INTO #.label AS l (src, uri, val, cid, neg, cts, exp, ver, sig, seq)"
		" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		" ON CONFLICT (uri, src, val) DO UPDATE SET cid = excluded.cid, neg = excluded.neg,"
		" cts = excluded.cts, exp = excluded.exp, ver = excluded.ver, sig = excluded.sig,"
		" seq = excluded.seq, indexed_at = now() WHERE (excluded.cts, excluded.seq) > (l.cts, l.seq)",
		10, {ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_TEXT, ATP_ARRAY_CID, ATP_ARRAY_BOOL,
			ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TIMESTAMP, ATP_ARRAY_INT4, ATP_ARRAY_BYTEA,
		ATP_ARRAY_INT8}, SPI_OK_INSERT, 0, ATP_USE_LABELS
	},
	[ATP_SQL_ADD_MESSAGES] = {
		"INSERT INTO #.message (subscription, endpoint, seq, type, payload, raw)"
		" SELECT $1, $2, * FROM unnest($3, $4, $5, $6) ON CONFLICT (subscription, endpoint, seq) DO NOTHING",
		6, {-TEXTOID, -TEXTOID, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA},
		SPI_OK_INSERT, 0, ATP_USE_MESSAGES
	},
	[ATP_SQL_COUNT_LETTERS] = {
		"SELECT (SELECT count(*) FROM atproto.dead_letter WHERE subscription = $1),"
		" (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.dead_frame WHERE subscription = $1)",
		1, {-TEXTOID}, SPI_OK_SELECT, 0, 0, 2, {-INT8OID, -INT8OID}
	},
	[ATP_SQL_COUNT_LETTERS_OF] = {
		"WITH d AS (SELECT digest FROM atproto.dead_letter WHERE subscription = $1 AND did OPERATOR(@.=) $2)"
		" SELECT (SELECT count(*) FROM d), (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint"
		"  FROM atproto.dead_frame WHERE subscription = $1 AND digest IN (SELECT digest FROM d))",
		2, {-TEXTOID, SCALAR(ATP_ARRAY_DID)}, SPI_OK_SELECT, 0, 0, 2, {-INT8OID, -INT8OID}
	},
	[ATP_SQL_FIND_FRAME] = {
		"SELECT FROM atproto.dead_frame WHERE subscription = $1 AND digest = $2",
		2, {-TEXTOID, -BYTEAOID}, SPI_OK_SELECT
	},
	[ATP_SQL_ADD_FRAME] = {
		/* a row that is there is locked, and not changed */
		"INSERT INTO atproto.dead_frame AS f (subscription, digest, bytes) VALUES ($1, $2, $3)"
		" ON CONFLICT (subscription, digest) DO UPDATE SET bytes = f.bytes WHERE false",
		3, {-TEXTOID, -BYTEAOID, -BYTEAOID}, SPI_OK_INSERT
	},
	[ATP_SQL_REPEAT_LETTER] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), seq = $4,"
		" stage = $5, sqlstate = $6, message = $7, did = $8"
		" WHERE subscription = $1 AND digest = $2 AND path = $3",
		8, LETTER_ARGS, SPI_OK_UPDATE
	},
	[ATP_SQL_ADD_LETTER] = {
		"INSERT INTO atproto.dead_letter (subscription, digest, path, seq, stage, sqlstate, message, did)"
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
		/* an id that somebody has taken is an error */
		" ON CONFLICT (subscription, digest, path) DO NOTHING",
		8, LETTER_ARGS, SPI_OK_INSERT
	},
	[ATP_SQL_REPEAT_BEYOND] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + $4, last_at = now(), seq = $3"
		" WHERE subscription = $1 AND did OPERATOR(@.=) $2 AND stage = 'beyond'",
		4, {-TEXTOID, SCALAR(ATP_ARRAY_DID), -INT8OID, -INT8OID}, SPI_OK_UPDATE
	},
	[ATP_SQL_ADD_BEYOND] = {
		"INSERT INTO atproto.dead_letter (subscription, did, seq, attempts, stage, sqlstate, message)"
		" VALUES ($1, $2, $3, $4, 'beyond', '54000',"
		"  'this repository has its share of the dead letters: what else of it could not be processed is not kept')"
		" ON CONFLICT (subscription, did) WHERE stage = 'beyond' DO NOTHING",
		4, {-TEXTOID, SCALAR(ATP_ARRAY_DID), -INT8OID, -INT8OID}, SPI_OK_INSERT
	},
	[ATP_SQL_FORGET_LETTERS] = {
		"DELETE FROM atproto.dead_letter d USING unnest($2, $3, $4) u (did, path, seq)"
		" WHERE d.subscription = $1 AND d.did OPERATOR(@.=) u.did AND d.seq < u.seq"
		" AND (u.path IS NULL OR d.path = u.path)",
		4, {-TEXTOID, ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_INT8}, SPI_OK_DELETE
	},
	[ATP_SQL_ADD_GAP] = {
		"INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason)"
		" VALUES ($1, $2, $3, $4, $5)",
		5, {-TEXTOID, -TEXTOID, -INT8OID, -INT8OID, -TEXTOID}, SPI_OK_INSERT
	},
	[ATP_SQL_LOCK_CURSOR] = {
		"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3"
		" FOR NO KEY UPDATE SKIP LOCKED",
		3, {-TEXTOID, -TEXTOID, -INT4OID}, SPI_OK_SELECT
	},
	[ATP_SQL_LOCK_SUBSCRIPTION] = {
		"SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE SKIP LOCKED",
		1, {-TEXTOID}, SPI_OK_SELECT
	},
	[ATP_SQL_FIND_CURSOR] = {
		"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3",
		3, {-TEXTOID, -TEXTOID, -INT4OID}, SPI_OK_SELECT
	},
	[ATP_SQL_AWAIT_CURSOR] = {
		"SELECT FROM atproto.subscription s JOIN atproto.cursor c ON c.subscription = s.name"
		" WHERE s.name = $1 AND c.endpoint = $2 AND c.shard = $3 FOR KEY SHARE OF s FOR NO KEY UPDATE OF c",
		3, {-TEXTOID, -TEXTOID, -INT4OID}, SPI_OK_SELECT
	},
	[ATP_SQL_MOVE_CURSOR] = {
		"UPDATE atproto.cursor SET seq = $4, event_time = COALESCE($5, event_time),"
		" events = events + $6, record_ops = record_ops + $7,"
		" updated_at = now()"
		" WHERE subscription = $1 AND endpoint = $2 AND shard = $8 AND seq IS NOT DISTINCT FROM $3"
		/* nor is that of a stream which is shared otherwise by now */
		" AND layout = $10"
		/* that of another subscription of the same name is another cursor */
		" AND EXISTS (SELECT FROM atproto.subscription s WHERE s.name = $1 AND s.created_at = $9)",
		10, {-TEXTOID, -TEXTOID, -INT8OID, -INT8OID, -TIMESTAMPTZOID, -INT8OID, -INT8OID, -INT4OID,
		-TIMESTAMPTZOID, -INT4OID}, SPI_OK_UPDATE
	},
};

/* Our types by name; the type tid is always in the schema atproto. */
static const char *const our_types[ATP_ARRAY_OURS] = {"did", "nsid", "recordkey", "cidlink", "tid", "handle"};

/* Columns of our types: what an assignment would make of another type, nobody asks. */
static const struct
{
	int			use;
	const char *table;
	const char *column;
	AtpArrayType type;
}			our_columns[] = {
	{ATP_USE_REPOS, "record", "did", ATP_ARRAY_DID},
	{ATP_USE_REPOS, "record", "collection", ATP_ARRAY_NSID},
	{ATP_USE_REPOS, "record", "rkey", ATP_ARRAY_RKEY},
	{ATP_USE_REPOS, "record", "cid", ATP_ARRAY_CID},
	{ATP_USE_REPOS, "record", "rev", ATP_ARRAY_TID},
	{ATP_USE_REPOS, "repo", "did", ATP_ARRAY_DID},
	{ATP_USE_REPOS, "repo", "rev", ATP_ARRAY_TID},
	{ATP_USE_REPOS, "repo", "first_rev", ATP_ARRAY_TID},
	{ATP_USE_REPOS, "repo", "commit", ATP_ARRAY_CID},
	{ATP_USE_REPOS, "repo", "data", ATP_ARRAY_CID},
	{ATP_USE_REPOS, "repo", "handle", ATP_ARRAY_HANDLE},
	{ATP_USE_REPOS, "repo", "purge_rev", ATP_ARRAY_TID},
	{ATP_USE_REPOS, "repo", "deleted_rev", ATP_ARRAY_TID},
	{ATP_USE_REPOS, "repo", "refill_rev", ATP_ARRAY_TID},
	{ATP_USE_EVENTS, "record_event", "did", ATP_ARRAY_DID},
	{ATP_USE_EVENTS, "record_event", "collection", ATP_ARRAY_NSID},
	{ATP_USE_EVENTS, "record_event", "rkey", ATP_ARRAY_RKEY},
	{ATP_USE_EVENTS, "record_event", "rev", ATP_ARRAY_TID},
	{ATP_USE_EVENTS, "record_event", "cid", ATP_ARRAY_CID},
	{ATP_USE_EVENTS, "record_event", "old_cid", ATP_ARRAY_CID},
	{ATP_USE_LABELS, "label", "src", ATP_ARRAY_DID},
	{ATP_USE_LABELS, "label", "cid", ATP_ARRAY_CID},
};

typedef struct ElementType
{
	Oid			oid;
	Oid			array;
	int16		len;
	bool		byval;
	char		align;
} ElementType;

static char target[NAMEDATALEN];
static ElementType elements[ATP_ARRAY_COUNT];
static bool elements_loaded;
static int	checked;			/* ATP_USE_... whose columns are of the right types */
static SPIPlanPtr plans[ATP_SQL_COUNT];
static bool in_use;

void
atp_statements_target(const char *schema)
{
	/* a trigger that calls us would free the plan that runs it */
	if (in_use)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dead letters cannot be tried again by a trigger of the tables that are being filled")));
	in_use = true;
	strlcpy(target, schema, sizeof(target));
	elements_loaded = false;
	checked = 0;
	for (int i = 0; i < ATP_SQL_COUNT; i++)
	{
		if (plans[i] != NULL)
			SPI_freeplan(plans[i]);
		plans[i] = NULL;
	}
}

void
atp_statements_release(void)
{
	in_use = false;
}

static void
load_element(AtpArrayType type, Oid oid)
{
	ElementType *e = &elements[type];

	e->oid = oid;
	e->array = get_array_type(oid);
	get_typlenbyvalalign(oid, &e->len, &e->byval, &e->align);
}

Oid
atp_target_table(const char *name)
{
	return get_relname_relid(name, get_namespace_oid(target, false));
}

static void
load_elements(void)
{
	Oid			schema = atp_extension_namespace();

	for (int i = 0; i < ATP_ARRAY_OURS; i++)
		load_element(i, GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(our_types[i]),
										ObjectIdGetDatum(i == ATP_ARRAY_TID ? get_namespace_oid("atproto", false) : schema)));
	load_element(ATP_ARRAY_JSONB, JSONBOID);
	load_element(ATP_ARRAY_BYTEA, BYTEAOID);
	load_element(ATP_ARRAY_BOOL, BOOLOID);
	load_element(ATP_ARRAY_TEXT, TEXTOID);
	load_element(ATP_ARRAY_INT4, INT4OID);
	load_element(ATP_ARRAY_INT8, INT8OID);
	load_element(ATP_ARRAY_TIMESTAMP, TIMESTAMPTZOID);
	elements_loaded = true;
}

/* The tables' columns of our types, or domains over them. */
static void
check_columns(int uses)
{
	for (int i = 0; i < lengthof(our_columns); i++)
	{
		const char *table = our_columns[i].table;
		const char *column = our_columns[i].column;
		Oid			relid;
		AttrNumber	attnum;
		Oid			base;

		if (!(our_columns[i].use & uses & ~checked))
			continue;
		relid = atp_target_table(table);
		attnum = OidIsValid(relid) ? get_attnum(relid, column) : InvalidAttrNumber;
		if (attnum == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("schema \"%s\" has no table \"%s\" with a column \"%s\"", target, table, column),
					 errhint("Run SELECT atproto.create_tables('%s').", target)));
		base = getBaseType(get_atttype(relid, attnum));
		if (base != elements[our_columns[i].type].oid)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of table \"%s.%s\" is of type %s, not %s",
							column, target, table, format_type_be(base), our_types[our_columns[i].type])));
	}
	checked |= uses;
}

static Oid
type_of(int arg)
{
	return arg >= SCALAR(0) ? elements[arg - SCALAR(0)].oid
		: arg < 0 ? (Oid) -arg : elements[arg].array;
}

static SPIPlanPtr
plan_of(AtpStatement statement)
{
	if (plans[statement] == NULL)
	{
		char	   *sql;
		Oid			types[MAX_ARGS];
		SPIPlanPtr	plan;

		if (!elements_loaded)
			load_elements();
		check_columns(statements[statement].uses);
		sql = atp_expand_sql(statements[statement].sql, target);
		for (int i = 0; i < statements[statement].nargs; i++)
			types[i] = type_of(statements[statement].args[i]);
		plan = SPI_prepare_cursor(sql, statements[statement].nargs, types,
								  statements[statement].planning == CUSTOM
								  ? CURSOR_OPT_CUSTOM_PLAN : CURSOR_OPT_GENERIC_PLAN);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
		plans[statement] = plan;
	}
	return plans[statement];
}

/*
 * Are the columns that came back of the types that are expected, or such as can be
 * taken for them?
 */
static void
check_result(AtpStatement statement, TupleDesc desc)
{
	for (int i = 0; i < statements[statement].ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Oid			expected = type_of(statements[statement].columns[i]);

		if (att->atttypid != expected && !IsBinaryCoercible(att->atttypid, expected))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of a table in schema \"%s\" is of type %s, not %s",
							NameStr(att->attname), target, format_type_be(att->atttypid), format_type_be(expected))));
	}
}

uint64
atp_execute(AtpStatement statement, Datum *values, const char *nulls)
{
	MemoryContext old = CurrentMemoryContext;
	int			rc = SPI_execute_plan(plan_of(statement), values, nulls, false, 0);

	/* SPI leaves its own behind */
	MemoryContextSwitchTo(old);
	/* that is no passing fault, which another attempt would heal */
	if (rc != statements[statement].result)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rules make a statement on a table in schema \"%s\" into another one", target),
				 errdetail_internal("\"%s\" gives %s.", statements[statement].sql, SPI_result_code_string(rc))));
	if (statements[statement].ncolumns > 0)
		check_result(statement, SPI_tuptable->tupdesc);
	return SPI_processed;
}

/* The tables of the target schema, and what for. */
static const struct
{
	int			use;
	const char *name;
}			used_tables[] = {
	{ATP_USE_REPOS, "record"},
	{ATP_USE_REPOS, "repo"},
	{ATP_USE_EVENTS, "record_event"},
	{ATP_USE_LABELS, "label"},
	{ATP_USE_MESSAGES, "message"},
};

void
atp_statements_check(int uses)
{
	for (int i = 0; i < lengthof(used_tables); i++)
	{
		const AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE;
		const char *name = used_tables[i].name;
		Oid			relid;

		if (!(used_tables[i].use & uses))
			continue;
		relid = atp_target_table(name);
		if (!OidIsValid(relid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("schema \"%s\" has no table \"%s\"", target, name),
					 errhint("Run SELECT atproto.create_tables('%s').", target)));
		if (pg_class_aclmask(relid, GetUserId(), needed, ACLMASK_ALL) != needed)
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, name);
	}
	checked = 0;
	check_columns(uses);
	/* other columns, and keys: whatever planning asks for */
	for (int i = 0; i < ATP_SQL_COUNT; i++)
	{
		CachedPlan *plan;

		if (statements[i].uses & ~uses)
			continue;
		plan = SPI_plan_get_cached_plan(plan_of(i));
		if (plan != NULL)
			ReleaseCachedPlan(plan, CurrentResourceOwner);
		if (statements[i].ncolumns > 0)
			check_result(i, ((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan_of(i))))->resultDesc);
	}
}

bool
atp_statement_is_ordinary(AtpStatement statement)
{
	CachedPlan *plan = SPI_plan_get_cached_plan(plan_of(statement));
	PlannedStmt *planned = linitial_node(PlannedStmt, plan->stmt_list);
	bool		ordinary = IsA(planned->planTree, ModifyTable) || IsA(planned->planTree, LockRows);

	atp_check_permissions(planned);
	ReleaseCachedPlan(plan, CurrentResourceOwner);
	return ordinary;
}

Oid
atp_array_element(AtpArrayType type)
{
	if (!elements_loaded)
		load_elements();
	return elements[type].oid;
}

Datum
atp_array(AtpArrayType type, Datum *values, bool *nulls, int n)
{
	ElementType *e = &elements[type];
	int			lbound = 1;

	if (!elements_loaded)
		load_elements();
	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lbound,
											  e->oid, e->len, e->byval, e->align));
}

/*
 * Where the rows are now, which a trigger may have updated; false when one has been
 * moved to another partition, where nobody can tell which it is.
 */
static bool
follow_rows(const Datum *relids, Datum *ctids, uint64 n)
{
	bool		found = true;

	PushActiveSnapshot(GetLatestSnapshot());
	for (uint64 i = 0; i < n; i++)
	{
		Relation	rel = table_open(DatumGetObjectId(relids[i]), NoLock);
		ItemPointer place = (ItemPointer) DatumGetPointer(ctids[i]);
		TableScanDesc scan;
		TupleTableSlot *slot;
		bool		free_it;

		/* a partition may be a foreign table */
		if (rel->rd_rel->relkind != RELKIND_RELATION)
		{
			table_close(rel, NoLock);
			found = false;
			continue;
		}
		scan = table_beginscan_tid(rel, GetActiveSnapshot());
		slot = table_slot_create(rel, NULL);
		table_tuple_get_latest_tid(scan, place);
		if (table_tuple_fetch_row_version(rel, place, SnapshotAny, slot) &&
			HeapTupleHeaderIndicatesMovedPartitions(ExecFetchSlotHeapTuple(slot, false, &free_it)->t_data))
			found = false;
		ExecDropSingleTupleTableSlot(slot);
		table_endscan(scan);
		table_close(rel, NoLock);
	}
	PopActiveSnapshot();
	return found;
}

uint64
atp_hand_over(AtpStatement statement, Datum *args)
{
	uint64		n = atp_execute(statement, args, NULL);
	SPITupleTable *rows = SPI_tuptable;
	Datum	   *relids = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *ctids = palloc(sizeof(Datum) * Max(n, 1));
	Datum		take[2];
	char		kind = get_rel_relkind(atp_target_table("record_event"));
	bool		isnull;

	/* the columns of a view may have these names, and any content */
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s.record_event\" is not a table", target)));
	for (uint64 i = 0; i < n; i++)
	{
		relids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);
		ctids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 2, &isnull);
	}
	take[0] = PointerGetDatum(construct_array(relids, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	take[1] = PointerGetDatum(construct_array(ctids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
	if (n > 0 && atp_execute(ATP_SQL_TAKE_EVENTS, take, NULL) < n)
	{
		if (!follow_rows(relids, ctids, n))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a row that was inserted into table \"%s.record_event\" cannot be found again", target),
					 errdetail("It was moved to another partition, or is in a foreign table."),
					 errhint("Rows that are handed to triggers are removed again; set \"events\" to \"keep\".")));
		take[1] = PointerGetDatum(construct_array(ctids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
		(void) atp_execute(ATP_SQL_TAKE_EVENTS, take, NULL);
	}
	SPI_freetuptable(rows);
	return n;
}
