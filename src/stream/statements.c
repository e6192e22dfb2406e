/*
 * statements.c
 *		The consumer's SQL statements on the data tables.
 *
 * Rows travel as arrays, one for each column, so that a batch is a handful of
 * statements; they are ordinary INSERT, UPDATE and DELETE, so triggers, row
 * security, generated columns, partitions and foreign keys do what they always
 * do.  (Tables that have none of that may be written as direct.c does it.)  The
 * types are taken from the columns of the tables record and repo; operators are
 * named with their schema, since the search_path is empty.
 */
#include "postgres.h"

#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "stream/catalog.h"
#include "stream/family.h"
#include "stream/statements.h"
#include "stream/tables.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/resowner.h"

#define MAX_ARGS	12

/*
 * How to plan.  A statement that joins its arrays with a table is planned each
 * time, for the table as it has grown by now; one that only inserts them is
 * planned once, and its large parameters are not copied into a plan.
 */
#define CUSTOM		1

/* A parameter that is one DID. */
#define SCALAR_DID	INT_MAX

#define SAME_RECORD \
	"r.did OPERATOR(@.=) u.did AND r.collection OPERATOR(@.=) u.collection AND r.rkey OPERATOR(@.=) u.rkey"

#define PUT_RECORDS \
	"INSERT INTO #.record AS r (did, collection, rkey, rev, cid, value, raw)" \
	" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7)" \
	" ON CONFLICT (did, collection, rkey) DO UPDATE SET rev = excluded.rev," \
	" cid = excluded.cid, value = excluded.value, raw = excluded.raw, indexed_at = now()"
#define PUT_RECORDS_ARGS \
	{ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA}

#define ADD_EVENTS \
	"INSERT INTO #.record_event (subscription, seq, action, did, collection, rkey, rev, cid, value, raw)" \
	" SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10)"
#define ADD_EVENTS_ARGS \
	{-TEXTOID, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, \
	 ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA}

/* subscription, digest, path, seq, stage, sqlstate, message, did */
#define LETTER_ARGS \
	{-TEXTOID, -BYTEAOID, -TEXTOID, -INT8OID, -TEXTOID, -TEXTOID, -TEXTOID, SCALAR_DID}

/* # stands for the schema of the data tables, @ for that of our operators. */
static const struct
{
	const char *sql;
	int			nargs;
	int			args[MAX_ARGS]; /* >= 0: array of that AtpArrayType; < 0: minus the type's OID */
	int			result;
	int			planning;		/* CUSTOM, or 0: once */
}			statements[ATP_SQL_COUNT] = {
	[ATP_SQL_LOCK_REPOS] = {
		"SELECT r.did, rev, commit, data, active, status, status_at, host, handle, desynchronized, updated_at"
		" FROM unnest($1) u (did) JOIN #.repo r ON r.did OPERATOR(@.=) u.did"
		" ORDER BY r.did FOR UPDATE OF r",
		1, {ATP_ARRAY_DID}, SPI_OK_SELECT, CUSTOM
	},
	[ATP_SQL_ADD_REPOS] = {
		"INSERT INTO #.repo (did) SELECT d FROM unnest($1) d ON CONFLICT DO NOTHING",
		1, {ATP_ARRAY_DID}, SPI_OK_INSERT
	},
	[ATP_SQL_SET_REPOS] = {
		"UPDATE #.repo r SET rev = u.rev, commit = u.commit, data = u.data, active = u.active,"
		" status = u.status, status_at = u.status_at, host = u.host, handle = u.handle,"
		" desynchronized = u.desynchronized, updated_at = u.updated_at"
		" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) u"
		" (did, rev, commit, data, active, status, status_at, host, handle, desynchronized, updated_at)"
		" WHERE r.did OPERATOR(@.=) u.did",
		11, {ATP_ARRAY_DID, ATP_ARRAY_TID, ATP_ARRAY_CID, ATP_ARRAY_CID, ATP_ARRAY_BOOL,
			ATP_ARRAY_TEXT, ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TEXT, ATP_ARRAY_HANDLE, ATP_ARRAY_BOOL,
		ATP_ARRAY_TIMESTAMP}, SPI_OK_UPDATE, CUSTOM
	},
	[ATP_SQL_LEAVE_TO_PURGE] = {
		"UPDATE #.repo r SET purge_rev = u.rev FROM unnest($1, $2) u (did, rev) WHERE r.did OPERATOR(@.=) u.did",
		2, {ATP_ARRAY_DID, ATP_ARRAY_TID}, SPI_OK_UPDATE, CUSTOM
	},
	[ATP_SQL_PUT_RECORDS] = {PUT_RECORDS, 7, PUT_RECORDS_ARGS, SPI_OK_INSERT},
	[ATP_SQL_PUT_OLDER_RECORDS] = {
		PUT_RECORDS " WHERE r.rev OPERATOR(@.<) excluded.rev", 7, PUT_RECORDS_ARGS, SPI_OK_INSERT
	},
	[ATP_SQL_DELETE_RECORDS] = {
		"DELETE FROM #.record r USING unnest($1, $2, $3) u (did, collection, rkey)"
		" WHERE " SAME_RECORD,
		3, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY}, SPI_OK_DELETE, CUSTOM
	},
	[ATP_SQL_DELETE_OLDER_RECORDS] = {
		"DELETE FROM #.record r USING unnest($1, $2, $3, $4) u (did, collection, rkey, rev)"
		" WHERE " SAME_RECORD " AND r.rev OPERATOR(@.<) u.rev",
		4, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY, ATP_ARRAY_TID}, SPI_OK_DELETE, CUSTOM
	},
	[ATP_SQL_ERASE_RECORDS] = {
		"DELETE FROM #.record r USING"
		" (SELECT did, collection, rkey FROM #.record WHERE did OPERATOR(@.=) $1 LIMIT $2) u"
		" WHERE " SAME_RECORD,
		2, {SCALAR_DID, -INT8OID}, SPI_OK_DELETE
	},
	[ATP_SQL_PURGE_RECORDS] = {
		"DELETE FROM #.record r USING"
		" (SELECT o.did, o.collection, o.rkey FROM #.repo p"
		"  JOIN #.record o ON o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev"
		"  WHERE p.purge_rev IS NOT NULL LIMIT $1) u"
		" WHERE " SAME_RECORD,
		1, {-INT8OID}, SPI_OK_DELETE
	},
	[ATP_SQL_PURGE_DONE] = {
		/* not that of another subscription which has just begun */
		"UPDATE #.repo p SET purge_rev = NULL WHERE p.purge_rev IS NOT NULL AND NOT EXISTS"
		" (SELECT FROM #.record o WHERE o.did OPERATOR(@.=) p.did AND o.rev OPERATOR(@.<=) p.purge_rev)",
		0, {0}, SPI_OK_UPDATE
	},
	[ATP_SQL_LOCK_RECORD] = {
		"SELECT r.rev FROM #.record r, unnest($1, $2, $3) u (did, collection, rkey)"
		" WHERE " SAME_RECORD " FOR NO KEY UPDATE OF r",
		3, {ATP_ARRAY_DID, ATP_ARRAY_NSID, ATP_ARRAY_RKEY}, SPI_OK_SELECT, CUSTOM
	},
	[ATP_SQL_MARK_REPOS] = {
		"UPDATE #.repo r SET desynchronized = true, updated_at = now() FROM unnest($1) u (did)"
		" WHERE r.did OPERATOR(@.=) u.did AND NOT r.desynchronized",
		1, {ATP_ARRAY_DID}, SPI_OK_UPDATE, CUSTOM
	},
	[ATP_SQL_ADD_EVENTS] = {ADD_EVENTS, 10, ADD_EVENTS_ARGS, SPI_OK_INSERT},
	[ATP_SQL_HAND_EVENTS] = {
		ADD_EVENTS " RETURNING tableoid, ctid", 10, ADD_EVENTS_ARGS, SPI_OK_INSERT_RETURNING
	},
	[ATP_SQL_TAKE_EVENTS] = {
		/* places repeat when somebody has partitioned the table */
		"DELETE FROM #.record_event e WHERE e.ctid = ANY ($2)"
		" AND EXISTS (SELECT FROM unnest($1, $2) u (relid, place) WHERE u.relid = e.tableoid AND u.place = e.ctid)",
		2, {-OIDARRAYOID, -TIDARRAYOID}, SPI_OK_DELETE
	},
	[ATP_SQL_PUT_LABELS] = {
		"INSERT INTO #.label AS l (src, uri, val, cid, neg, cts, exp, ver, sig, seq)"
		" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
		" ON CONFLICT (uri, src, val) DO UPDATE SET cid = excluded.cid, neg = excluded.neg,"
		" cts = excluded.cts, exp = excluded.exp, ver = excluded.ver, sig = excluded.sig,"
		" seq = excluded.seq, indexed_at = now() WHERE (excluded.cts, excluded.seq) > (l.cts, l.seq)",
		10, {ATP_ARRAY_DID, ATP_ARRAY_TEXT, ATP_ARRAY_TEXT, ATP_ARRAY_CID, ATP_ARRAY_BOOL,
			ATP_ARRAY_TIMESTAMP, ATP_ARRAY_TIMESTAMP, ATP_ARRAY_INT4, ATP_ARRAY_BYTEA,
		ATP_ARRAY_INT8}, SPI_OK_INSERT
	},
	[ATP_SQL_ADD_MESSAGES] = {
		"INSERT INTO #.message (subscription, seq, type, payload, raw)"
		" SELECT $1, * FROM unnest($2, $3, $4, $5)",
		5, {-TEXTOID, ATP_ARRAY_INT8, ATP_ARRAY_TEXT, ATP_ARRAY_JSONB, ATP_ARRAY_BYTEA}, SPI_OK_INSERT
	},
	[ATP_SQL_COUNT_LETTERS] = {
		"SELECT (SELECT count(*) FROM atproto.dead_letter WHERE subscription = $1),"
		" (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.dead_frame WHERE subscription = $1)",
		1, {-TEXTOID}, SPI_OK_SELECT
	},
	[ATP_SQL_COUNT_LETTERS_OF] = {
		"WITH d AS (SELECT digest FROM atproto.dead_letter WHERE subscription = $1 AND did OPERATOR(@.=) $2)"
		" SELECT (SELECT count(*) FROM d), (SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint"
		"  FROM atproto.dead_frame WHERE subscription = $1 AND digest IN (SELECT digest FROM d))",
		2, {-TEXTOID, SCALAR_DID}, SPI_OK_SELECT
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
		" VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
		8, LETTER_ARGS, SPI_OK_INSERT
	},
	[ATP_SQL_REPEAT_BEYOND] = {
		"UPDATE atproto.dead_letter SET attempts = attempts + $4, last_at = now(), seq = $3"
		" WHERE subscription = $1 AND did OPERATOR(@.=) $2 AND stage = 'beyond'",
		4, {-TEXTOID, SCALAR_DID, -INT8OID, -INT8OID}, SPI_OK_UPDATE
	},
	[ATP_SQL_ADD_BEYOND] = {
		"INSERT INTO atproto.dead_letter (subscription, did, seq, attempts, stage, sqlstate, message)"
		" VALUES ($1, $2, $3, $4, 'beyond', '54000',"
		"  'this repository has its share of the dead letters: what else of it could not be processed is not kept')"
		" ON CONFLICT DO NOTHING",
		4, {-TEXTOID, SCALAR_DID, -INT8OID, -INT8OID}, SPI_OK_INSERT
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

static Oid
column_type(const char *table, const char *column)
{
	Oid			relid = atp_target_table(table);
	AttrNumber	attnum = OidIsValid(relid) ? get_attnum(relid, column) : InvalidAttrNumber;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\" with a column \"%s\"", target, table, column),
				 errhint("Run SELECT atproto.create_tables('%s').", target)));
	return get_atttype(relid, attnum);
}

/* A type of ours, or a domain over it: its values are made without asking it. */
static void
load_ours(AtpArrayType array, const char *type, const char *table, const char *column)
{
	Oid			oid = column_type(table, column);
	Oid			base = getBaseType(oid);
	char	   *name = format_type_be(base);
	char	   *last = strrchr(name, '.');

	if (getExtensionOfObject(TypeRelationId, base) != get_extension_oid("atproto", false) ||
		strcmp(last ? last + 1 : name, type) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s.%s\" is of type %s, not %s",
						column, target, table, name, type)));
	load_element(array, oid);
}

static void
load_elements(void)
{
	load_ours(ATP_ARRAY_DID, "did", "record", "did");
	load_ours(ATP_ARRAY_NSID, "nsid", "record", "collection");
	load_ours(ATP_ARRAY_RKEY, "recordkey", "record", "rkey");
	load_ours(ATP_ARRAY_CID, "cidlink", "record", "cid");
	load_ours(ATP_ARRAY_TID, "tid", "record", "rev");
	load_ours(ATP_ARRAY_HANDLE, "handle", "repo", "handle");
	load_element(ATP_ARRAY_JSONB, JSONBOID);
	load_element(ATP_ARRAY_BYTEA, BYTEAOID);
	load_element(ATP_ARRAY_BOOL, BOOLOID);
	load_element(ATP_ARRAY_TEXT, TEXTOID);
	load_element(ATP_ARRAY_INT4, INT4OID);
	load_element(ATP_ARRAY_INT8, INT8OID);
	load_element(ATP_ARRAY_TIMESTAMP, TIMESTAMPTZOID);
	elements_loaded = true;
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
		sql = atp_expand_sql(statements[statement].sql, target);
		for (int i = 0; i < statements[statement].nargs; i++)
		{
			int			arg = statements[statement].args[i];

			types[i] = arg == SCALAR_DID ? elements[ATP_ARRAY_DID].oid
				: arg < 0 ? (Oid) -arg : elements[arg].array;
		}
		plan = SPI_prepare_cursor(sql, statements[statement].nargs, types,
								  statements[statement].planning == CUSTOM
								  ? CURSOR_OPT_CUSTOM_PLAN : CURSOR_OPT_GENERIC_PLAN);
		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
		plans[statement] = plan;
	}
	return plans[statement];
}

uint64
atp_execute(AtpStatement statement, Datum *values, const char *nulls)
{
	MemoryContext old = CurrentMemoryContext;
	int			rc = SPI_execute_plan(plan_of(statement), values, nulls, false, 0);

	/* SPI leaves its own behind */
	MemoryContextSwitchTo(old);
	if (rc != statements[statement].result)
		elog(ERROR, "\"%s\" failed: %s", statements[statement].sql, SPI_result_code_string(rc));
	return SPI_processed;
}

void
atp_statements_check(void)
{
	static const char *const names[] = {"record", "repo", "record_event", "label", "message"};

	for (int i = 0; i < lengthof(names); i++)
	{
		Oid			relid = atp_target_table(names[i]);
		const AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE;

		if (!OidIsValid(relid))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("schema \"%s\" has no table \"%s\"", target, names[i]),
					 errhint("Run SELECT atproto.create_tables('%s').", target)));
		if (pg_class_aclmask(relid, GetUserId(), needed, ACLMASK_ALL) != needed)
			aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, names[i]);
	}
	/* columns, types and keys: whatever planning asks for */
	for (int i = 0; i < ATP_SQL_COUNT; i++)
	{
		CachedPlan *plan = SPI_plan_get_cached_plan(plan_of(i));

		if (plan != NULL)
			ReleaseCachedPlan(plan, CurrentResourceOwner);
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

void
atp_hand_over(Datum *args)
{
	uint64		n = atp_execute(ATP_SQL_HAND_EVENTS, args, NULL);
	SPITupleTable *rows = SPI_tuptable;
	Datum	   *relids = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *ctids = palloc(sizeof(Datum) * Max(n, 1));
	Datum		take[2];
	bool		isnull;

	for (uint64 i = 0; i < n; i++)
	{
		relids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);
		ctids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 2, &isnull);
	}
	take[0] = PointerGetDatum(construct_array(relids, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	take[1] = PointerGetDatum(construct_array(ctids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
	if (n > 0)
		(void) atp_execute(ATP_SQL_TAKE_EVENTS, take, NULL);
	SPI_freetuptable(rows);
}
