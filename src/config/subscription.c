/*
 * subscription.c
 *		Rows of atproto.subscription and atproto.cursor.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/subscription.h"
#include "core/did.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define COLUMNS "name, url, owner, enabled AND stopped IS NULL, xmin"
#define MORE_COLUMNS ", target, ca_file, proxy, collections, dids, actions, keep_records," \
	" events, keep_raw, max_dead_letters, max_dead_letter_bytes," \
	" (SELECT string_agg(h.name || ': ' || h.value || E'\\r\\n', '' ORDER BY h.name)" \
	"  FROM atproto.request_header h WHERE h.subscription = s.name), workers, created_at"

static AtpSubscription *
from_tuple(HeapTuple tuple, TupleDesc desc)
{
	AtpSubscription *sub = palloc0(sizeof(AtpSubscription));
	bool		isnull;

	sub->name = SPI_getvalue(tuple, desc, 1);
	sub->url = SPI_getvalue(tuple, desc, 2);
	sub->owner = DatumGetObjectId(SPI_getbinval(tuple, desc, 3, &isnull));
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(sub->owner)))
		sub->owner = InvalidOid;
	sub->runnable = DatumGetBool(SPI_getbinval(tuple, desc, 4, &isnull));
	sub->version = DatumGetTransactionId(SPI_getbinval(tuple, desc, 5, &isnull));
	return sub;
}

/* The elements of an array column; returns their number, or -1 when it is NULL. */
static int
array_column(HeapTuple tuple, TupleDesc desc, int column, Oid element, Datum **values)
{
	bool		isnull;
	Datum		d = SPI_getbinval(tuple, desc, column, &isnull);
	ArrayType  *array;
	bool	   *nulls;
	int			n;
	int			kept = 0;
	int16		len;
	bool		byval;
	char		align;

	if (isnull)
		return -1;
	array = DatumGetArrayTypePCopy(d);
	if (!OidIsValid(element))
		element = ARR_ELEMTYPE(array);
	get_typlenbyvalalign(element, &len, &byval, &align);
	deconstruct_array(array, element, len, byval, align, values, &nulls, &n);
	/* NULL matches nothing */
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			(*values)[kept++] = (*values)[i];
	return kept;
}

static int
compare_dids(const void *a, const void *b)
{
	const struct varlena *x = *(const struct varlena *const *) a;
	const struct varlena *y = *(const struct varlena *const *) b;

	return atp_did_cmp((const uint8_t *) VARDATA_ANY(x), VARSIZE_ANY_EXHDR(x),
					   (const uint8_t *) VARDATA_ANY(y), VARSIZE_ANY_EXHDR(y));
}

static void
read_settings(AtpSettings *settings, HeapTuple tuple, TupleDesc desc)
{
	static const char *const action_names[3] = {"create", "update", "delete"};
	Datum	   *values;
	bool		isnull;
	const char *events = SPI_getvalue(tuple, desc, 13);
	int			n;

	settings->ncollections = array_column(tuple, desc, 9, TEXTOID, &values);
	if (settings->ncollections > 0)
		settings->collections = palloc(sizeof(char *) * settings->ncollections);
	for (int i = 0; i < settings->ncollections; i++)
		settings->collections[i] = TextDatumGetCString(values[i]);

	settings->ndids = array_column(tuple, desc, 10, InvalidOid, &values);
	if (settings->ndids > 0)
	{
		settings->dids = palloc(sizeof(struct varlena *) * settings->ndids);
		for (int i = 0; i < settings->ndids; i++)
			settings->dids[i] = (struct varlena *) DatumGetPointer(values[i]);
		qsort(settings->dids, settings->ndids, sizeof(struct varlena *), compare_dids);
	}

	n = array_column(tuple, desc, 11, TEXTOID, &values);
	for (int a = 0; a < 3; a++)
		settings->actions[a] = n < 0;
	for (int i = 0; i < n; i++)
		for (int a = 0; a < 3; a++)
			settings->actions[a] |= strcmp(TextDatumGetCString(values[i]), action_names[a]) == 0;

	settings->keep_records = DatumGetBool(SPI_getbinval(tuple, desc, 12, &isnull));
	settings->events = strcmp(events, "keep") == 0 ? ATP_EVENTS_KEEP
		: strcmp(events, "hand") == 0 ? ATP_EVENTS_HAND : ATP_EVENTS_NONE;
	settings->keep_raw = DatumGetBool(SPI_getbinval(tuple, desc, 14, &isnull));
	settings->max_letters = DatumGetInt32(SPI_getbinval(tuple, desc, 15, &isnull));
	settings->max_letter_bytes = DatumGetInt64(SPI_getbinval(tuple, desc, 16, &isnull));
}

static void
check(int rc, int expected, const char *what)
{
	if (rc != expected)
		elog(ERROR, "%s failed: %s", what, SPI_result_code_string(rc));
}

List *
atp_subscription_list(MemoryContext cxt)
{
	List	   *list = NIL;

	atp_config_watch(atp_relation("subscription"));
	check(SPI_execute("SELECT " COLUMNS " FROM atproto.subscription ORDER BY name", true, 0),
		  SPI_OK_SELECT, "reading subscriptions");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		list = lappend(list, from_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc));
		MemoryContextSwitchTo(old);
	}
	return list;
}

AtpSubscription *
atp_subscription_get(const char *name, MemoryContext cxt)
{
	Oid			types[] = {TEXTOID};
	Datum		args[] = {CStringGetTextDatum(name)};
	AtpSubscription *sub;
	MemoryContext old;
	HeapTuple	tuple;
	TupleDesc	desc;
	bool		isnull;

	atp_config_watch(atp_relation("subscription"));
	check(SPI_execute_with_args("SELECT " COLUMNS MORE_COLUMNS " FROM atproto.subscription s WHERE name = $1",
								1, types, args, NULL, true, 1),
		  SPI_OK_SELECT, "reading a subscription");
	if (SPI_processed == 0)
		return NULL;
	tuple = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	old = MemoryContextSwitchTo(cxt);
	sub = from_tuple(tuple, desc);
	sub->ep = atp_endpoint_parse(sub->url);
	sub->target = SPI_getvalue(tuple, desc, 6);
	sub->ca_file = SPI_getvalue(tuple, desc, 7);
	sub->proxy = SPI_getvalue(tuple, desc, 8);
	read_settings(&sub->settings, tuple, desc);
	sub->headers = SPI_getvalue(tuple, desc, 17);
	if (sub->headers == NULL)
		sub->headers = pstrdup("");
	sub->workers = DatumGetInt32(SPI_getbinval(tuple, desc, 18, &isnull));
	sub->created_at = DatumGetTimestampTz(SPI_getbinval(tuple, desc, 19, &isnull));
	MemoryContextSwitchTo(old);
	return sub;
}

AtpSubscription *
atp_subscription_borrow(const char *name, MemoryContext cxt)
{
	AtpSubscription *sub = atp_subscription_get(name, cxt);

	if (sub == NULL || !OidIsValid(sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist, or has no owner", name)));
	if (!has_privs_of_role(GetUserId(), sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of role \"%s\", the owner of subscription \"%s\"",
						GetUserNameFromId(sub->owner, false), name)));
	return sub;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL ? b == NULL : b != NULL && strcmp(a, b) == 0;
}

bool
atp_subscription_same_stream(const AtpSubscription *a, const AtpSubscription *b)
{
	return same_text(a->url, b->url) && same_text(a->target, b->target) &&
		same_text(a->ca_file, b->ca_file) && same_text(a->proxy, b->proxy) &&
		same_text(a->headers, b->headers) && a->owner == b->owner && a->workers == b->workers;
}

void
atp_cursor_settings(const char *name, const char *endpoint)
{
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		args[] = {CStringGetTextDatum(name), CStringGetTextDatum(endpoint)};

	check(SPI_execute_with_args("UPDATE atproto.cursor c SET settings_after = c.seq, settings = s.digest"
								" FROM (SELECT sha256(convert_to(ROW(collections, dids, actions, keep_records,"
								"  events, keep_raw)::text, 'UTF8')) FROM atproto.subscription WHERE name = $1) s (digest)"
								" WHERE c.subscription = $1 AND c.endpoint = $2 AND c.settings IS DISTINCT FROM s.digest",
								2, types, args, NULL, false, 0),
		  SPI_OK_UPDATE, "noting the settings");
}

/* Its rows stay as they are until the transaction's end. */
static AtpCursor
read_cursor(const char *name, const char *endpoint)
{
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		args[] = {CStringGetTextDatum(name), CStringGetTextDatum(endpoint)};
	AtpCursor	cursor = {.lowest = PG_INT64_MAX, .highest = -1};
	bool		whole;

	check(SPI_execute_with_args("SELECT shard, layout, COALESCE(seq, -1) FROM atproto.cursor"
								" WHERE subscription = $1 AND endpoint = $2 ORDER BY shard FOR NO KEY UPDATE",
								2, types, args, NULL, false, ATP_WORKERS_MAX + 1),
		  SPI_OK_SELECT, "reading a cursor");
	whole = SPI_processed > 0 && SPI_processed <= ATP_WORKERS_MAX;
	for (int i = 0; whole && i < SPI_processed; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		int			shard = DatumGetInt32(SPI_getbinval(row, desc, 1, &isnull));
		int			layout = DatumGetInt32(SPI_getbinval(row, desc, 2, &isnull));
		int64		seq = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));

		whole = shard == i && (i == 0 || layout == cursor.layout);
		cursor.layout = layout;
		cursor.shards++;
		cursor.lowest = Min(cursor.lowest, seq);
		cursor.highest = Max(cursor.highest, seq);
	}
	if (!whole)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cursor of subscription \"%s\" has not all its shards, or others", name),
				 errhint("Restore the rows of table \"%s\", or unsubscribe and subscribe again.", "atproto.cursor")));
	return cursor;
}

AtpCursor
atp_cursor_get(const char *name, const char *endpoint)
{
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		args[] = {CStringGetTextDatum(name), CStringGetTextDatum(endpoint)};

	check(SPI_execute_with_args("INSERT INTO atproto.cursor (subscription, endpoint) VALUES ($1, $2)"
								" ON CONFLICT DO NOTHING", 2, types, args, NULL, false, 0),
		  SPI_OK_INSERT, "making a cursor");
	return read_cursor(name, endpoint);
}

bool
atp_cursor_of_shard(const char *name, const char *endpoint, int shard, int layout, int64 *seq)
{
	Oid			types[] = {TEXTOID, TEXTOID, INT4OID, INT4OID};
	Datum		args[] = {
		CStringGetTextDatum(name), CStringGetTextDatum(endpoint), Int32GetDatum(shard), Int32GetDatum(layout)
	};
	bool		isnull;

	check(SPI_execute_with_args("SELECT COALESCE(seq, -1) FROM atproto.cursor"
								" WHERE subscription = $1 AND endpoint = $2 AND shard = $3 AND layout = $4",
								4, types, args, NULL, true, 1),
		  SPI_OK_SELECT, "reading a shard's cursor");
	if (SPI_processed == 0)
		return false;
	*seq = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	return true;
}

AtpCursor
atp_cursor_share(const char *name, const char *endpoint, int shards)
{
	Oid			types[] = {TEXTOID, TEXTOID, INT4OID};
	Datum		args[] = {CStringGetTextDatum(name), CStringGetTextDatum(endpoint), Int32GetDatum(shards)};
	AtpCursor	cursor = read_cursor(name, endpoint);

	if (cursor.lowest != cursor.highest)
		return cursor;

	/* what the shards that go have counted is the first one's from now on */
	check(SPI_execute_with_args("WITH gone AS (DELETE FROM atproto.cursor"
								"  WHERE subscription = $1 AND endpoint = $2 AND shard >= $3"
								"  RETURNING events, record_ops)"
								" UPDATE atproto.cursor c SET events = c.events + g.events,"
								"  record_ops = c.record_ops + g.record_ops"
								" FROM (SELECT COALESCE(sum(events), 0) AS events, COALESCE(sum(record_ops), 0) AS record_ops"
								"  FROM gone) g"
								" WHERE c.subscription = $1 AND c.endpoint = $2 AND c.shard = 0 AND g.events + g.record_ops > 0",
								3, types, args, NULL, false, 0),
		  SPI_OK_UPDATE, "removing shards");
	check(SPI_execute_with_args("INSERT INTO atproto.cursor (subscription, endpoint, shard, layout, seq, event_time, settings_after, settings)"
								" SELECT subscription, endpoint, n, layout, seq, event_time, settings_after, settings"
								" FROM atproto.cursor, generate_series(1, $3 - 1) n"
								" WHERE subscription = $1 AND endpoint = $2 AND shard = 0"
								" ON CONFLICT DO NOTHING",
								3, types, args, NULL, false, 0),
		  SPI_OK_INSERT, "adding shards");
	/* who still believes in the shards that were moves none of these */
	check(SPI_execute_with_args("UPDATE atproto.cursor SET layout = layout + 1 WHERE subscription = $1 AND endpoint = $2",
								2, types, args, NULL, false, 0),
		  SPI_OK_UPDATE, "noting that the shards are others");
	return read_cursor(name, endpoint);
}

void
atp_cursor_begin(const char *name, const char *endpoint, int64 seq)
{
	Oid			types[] = {TEXTOID, TEXTOID, INT8OID};
	Datum		args[] = {CStringGetTextDatum(name), CStringGetTextDatum(endpoint), Int64GetDatum(seq)};

	check(SPI_execute_with_args("UPDATE atproto.cursor SET seq = $3"
								" WHERE subscription = $1 AND endpoint = $2 AND seq IS NULL",
								3, types, args, NULL, false, 0),
		  SPI_OK_UPDATE, "beginning a stream");
}

bool
atp_subscription_stop(const AtpSubscription *sub, const char *reason)
{
	Oid			types[] = {TEXTOID, TEXTOID, XIDOID};
	Datum		args[] = {
		CStringGetTextDatum(sub->name), CStringGetTextDatum(reason), TransactionIdGetDatum(sub->version)
	};

	check(SPI_execute_with_args("UPDATE atproto.subscription SET stopped = $2, stopped_at = now()"
								" WHERE name = $1 AND xmin = $3", 3, types, args, NULL, false, 0),
		  SPI_OK_UPDATE, "stopping a subscription");
	return SPI_processed > 0;
}
