/*
 * subscription.c
 *		Rows of atproto.subscription: see subscription.h.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "config/watch.h"
#include "miscadmin.h"
#include "common/quotable.h"
#include "source.h"
#include "types/types.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define HEADERS(condition) \
	"COALESCE((SELECT string_agg(h.name || ': ' || h.value || E'\\r\\n', '' ORDER BY h.name)" \
	"  FROM atproto.request_header h WHERE h.subscription = s.name AND " condition "), '')"
#define COLUMNS "name, id::text AS id, url, owner, enabled AND stopped IS NULL AS runnable, xmin AS version"
#define MORE_COLUMNS ", CASE WHEN validate IN ('flag', 'dead_letter') THEN ARRAY['*=' || validate] WHEN validate <> 'none' THEN validate::text[] END AS validate" \
	", links <> 'none' AS has_links, CASE WHEN links NOT IN ('none', 'all') THEN links::text[] END AS links" \
	", format, target, target_owner, ca_file, proxy, collections, dids, actions, keep_records," \
	" events, keep_raw, verify, backfill, fetch_as, max_dead_letters, max_dead_letter_bytes, max_held_events, max_held_bytes, host_is_pds, identities," \
	" count_collections, slice, " ATP_SETTINGS_DIGEST " AS digest," \
	" history, archive_source, " HEADERS("NOT h.archive") " AS headers, " HEADERS("h.archive") " AS archive_headers, workers"

static AtpSubscription *
from_tuple(AtpTuple row)
{
	AtpSubscription *sub = palloc0(sizeof(AtpSubscription));
	bool		isnull;

	sub->name = atp_get_text(row, "name");
	sub->id = atp_get_text(row, "id");
	sub->url = atp_get_text(row, "url");
	sub->owner = DatumGetObjectId(atp_get(row, "owner", OIDOID, &isnull));
	if (isnull || !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(sub->owner)))
		sub->owner = InvalidOid;
	sub->runnable = atp_get_bool(row, "runnable");
	sub->version = DatumGetTransactionId(atp_get(row, "version", XIDOID, &isnull));
	return sub;
}

/* The elements of an array column, without NULL elements; returns their number, or -1 when the column is NULL. */
static int
array_column(AtpTuple row, const char *column, Oid element, Datum **values)
{
	bool	   *nulls;
	int			n = atp_get_array(row, column, element, values, &nulls);
	int			kept = 0;

	/* NULL matches nothing */
	for (int i = 0; i < n; i++)
		if (!nulls[i])
			(*values)[kept++] = (*values)[i];
	return n < 0 ? n : kept;
}

/*
 * The index of a column's word in the list of permitted words.  The trigger has refused all other words
 * (option.c).
 */
static int
word_column(AtpTuple row, const char *column, const char *const *words)
{
	return Max(atp_word_number(words, atp_get_text(row, column)), 0);
}

AtpLinkFilter
atp_link_filter(char *text)
{
	char	   *path = strchr(text, ':');

	if (path != NULL)
		*path++ = '\0';
	return (AtpLinkFilter) {text, path};
}

static void
read_links(AtpSettings *settings, AtpTuple row)
{
	Datum	   *values;

	settings->has_links = atp_get_bool(row, "has_links");
	settings->nlinks = array_column(row, "links", TEXTOID, &values);
	if (settings->nlinks > 0)
		settings->links = palloc(sizeof(AtpLinkFilter) * settings->nlinks);
	for (int i = 0; i < settings->nlinks; i++)
		settings->links[i] = atp_link_filter(TextDatumGetCString(values[i]));
}

bool
atp_validate_filter(char *text, AtpValidateFilter *filter)
{
	static const char *const names[] = {"none", "flag", "dead_letter"};
	char	   *how = strchr(text, '=');

	if (how == NULL)
		return false;
	*how++ = '\0';
	filter->collection = text;
	filter->how = ATP_VALIDATE_NONE;
	while (filter->how < lengthof(names) && strcmp(how, names[filter->how]) != 0)
		filter->how++;
	return filter->how < lengthof(names);
}

static void
read_validate(AtpSettings *settings, AtpTuple row)
{
	Datum	   *values;
	int			n = array_column(row, "validate", TEXTOID, &values);

	settings->nvalidate = 0;
	if (n > 0)
		settings->validate = palloc(sizeof(AtpValidateFilter) * n);
	for (int i = 0; i < n; i++)
		if (atp_validate_filter(TextDatumGetCString(values[i]), &settings->validate[settings->nvalidate]))
			settings->nvalidate++;
}

static void
read_settings(AtpSettings *settings, AtpTuple row)
{
	Datum	   *values;
	const char *slice;
	size_t		at;
	int			n;

	settings->ncollections = array_column(row, "collections", TEXTOID, &values);
	if (settings->ncollections > 0)
		settings->collections = palloc(sizeof(char *) * settings->ncollections);
	for (int i = 0; i < settings->ncollections; i++)
		settings->collections[i] = TextDatumGetCString(values[i]);

	settings->ndids = array_column(row, "dids", atp_type("did"), &values);
	if (settings->ndids > 0)
	{
		settings->dids = palloc(sizeof(struct varlena *) * settings->ndids);
		for (int i = 0; i < settings->ndids; i++)
			settings->dids[i] = (struct varlena *) DatumGetPointer(values[i]);
		qsort(settings->dids, settings->ndids, sizeof(struct varlena *), atp_compare_did_refs);
	}

	slice = atp_get_text_or_null(row, "slice");
	if (slice != NULL && atp_slice_parse(slice, strlen(slice), &settings->slice, &at) != ATP_OK)
		elog(ERROR, "column \"slice\" is \"%s\"", slice);

	n = array_column(row, "actions", TEXTOID, &values);
	for (int a = 0; a < 3; a++)
		settings->actions[a] = n < 0;
	for (int i = 0; i < n; i++)
		for (int a = 0; a < 3; a++)
			settings->actions[a] |= strcmp(TextDatumGetCString(values[i]), atp_actions_words[a]) == 0;

	settings->keep_records = atp_get_bool(row, "keep_records");
	settings->events = word_column(row, "events", atp_events_words);
	settings->keep_raw = atp_get_bool(row, "keep_raw");
	read_links(settings, row);
	read_validate(settings, row);
	settings->verify = word_column(row, "verify", atp_verify_words);
	settings->backfill = word_column(row, "backfill", atp_backfill_words);
	settings->fetch_as = word_column(row, "fetch_as", atp_fetch_as_words);
	settings->max_dead_letters = atp_get_int4(row, "max_dead_letters");
	settings->max_dead_letter_bytes = atp_get_int8(row, "max_dead_letter_bytes");
	settings->max_held = atp_get_int4(row, "max_held_events");
	settings->max_held_bytes = atp_get_int8(row, "max_held_bytes");
	settings->host_is_pds = atp_get_bool(row, "host_is_pds");
	settings->identities = atp_get_bool(row, "identities");
	settings->count_collections = atp_get_bool(row, "count_collections");
}

List *
atp_subscription_list(MemoryContext cxt)
{
	List	   *list = NIL;
	AtpResult	rows;
	MemoryContext old;

	atp_config_watch(atp_relation("subscription"));
	rows = atp_query("SELECT " COLUMNS " FROM atproto.subscription ORDER BY name", ATP_NO_ARGS);
	old = MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < rows.n; i++)
		list = lappend(list, from_tuple(atp_result_row(rows, i)));
	MemoryContextSwitchTo(old);
	atp_result_free(rows);
	return list;
}

static AtpSubscription *
from_whole_tuple(AtpTuple row)
{
	AtpSubscription *sub = from_tuple(row);
	char	   *format = atp_get_text_or_null(row, "format");
	bool		isnull;

	sub->ep = atp_endpoint_parse(sub->url);
	sub->source = atp_stream_kind_of(sub->ep->stream, format);
	if (sub->source == NULL)
		elog(ERROR, "column \"format\" is \"%s\", of \"%s\"", format ? format : "", sub->url);
	sub->target = atp_get_text(row, "target");
	sub->target_owner = DatumGetObjectId(atp_get(row, "target_owner", OIDOID, &isnull));
	sub->ca_file = atp_get_text_or_null(row, "ca_file");
	sub->proxy = atp_get_text_or_null(row, "proxy");
	read_settings(&sub->settings, row);
	sub->settings.packs = atp_target_packs(sub->target);
	sub->headers = atp_get_text(row, "headers");
	sub->has_archive = sub->source->archive != NULL && strcmp(atp_get_text(row, "history"), "archive") == 0;
	sub->archive = atp_get_text_or_null(row, "archive_source");
	if (sub->archive == NULL)
		sub->archive = sub->ep->origin;
	sub->archive_headers = atp_get_text(row, "archive_headers");
	sub->workers = atp_get_int4(row, "workers");
	sub->digest = atp_get_copy(row, "digest", BYTEAOID);
	return sub;
}

AtpSubscription *
atp_subscription_get(const char *name, MemoryContext cxt)
{
	AtpSubscription *sub = NULL;
	AtpResult	rows;
	MemoryContext old;

	atp_config_watch(atp_relation("subscription"));
	rows = atp_query("SELECT " COLUMNS MORE_COLUMNS " FROM atproto.subscription s WHERE name = $1",
					 ATP_ARGS(atp_text_arg(name)));
	old = MemoryContextSwitchTo(cxt);
	if (rows.n > 0)
		sub = from_whole_tuple(atp_result_row(rows, 0));
	MemoryContextSwitchTo(old);
	atp_result_free(rows);
	return sub;
}

List *
atp_subscriptions_filling(const char *target, const char *condition, const char *order)
{
	AtpResult	found = atp_query(psprintf("SELECT name, owner::oid AS owner, target_owner FROM atproto.subscription WHERE target = $1::name AND %s ORDER BY %s",
										   condition, order), ATP_ARGS(atp_text_arg(target)));
	List	   *names = NIL;

	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);

		if (atp_role_may_fill(DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value), target,
							  DatumGetObjectId(atp_get_arg(row, "target_owner", OIDOID).value)))
			names = lappend(names, atp_get_text(row, "name"));
	}
	atp_result_free(found);
	return names;
}

AtpSubscription *
atp_subscription_borrow(const char *name, MemoryContext cxt)
{
	AtpSubscription *sub = atp_subscription_get(name, cxt);

	if (sub == NULL || !OidIsValid(sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist, or has no owner", atp_quotable(name)),
				 errhint("The view \"%s\" has the names.", "atproto.stat_subscription")));
	if (!has_privs_of_role(GetUserId(), sub->owner))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of role \"%s\", the owner of subscription \"%s\"",
						GetUserNameFromId(sub->owner, false), name),
				 errhint("A superuser can make you a member: GRANT %s TO %s.",
						 quote_identifier(GetUserNameFromId(sub->owner, false)), quote_identifier(GetUserNameFromId(GetUserId(), false)))));
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
	return same_text(a->url, b->url) && a->source == b->source && same_text(a->target, b->target) &&
		same_text(a->ca_file, b->ca_file) && same_text(a->proxy, b->proxy) &&
		same_text(a->headers, b->headers) && a->has_archive == b->has_archive &&
		(!a->has_archive || (same_text(a->archive, b->archive) && same_text(a->archive_headers, b->archive_headers))) && a->owner == b->owner && a->workers == b->workers;
}

static bool
same_collections(const AtpSettings *a, const AtpSettings *b)
{
	if (a->ncollections != b->ncollections || memcmp(a->actions, b->actions, sizeof(a->actions)) != 0)
		return false;
	for (int i = 0; i < a->ncollections; i++)
		if (strcmp(a->collections[i], b->collections[i]) != 0)
			return false;
	return true;
}

static bool
same_accounts(const AtpSettings *a, const AtpSettings *b)
{
	if (a->ndids != b->ndids || a->slice.number != b->slice.number || a->slice.of != b->slice.of)
		return false;
	for (int i = 0; i < a->ndids; i++)
		if (atp_compare_dids(a->dids[i], b->dids[i]) != 0)
			return false;
	return true;
}

static bool
same_links(const AtpSettings *a, const AtpSettings *b)
{
	if (a->has_links != b->has_links || a->nlinks != b->nlinks)
		return false;
	for (int i = 0; i < a->nlinks; i++)
		if (strcmp(a->links[i].collection, b->links[i].collection) != 0 || !same_text(a->links[i].path, b->links[i].path))
			return false;
	return true;
}

static bool
same_validate(const AtpSettings *a, const AtpSettings *b)
{
	if (a->nvalidate != b->nvalidate)
		return false;
	for (int i = 0; i < a->nvalidate; i++)
		if (strcmp(a->validate[i].collection, b->validate[i].collection) != 0 || a->validate[i].how != b->validate[i].how)
			return false;
	return true;
}

bool
atp_subscription_same_contents(const AtpSubscription *a, const AtpSubscription *b)
{
	return same_text(a->target, b->target) && same_collections(&a->settings, &b->settings) &&
		a->settings.keep_records == b->settings.keep_records && a->settings.events == b->settings.events &&
		a->settings.keep_raw == b->settings.keep_raw && same_links(&a->settings, &b->settings) &&
		a->settings.count_collections == b->settings.count_collections && same_validate(&a->settings, &b->settings);
}

bool
atp_subscription_same_rows(const AtpSubscription *a, const AtpSubscription *b)
{
	return a->owner == b->owner && atp_subscription_same_contents(a, b) && same_accounts(&a->settings, &b->settings) &&
		a->settings.verify == b->settings.verify;
}

bool
atp_subscription_is_present(const AtpSubscription *sub)
{
	AtpArg		version = {TransactionIdGetDatum(sub->version), XIDOID, false};

	return atp_run("SELECT FROM atproto.subscription WHERE name = $1 AND xmin = $2", ATP_ARGS(atp_text_arg(sub->name), version)) > 0;
}

bool
atp_subscription_stop(const AtpSubscription *sub, const char *reason)
{
	AtpArg		version = {TransactionIdGetDatum(sub->version), XIDOID, false};

	return atp_run("UPDATE atproto.subscription SET stopped = $2, stopped_at = now()"
				   " WHERE name = $1 AND xmin = $3",
				   ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(reason), version)) > 0;
}
