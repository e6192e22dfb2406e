/*
 * identity.c
 *		The rows of atproto.identity: see identity.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "lib/qunique.h"
#include "storage/bufmgr.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

int			atp_identity_ttl_s;

static const char *const state_names[] = {
	[ATP_IDENTITY_UNKNOWN] = "unknown",
	[ATP_IDENTITY_WANTED] = "wanted",
	[ATP_IDENTITY_GOOD] = "good",
	[ATP_IDENTITY_GONE] = "gone",
	[ATP_IDENTITY_INVALID] = "invalid",
	[ATP_IDENTITY_NO_KEY] = "no_key",
	[ATP_IDENTITY_NO_PDS] = "no_pds",
	[ATP_IDENTITY_UNREACHABLE] = "unreachable",
};

void
atp_identity_init(void)
{
	DefineCustomIntVariable("atproto.identity_ttl",
							"Age from which on an account's DID document is read again when the account has an event.",
							NULL, &atp_identity_ttl_s, 24 * 3600, 60, ATP_IDENTITY_DEAD_S,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

const char *
atp_identity_state_name(AtpIdentityState state)
{
	return state_names[state];
}

/* ------------------------------------------------------------------------
 * Statements
 * ------------------------------------------------------------------------
 */

AtpCaller
atp_as_table_owner(const char *table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_relation(table)));
	AtpCaller	caller;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "table \"%s\" does not exist", table);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	caller = atp_owner_begin(owner);
	atp_fix_search_path();
	atp_queue_wait_begin();
	return caller;
}

char *
atp_identity_sql(const char *sql)
{
	const char *schema = atp_extension_schema();
	StringInfoData out;

	initStringInfo(&out);
	for (; *sql != '\0'; sql++)
		if (*sql == '@')
			appendStringInfoString(&out, schema);
		else
			appendStringInfoChar(&out, *sql);
	return out.data;
}

int
atp_sort_dids(struct varlena **dids, int n)
{
	qsort(dids, n, sizeof(struct varlena *), atp_compare_did_refs);
	return qunique(dids, n, sizeof(struct varlena *), atp_compare_did_refs);
}

AtpArg
atp_did_arg(const struct varlena *did)
{
	return (AtpArg) {PointerGetDatum(did), atp_type("did"), did == NULL};
}

AtpArg
atp_dids_arg(struct varlena *const *dids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		Assert(i == 0 || atp_compare_dids(dids[i - 1], dids[i]) < 0);
		values[i] = PointerGetDatum(dids[i]);
	}
	return atp_array_arg(atp_type("did"), values, NULL, n);
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */
static AtpIdentityState
read_state(AtpTuple row)
{
	const char *name = atp_get_text(row, "state");

	for (int i = 0; i < lengthof(state_names); i++)
		if (strcmp(name, state_names[i]) == 0)
			return i;
	elog(ERROR, "unknown state \"%s\" of an identity", name);
}

static bool
read_key(AtpTuple row, const char *column, uint8_t key[ATP_MULTIKEY_LEN])
{
	bool		isnull;
	Datum		value = atp_get(row, column, BYTEAOID, &isnull);
	bytea	   *bytes = isnull ? NULL : DatumGetByteaPP(value);

	/* the table's owner may have dropped the CHECK on the key's length */
	if (bytes == NULL || VARSIZE_ANY_EXHDR(bytes) != ATP_MULTIKEY_LEN)
		return false;
	memcpy(key, VARDATA_ANY(bytes), ATP_MULTIKEY_LEN);
	return true;
}

static TimestampTz
read_time(AtpTuple row, const char *column)
{
	bool		isnull;
	Datum		value = atp_get(row, column, TIMESTAMPTZOID, &isnull);

	return isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
}

static struct varlena *
read_bytes(AtpTuple row, const char *column, Oid type)
{
	bool		isnull;
	Datum		value = atp_get(row, column, type, &isnull);

	return isnull ? NULL : PG_DETOAST_DATUM_COPY(value);
}

static List *
read_roles(AtpTuple row, const char *column)
{
	Datum	   *values;
	bool	   *nulls;
	List	   *roles = NIL;
	int			n = atp_get_array(row, column, OIDOID, &values, &nulls);

	for (int i = 0; i < n; i++)
		roles = lappend_oid(roles, DatumGetObjectId(values[i]));
	return roles;
}

static void
read_row(AtpTuple row, AtpIdentity *identity)
{
	identity->state = read_state(row);
	identity->has_key = read_key(row, "key", identity->key);
	identity->has_label_key = read_key(row, "label_key", identity->label_key);
	identity->pds = atp_get_text_or_null(row, "pds");
	identity->handle = read_bytes(row, "handle_claimed", atp_type("handle"));
	identity->handle_is_valid = strcmp(atp_get_text(row, "handle_state"), "valid") == 0;
	identity->resolved_at = read_time(row, "resolved_at");
	identity->asked_at = read_time(row, "asked_at");
	identity->denied_at = read_time(row, "denied_at");
	identity->next_try = read_time(row, "next_try");
	identity->log_time = read_time(row, "log_time");
	identity->from_log = false;
	identity->stale = atp_get_bool(row, "stale");
	identity->doubted_by = read_roles(row, "doubted_by");
	identity->tries = atp_get_int4(row, "tries");
	identity->error = atp_get_text_or_null(row, "error");
}

static const AtpIdentity unknown = {
	.state = ATP_IDENTITY_UNKNOWN,
	.resolved_at = DT_NOBEGIN, .asked_at = DT_NOBEGIN, .denied_at = DT_NOBEGIN, .next_try = DT_NOBEGIN,
	.log_time = DT_NOBEGIN
};

void
atp_identities_read(struct varlena *const *dids, int n, AtpIdentity *identities)
{
	AtpCaller	caller;
	AtpResult	found;

	for (int i = 0; i < n; i++)
		identities[i] = unknown;
	if (n == 0)
		return;
	caller = atp_as_table_owner("identity");
	found = atp_query(atp_identity_sql("SELECT u.n::int4 AS n, i.* FROM unnest($1) WITH ORDINALITY u (did, n)"
									   " JOIN atproto.identity i ON i.did OPERATOR(@.=) u.did"),
					  ATP_ARGS(atp_dids_arg(dids, n)));
	for (int i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);

		read_row(row, &identities[atp_get_int4(row, "n") - 1]);
	}
	atp_result_free(found);
	atp_owner_end(caller);
}

/* ------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------
 */

/* The columns written; each is one array parameter. */
enum
{
	STATE, KEY, LABEL_KEY, PDS, HANDLE, RESOLVED_AT, ASKED_AT, DENIED_AT, NEXT_TRY, TRIES, ERROR_TEXT, LOG_TIME, NCOLUMNS
};

static Datum
text_or_null(const char *s, bool *isnull)
{
	*isnull = s == NULL;
	return s == NULL ? (Datum) 0 : CStringGetTextDatum(s);
}

static Datum
key_or_null(bool has, const uint8_t key[ATP_MULTIKEY_LEN], bool *isnull)
{
	*isnull = !has;
	return has ? PointerGetDatum(atp_varlena(key, ATP_MULTIKEY_LEN)) : (Datum) 0;
}

static Datum
time_or_null(TimestampTz t, bool *isnull)
{
	*isnull = t == DT_NOBEGIN;
	return TimestampTzGetDatum(t);
}

void
atp_identities_try_lock(struct varlena *const *dids, int n, bool *is_free)
{
	AtpCaller	caller;
	AtpResult	found;

	if (n == 0)
		return;
	caller = atp_as_table_owner("identity");
	found = atp_query(atp_identity_sql("WITH l AS MATERIALIZED (SELECT i.did FROM unnest($1) u (did) JOIN atproto.identity i ON i.did OPERATOR(@.=) u.did"
									   "  FOR NO KEY UPDATE OF i SKIP LOCKED)"
									   " SELECT u.n::int4 AS n FROM unnest($1) WITH ORDINALITY u (did, n) JOIN atproto.identity i ON i.did OPERATOR(@.=) u.did"
									   " WHERE NOT EXISTS (SELECT FROM l WHERE l.did OPERATOR(@.=) u.did)"),
					  ATP_ARGS(atp_dids_arg(dids, n)));
	for (int i = 0; i < n; i++)
		is_free[i] = true;
	for (uint64 i = 0; i < found.n; i++)
		is_free[atp_get_int4(atp_result_row(found, i), "n") - 1] = false;
	atp_result_free(found);
	atp_owner_end(caller);
}

static void
write_identities(struct varlena *const *dids, int n, const AtpIdentity *identities, bool by_log)
{
	const Oid	types[NCOLUMNS] = {
		TEXTOID, BYTEAOID, BYTEAOID, TEXTOID, atp_type("handle"), TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
		TIMESTAMPTZOID, INT4OID, TEXTOID, TIMESTAMPTZOID
	};
	AtpArg		args[1 + NCOLUMNS + 1];
	Datum	   *values[NCOLUMNS];
	bool	   *nulls[NCOLUMNS];
	AtpCaller	caller;

	if (n == 0)
		return;
	for (int c = 0; c < NCOLUMNS; c++)
	{
		values[c] = palloc(sizeof(Datum) * n);
		nulls[c] = palloc0(sizeof(bool) * n);
	}
	for (int i = 0; i < n; i++)
	{
		const AtpIdentity *it = &identities[i];

		values[STATE][i] = CStringGetTextDatum(state_names[it->state]);
		values[KEY][i] = key_or_null(it->has_key, it->key, &nulls[KEY][i]);
		values[LABEL_KEY][i] = key_or_null(it->has_label_key, it->label_key, &nulls[LABEL_KEY][i]);
		values[PDS][i] = text_or_null(it->pds, &nulls[PDS][i]);
		values[HANDLE][i] = PointerGetDatum(it->handle);
		nulls[HANDLE][i] = it->handle == NULL;
		values[RESOLVED_AT][i] = time_or_null(it->resolved_at, &nulls[RESOLVED_AT][i]);
		values[ASKED_AT][i] = time_or_null(it->asked_at, &nulls[ASKED_AT][i]);
		values[DENIED_AT][i] = time_or_null(it->denied_at, &nulls[DENIED_AT][i]);
		values[NEXT_TRY][i] = time_or_null(it->next_try, &nulls[NEXT_TRY][i]);
		values[TRIES][i] = Int32GetDatum(it->tries);
		values[LOG_TIME][i] = time_or_null(it->log_time, &nulls[LOG_TIME][i]);
		values[ERROR_TEXT][i] = text_or_null(it->error, &nulls[ERROR_TEXT][i]);
	}
	args[0] = atp_dids_arg(dids, n);
	for (int c = 0; c < NCOLUMNS; c++)
		args[1 + c] = atp_array_arg(types[c], values[c], nulls[c], n);
	args[1 + NCOLUMNS] = atp_bool_arg(by_log);
	caller = atp_as_table_owner("identity");
	/* When the document claims a new handle, the results of checks of the old handle are reset. */
	atp_run(atp_identity_sql("INSERT INTO atproto.identity AS i (did, state, key, label_key, pds, handle_claimed, resolved_at,"
							 "  asked_at, denied_at, next_try, tries, error, log_time)"
							 " SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
							 " ON CONFLICT (did) DO UPDATE SET state = excluded.state, key = excluded.key,"
							 "  label_key = excluded.label_key, pds = excluded.pds, handle_claimed = excluded.handle_claimed,"
							 "  handle_state = CASE WHEN i.handle_claimed OPERATOR(@.=) excluded.handle_claimed THEN i.handle_state ELSE 'unknown' END,"
							 "  handle_error = CASE WHEN i.handle_claimed OPERATOR(@.=) excluded.handle_claimed THEN i.handle_error END,"
							 "  handle_next = CASE WHEN i.handle_claimed OPERATOR(@.=) excluded.handle_claimed THEN i.handle_next ELSE 'epoch' END,"
							 "  handle_tries = CASE WHEN i.handle_claimed OPERATOR(@.=) excluded.handle_claimed THEN i.handle_tries ELSE 0 END,"
							 "  resolved_at = excluded.resolved_at, log_time = excluded.log_time,"
							 "  asked_at = CASE WHEN $14 AND i.asked_at IS NOT NULL THEN i.asked_at ELSE excluded.asked_at END,"
							 "  denied_at = excluded.denied_at, next_try = excluded.next_try, tries = excluded.tries,"
							 /*
							  * said_by names the roles whose #identity event came after the look-up began:
							  * such a look-up does not end their doubt
							  */
							 "  error = excluded.error, doubted_by = i.said_by"),
			args, 1 + NCOLUMNS + 1);
	atp_owner_end(caller);
}

void
atp_identities_write(struct varlena *const *dids, int n, const AtpIdentity *identities)
{
	write_identities(dids, n, identities, false);
}

void
atp_identities_write_by_log(struct varlena *const *dids, int n, const AtpIdentity *identities)
{
	write_identities(dids, n, identities, true);
}

bool
atp_identities_none(void)
{
	Relation	rel = table_open(atp_relation("identity"), AccessShareLock);
	bool		empty = RelationGetNumberOfBlocks(rel) == 0;

	table_close(rel, AccessShareLock);
	return empty;
}

/*
 * The beginning and end of an UPDATE that locks only rows that change, in the order of their DIDs: two processes
 * with overlapping sets must not deadlock.
 */
#define LOCKED_DIDS	"WITH l AS (SELECT i.did FROM unnest($1) u (did) JOIN atproto.identity i ON i.did OPERATOR(@.=) u.did WHERE "
#define OF_DIDS		" FROM l WHERE i.did OPERATOR(@.=) l.did"

void
atp_identities_doubt(struct varlena *const *dids, int n, Oid role)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("identity");
	atp_run(atp_identity_sql(LOCKED_DIDS "$2 <> ALL (i.said_by) OR NOT i.stale"
							 "  ORDER BY i.did USING OPERATOR(@.<) FOR NO KEY UPDATE OF i)"
							 " UPDATE atproto.identity i SET stale = true,"
							 "  said_by = array_append(array_remove(i.said_by, $2), $2),"
							 "  doubted_by = array_append(array_remove(i.doubted_by, $2), $2)" OF_DIDS),
			ATP_ARGS(atp_dids_arg(dids, n), (AtpArg) {ObjectIdGetDatum(role), OIDOID}));
	atp_owner_end(caller);
}

void
atp_identities_share_doubts(struct varlena *const *dids, int n, Oid from, Oid to)
{
	AtpCaller	caller = atp_as_table_owner("identity");
	AtpArg		some = n >= 0 ? atp_dids_arg(dids, n) : (AtpArg) {(Datum) 0, get_array_type(atp_type("did")), true};

	atp_run(atp_identity_sql("WITH l AS (SELECT did FROM atproto.identity i WHERE $2 = ANY (i.doubted_by) AND $3 <> ALL (i.doubted_by)"
							 "  AND ($1 IS NULL OR i.did OPERATOR(@.=) ANY ($1)) ORDER BY i.did USING OPERATOR(@.<) FOR NO KEY UPDATE OF i)"
							 " UPDATE atproto.identity i SET doubted_by = array_append(i.doubted_by, $3),"
							 "  said_by = CASE WHEN $2 = ANY (i.said_by) THEN array_append(array_remove(i.said_by, $3), $3) ELSE i.said_by END" OF_DIDS),
			ATP_ARGS(some, (AtpArg) {ObjectIdGetDatum(from), OIDOID}, (AtpArg) {ObjectIdGetDatum(to), OIDOID}));
	atp_owner_end(caller);
}

void
atp_identities_begin_lookup(struct varlena *const *dids, int n)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("identity");
	/*
	 * handle_next: after the look-up of the document, the handle is checked again, too (W-24).  A row that a session has
	 * locked keeps its doubts, so a second look-up follows.
	 */
	atp_run(atp_identity_sql(LOCKED_DIDS "i.stale OR i.said_by <> '{}'"
							 "  ORDER BY i.did USING OPERATOR(@.<) FOR NO KEY UPDATE OF i SKIP LOCKED)"
							 " UPDATE atproto.identity i SET stale = false, said_by = '{}', handle_next = 'epoch'" OF_DIDS),
			ATP_ARGS(atp_dids_arg(dids, n)));
	atp_owner_end(caller);
}

/* ------------------------------------------------------------------------
 * Judging
 * ------------------------------------------------------------------------
 */

bool
atp_identity_is_doubtful(const AtpIdentity *identity, Oid role)
{
	return list_member_oid(identity->doubted_by, role);
}

bool
atp_identity_is_broken(const AtpIdentity *identity)
{
	switch (identity->state)
	{
		case ATP_IDENTITY_GONE:
		case ATP_IDENTITY_INVALID:
		case ATP_IDENTITY_NO_KEY:
		case ATP_IDENTITY_NO_PDS:
			return true;
		default:
			return false;
	}
}

bool
atp_identity_is_denied(const AtpIdentity *identity)
{
	return identity->state == ATP_IDENTITY_GONE && identity->denied_at != DT_NOBEGIN;
}

/* A time in the future, from before the clock was set back, does not count as recent. */
static bool
is_older(TimestampTz t, TimestampTz now, int seconds)
{
	return t == DT_NOBEGIN || t > now || now - t >= (TimestampTz) seconds * USECS_PER_SEC;
}

bool
atp_identity_is_usable(const AtpIdentity *identity, TimestampTz now)
{
	return identity->state == ATP_IDENTITY_GOOD && identity->has_key &&
		(identity->resolved_at > now || !is_older(identity->resolved_at, now, ATP_IDENTITY_DEAD_S));
}

bool
atp_identity_is_due(const AtpIdentity *identity, TimestampTz now)
{
	switch (identity->state)
	{
		case ATP_IDENTITY_UNKNOWN:
		case ATP_IDENTITY_WANTED:
			return true;
		case ATP_IDENTITY_GOOD:
			/* W-30 */
			return identity->stale || is_older(identity->resolved_at, now, atp_identity_ttl_s);
		default:
			/* W-33; W-30: an account without repository key or server may still be a labeler */
			return identity->stale || identity->next_try <= now || identity->asked_at > now ||
				(identity->has_label_key && is_older(identity->asked_at, now, atp_identity_ttl_s));
	}
}
