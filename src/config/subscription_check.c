/*
 * subscription_check.c
 *		The trigger that validates and completes rows of atproto.subscription.
 *
 * A role with rights on the table may do by hand what subscribe() does; so all checks are in this
 * trigger, and not in subscribe().
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/stream_options.h"
#include "config/subscription.h"
#include "config/subscription_check.h"
#include "config/subscription_neighbours.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "core/repo/link.h"
#include "core/syntax/nsid.h"
#include "core/syntax/slice.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "net/dns.h"
#include "net/endpoint.h"
#include "common/quotable.h"
#include "common/signature.h"
#include "source.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#define URL_MAX		8192		/* bytes */

PG_FUNCTION_INFO_V1(atp_subscription_check);

/*
 * True while subscribe() inserts its row.  A row inserted in another way, above all by pg_restore, is
 * stopped: it must not start a consumer before all rows that belong to the subscription are restored, nor in
 * a copy of the database which nobody watches.
 */
static bool subscribing = false;

static uint64
insert_row(const char *const *columns, const AtpArg *values, int n)
{
	StringInfoData names,
				params;

	initStringInfo(&names);
	initStringInfo(&params);
	for (int i = 0; i < n; i++)
	{
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", quote_identifier(columns[i]));
		appendStringInfo(&params, "%s$%d", i > 0 ? ", " : "", i + 1);
	}
	return atp_run_unnamed(psprintf("INSERT INTO atproto.subscription (%s) VALUES (%s) ON CONFLICT DO NOTHING",
									names.data, params.data), values, n);
}

bool
atp_subscription_insert(const char *const *columns, const AtpArg *values, int n)
{
	uint64		inserted;

	subscribing = true;
	PG_TRY();
	{
		inserted = insert_row(columns, values, n);
	}
	PG_FINALLY();
	{
		subscribing = false;
	}
	PG_END_TRY();
	return inserted > 0;
}

/* E-01: plain ws:// only to this machine, or where the subscription allows it. */
static void
check_endpoint(const AtpEndpoint *ep, bool allow_insecure)
{
	if (!ep->tls && !ep->loopback && !allow_insecure)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the stream's connection would not be encrypted"),
				 errhint("Use wss://, or set \"allow_insecure\".")));
}

/*
 * I-06: check a pattern of collections. what: "collection", for the message; whole: the text that contains
 * the pattern.
 */
static void
check_pattern(const char *what, const char *pattern, const char *whole, const char *hint)
{
	size_t		at = 0;
	AtpErr		err = atp_nsid_pattern_check(pattern, strlen(pattern), &at);

	if (err != ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid %s: \"%s\"", what, atp_quotable(whole)),
				 errdetail("%s (byte %zu)", atp_err_text(err), atp_byte_number(at)),
				 errhint("%s", hint)));
}

static void
check_collections(AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = atp_get_array(row, "collections", TEXTOID, &values, &nulls);

	for (int i = 0; i < n; i++)
	{
		const char *pattern = TextDatumGetCString(values[i]);

		check_pattern("collection", pattern, pattern, "Use an NSID such as app.bsky.feed.post, or a pattern such as app.bsky.*.");
	}
}

static void
check_link_source(const char *text)
{
	static const char hint[] = "Use a collection and a path, such as app.bsky.feed.like:subject.uri, or a collection or a pattern alone, such as app.bsky.graph.*.";
	AtpLinkFilter filter = atp_link_filter(pstrdup(text));

	check_pattern("source of links", filter.collection, text, hint);
	if (filter.path != NULL && !atp_link_path_is_valid((AtpSpan) {filter.path, strlen(filter.path)}))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid source of links: \"%s\"", atp_quotable(text)),
				 errdetail("A path is written as record_links() gives it, and has at most %d bytes.", ATP_LINK_PATH_MAX),
				 errhint("%s", hint)));
}

/*
 * Parse an array in a column of type text (links, validate); returns the number of elements.  An ERROR if the
 * text is not an array.
 */
static int
elements_of(const char *column, char *text, const char *hint, Datum **values)
{
	bool	   *nulls;
	Oid			input;
	Oid			element;
	int			n;

	if (text[0] != '{')
		atp_option_is_wrong(column, text, hint);
	getTypeInputInfo(TEXTARRAYOID, &input, &element);
	deconstruct_array(DatumGetArrayTypeP(OidInputFunctionCall(input, text, element, -1)),
					  TEXTOID, -1, false, TYPALIGN_INT, values, &nulls, &n);
	for (int i = 0; i < n; i++)
		if (nulls[i])
			atp_option_has_null(column, hint);
	return n;
}

/* Check the column links. */
static void
check_links(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	static const char hint[] = "Use 'none', 'all', or an array of sources such as '{app.bsky.feed.like:subject.uri,app.bsky.graph.*}'.";
	char	   *links = atp_get_text_or_null(row, "links");
	Datum	   *values;
	int			n;

	if (links == NULL)
		atp_option_is_null("links", hint);
	if (strcmp(links, "none") == 0)
		return;
	if (!source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "links"),
				 errdetail("Its events are not of repositories.")));
	if (!atp_is_true(row, "keep_records"))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links are kept only with records"),
				 errdetail("The table \"%s\" tells which links go with a record that is updated or deleted.", "record"),
				 errhint("Set \"%s\" to \"%s\", or \"%s\" to \"%s\".", "keep_records", "true", "links", "none")));
	if (strcmp(links, "all") == 0)
		return;
	n = elements_of("links", links, hint, &values);
	for (int i = 0; i < n; i++)
		check_link_source(TextDatumGetCString(values[i]));
}

/* Check the column validate. */
static void
check_validate(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	static const char hint[] = "Use 'none', 'flag', 'dead_letter', or an array such as '{app.bsky.feed.post=flag,app.bsky.*=none}'.";
	char	   *validate = atp_get_text_or_null(row, "validate");
	Datum	   *values;
	int			n;

	if (validate == NULL)
		atp_option_is_null("validate", hint);
	if (strcmp(validate, "none") == 0)
		return;
	if (!source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "validate"),
				 errdetail("Its events are not of repositories.")));
	if (strcmp(validate, "flag") == 0 || strcmp(validate, "dead_letter") == 0)
		return;
	n = elements_of("validate", validate, hint, &values);
	for (int i = 0; i < n; i++)
	{
		char	   *element = TextDatumGetCString(values[i]);
		AtpValidateFilter filter;

		if (!atp_validate_filter(pstrdup(element), &filter))
			atp_option_is_wrong("validate", element, hint);
		check_pattern("collection", filter.collection, element, hint);
	}
}

static void
check_slice(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	const char *text = atp_get_text_or_null(row, "slice");
	AtpSlice	slice;
	size_t		at;
	AtpErr		err;

	if (text == NULL)
		return;
	if (!source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "slice"),
				 errdetail("Its events are not of repositories.")));
	err = atp_slice_parse(text, strlen(text), &slice, &at);
	if (err != ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid slice: \"%s\"", atp_quotable(text)),
				 errdetail("%s (byte %zu)", atp_err_text(err), atp_byte_number(at)),
				 errhint("The slices of four servers are 0/4, 1/4, 2/4 and 3/4.")));
}

/* Columns that determine which parts of a commit a subscription stores, and where. */
static const struct
{
	const char *name;
	Oid			type;
}			selecting[] = {
	{"target", NAMEOID}, {"collections", TEXTARRAYOID}, {"actions", TEXTARRAYOID}, {"keep_records", BOOLOID}, {"links", TEXTOID}, {"validate", TEXTOID},
	{"events", TEXTOID}, {"keep_raw", BOOLOID}, {"count_collections", BOOLOID}
};

/* The column that determines how a commit is verified. */
#define LEVEL	"verify"

/* Did an update leave the columns in selecting, and verify, unchanged? */
static bool
same_selection(AtpTuple a, AtpTuple b)
{
	const char *x,
			   *y;

	for (int i = 0; i < lengthof(selecting); i++)
	{
		x = atp_get_text_or_null(a, selecting[i].name);
		y = atp_get_text_or_null(b, selecting[i].name);

		if (x == NULL || y == NULL ? x != y : strcmp(x, y) != 0)
			return false;
	}
	x = atp_get_text_or_null(a, LEVEL);
	y = atp_get_text_or_null(b, LEVEL);
	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/* Notify of neighbours at a different level: the tables' contents are only as trustworthy as the lowest level. */
static void
warn_of_levels(AtpTuple row)
{
	AtpResult	neighbour = atp_query("SELECT name, verify FROM atproto.subscription WHERE name <> $1 AND target = $2 AND by_repo AND verify <> $3"
									  " ORDER BY name LIMIT 1",
									  ATP_ARGS(atp_get_arg(row, "name", TEXTOID), atp_get_arg(row, "target", NAMEOID), atp_get_arg(row, LEVEL, TEXTOID)));

	if (neighbour.n > 0)
		ereport(NOTICE,
				(errmsg("subscriptions \"%s\" and \"%s\" fill the same tables at different levels: \"%s\" and \"%s\"",
						atp_get_text(row, "name"), atp_get_text(atp_result_row(neighbour, 0), "name"),
						atp_get_text(row, LEVEL), atp_get_text(atp_result_row(neighbour, 0), LEVEL)),
				 errdetail("What the one of the lower level has stored is checked no further.")));
}

/*
 * Warn of a subscription that fills the same tables with different filters.  A commit that one subscription
 * has processed is old for the others (F-03), so rows which its filter left out would be missing.
 */
static void
warn_of_neighbour(AtpTuple row)
{
	AtpArg		args[1 + lengthof(selecting)];
	AtpResult	neighbour;

	args[0] = atp_get_arg(row, "name", TEXTOID);
	for (int i = 0; i < lengthof(selecting); i++)
		args[i + 1] = atp_get_arg(row, selecting[i].name, selecting[i].type);
	SPI_connect();
	neighbour = atp_query("SELECT name FROM atproto.subscription WHERE name <> $1 AND target = $2"
						  " AND by_repo"
						  " AND (collections, actions, keep_records, links, validate, events, keep_raw, count_collections)"
						  "  IS DISTINCT FROM ($3, $4, $5, $6, $7, $8, $9, $10)"
						  " ORDER BY name LIMIT 1", args, lengthof(args));
	if (neighbour.n > 0)
		ereport(WARNING,
				(errmsg("subscriptions \"%s\" and \"%s\" fill the same tables with different filters",
						atp_get_text(row, "name"), atp_get_text(atp_result_row(neighbour, 0), "name")),
				 errdetail("When one of them has processed a commit, the other one ignores it, and with it what the first one does not store: other records, links, events, copies or counts."),
				 errhint("Give one of them a target of its own.")));
	warn_of_levels(row);
	SPI_finish();
}

void
atp_neighbours_warn(const AtpTuple *old, AtpTuple row)
{
	if (old == NULL || !same_selection(*old, row))
		warn_of_neighbour(row);
}

static void
check_proxy(AtpTuple row)
{
	char	   *proxy = atp_get_text_or_null(row, "proxy");

	if (proxy != NULL)
		atp_proxy_check(proxy);
}

/*
 * A role that names a file makes the server read this file, so it needs the rights for that. old: the row
 * before an update, or NULL.
 */
static void
check_ca_file(const AtpTuple *old, AtpTuple row)
{
	char	   *ca_file = atp_get_text_or_null(row, "ca_file");
	char	   *before = old ? atp_get_text_or_null(*old, "ca_file") : NULL;

	if (ca_file == NULL || (before != NULL && strcmp(ca_file, before) == 0))
		return;
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set \"%s\"", "ca_file"),
				 errdetail("Only roles with privileges of the role \"%s\" may name a file of the server.",
						   "pg_read_server_files")));
}

static void
check_workers(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	bool		isnull;
	Datum		value = atp_get(row, "workers", INT4OID, &isnull);

	if (!isnull && DatumGetInt32(value) > 1 && !source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have several workers", ep->stream),
				 errdetail("Workers share a stream by its repositories.")));
}

static void
check_verify(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	const char *verify = atp_get_text_or_null(row, "verify");

	if (verify == NULL || strcmp(verify, "hash") == 0)
		return;
	if (source->by_repo && !source->has_chain)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have level \"%s\"", ep->stream, verify),
				 errdetail("Its events do not contain the signed commit, and do not say which commit was before it."),
				 errhint("Set \"%s\" to \"%s\"; audits compare the records with what the accounts have signed.", "verify", "hash")));
	if (strcmp(verify, "full") != 0)
		return;
	if (!source->is_signed)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("messages of %s cannot be verified by their signatures", ep->stream),
				 errhint("Set \"%s\" to \"%s\".", "verify", "chain")));
	if (!atp_signature_has_k256())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("signatures by secp256k1 are not supported by this build"),
				 errhint("Set \"%s\" to \"%s\", or build the extension where libsecp256k1 and its header are installed.",
						 "verify", "chain")));
}

/* V-44 concerns accounts and their repositories. */
static void
check_host_is_pds(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	if (atp_is_true(row, "host_is_pds") && !source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "host_is_pds"),
				 errdetail("Its events are not of repositories.")));
}

/* a stream's server need not serve repositories, nor lists of repositories. */
static void
check_repo_sources(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep, bool by_list)
{
	const char *repo_source = atp_get_text_or_null(row, "repo_source");
	bool		every_did;

	if (source->has_chain)
		return;
	(void) SPI_getbinval(row.tuple, row.desc, atp_column(row, "dids"), &every_did);
	if (repo_source != NULL && strcmp(repo_source, "upstream") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "repo_source => 'upstream'"),
				 errdetail("Its server has no repositories."),
				 errhint("Use 'pds', each account's own server, or scheme and host of a mirror of them all.")));
	if (by_list && atp_get_text_or_null(row, "list_source") == NULL && every_did)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is not set", "list_source"),
				 errdetail("The server of %s has no list of repositories.", ep->stream),
				 errhint("Name a relay, for example %s.", "list_source => 'https://bsky.network'")));
}

/* a server lists the repositories with a given collection; it cannot list by a pattern. */
static void
check_backfill(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	const char *backfill = atp_get_text_or_null(row, "backfill");
	Datum	   *values;
	bool	   *nulls;
	int			n;

	if (backfill == NULL || strcmp(backfill, "none") == 0)
		return;
	if (!source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "backfill"),
				 errdetail("Its events are not of repositories.")));
	check_repo_sources(row, source, ep, strcmp(backfill, "collections") == 0 || strcmp(backfill, "network") == 0);
	if (strcmp(backfill, "collections") != 0)
		return;
	n = atp_get_array(row, "collections", TEXTOID, &values, &nulls);
	for (int i = 0; i < n; i++)
		if (strchr(TextDatumGetCString(values[i]), '*') != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" is \"%s\", but \"%s\" is a pattern, not a collection", "backfill", backfill, atp_quotable(TextDatumGetCString(values[i]))),
					 errdetail("A server lists the repositories that have a given collection."),
					 errhint("Name the collections, or use %s.", "backfill => 'network'")));
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is \"%s\", but the subscription names no collections", "backfill", backfill),
				 errhint("Name the collections, or use %s.", "backfill => 'network'")));
}

static void
check_handles(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	const char *handles = atp_get_text_or_null(row, "handles");
	const char *verify = atp_get_text_or_null(row, "verify");

	if (handles == NULL || strcmp(handles, "verify") != 0)
		return;
	if (!source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "handles"),
				 errdetail("Its events are not of repositories.")));
	if (!atp_dns_supported)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("handles are not verified by this build"),
				 errhint("Build the extension where c-ares and its header are installed.")));
	if (verify == NULL || strcmp(verify, "full") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("handles are verified only of accounts whose identities are"),
				 errhint("Set \"%s\" to \"%s\".", "verify", "full")));
}

void
atp_stream_options_check(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	check_collections(row);
	check_slice(row, source, ep);
	check_workers(row, source, ep);
	check_verify(row, source, ep);
	check_host_is_pds(row, source, ep);
	check_backfill(row, source, ep);
	check_handles(row, source, ep);
	check_links(row, source, ep);
	check_validate(row, source, ep);
}

static void
check_owner(AtpTuple row)
{
	AtpArg		owner = atp_get_arg(row, "owner", OIDOID);

	if (owner.isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("owner must not be null")));
	/* a row applied by logical replication is stopped; resume() will check the owner */
	if (SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
		atp_owner_check(DatumGetObjectId(owner.value));
}

/* Does a consumer run for this row?  A NULL in enabled is reported by the NOT NULL constraint. */
static bool
is_runnable(AtpTuple row)
{
	return atp_is_true(row, "enabled") && atp_get_text_or_null(row, "stopped") == NULL;
}

/*
 * Rows that belong to a subscription refer to its id, which stays when the name changes.  So the id must not
 * change.
 */
static void
check_id(const AtpTuple *old, AtpTuple row)
{
	AtpArg		id = atp_get_arg(row, "id", UUIDOID);

	if (old != NULL && !id.isnull && !DatumGetBool(DirectFunctionCall2(uuid_eq, atp_get_arg(*old, "id", UUIDOID).value, id.value)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the id of a subscription cannot be changed")));
}

static bool
same_owner_and_target(AtpTuple a, AtpTuple b)
{
	const char *x = atp_get_text_or_null(a, "target");
	const char *y = atp_get_text_or_null(b, "target");

	return x != NULL && y != NULL && strcmp(x, y) == 0 &&
		DatumGetObjectId(atp_get_arg(a, "owner", OIDOID).value) == DatumGetObjectId(atp_get_arg(b, "owner", OIDOID).value);
}

/*
 * Returns the value of target_owner: the owner of the target's schema when the target was named.  The column
 * is written here alone.  A restored row, or a row from another server, gets InvalidOid: the numbers of
 * roles are another server's there.
 *
 * Check whether the owner may fill the target: when the owner or the target is new, and when a row that does
 * not run becomes runnable. pg_restore inserts rows before it restores the grants on the data tables, as a
 * role that bypasses row security: its rows are not checked here but stopped, and resume() checks.
 */
static Oid
check_target(const AtpTuple *old, AtpTuple row)
{
	const char *target = atp_get_text_or_null(row, "target");
	Oid			known = old != NULL ? DatumGetObjectId(atp_get_arg(*old, "target_owner", OIDOID).value) : InvalidOid;

	if (target == NULL || atp_target_is_renamed() || SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
		return known;
	if (old == NULL && !subscribing && has_bypassrls_privilege(GetUserId()))
		return known;
	if (old != NULL && same_owner_and_target(*old, row) && (is_runnable(*old) || !is_runnable(row)))
		return known;
	return atp_target_check(DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value), target);
}

static AtpEndpoint *
check_url(AtpTuple row)
{
	char	   *url = atp_get_text_or_null(row, "url");
	AtpEndpoint *ep;

	if (url == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("url must not be null")));
	if (strlen(url) > URL_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the URL is too long"),
				 errhint("Use at most %d bytes.", URL_MAX)));
	ep = atp_endpoint_parse(url);
	check_endpoint(ep, atp_is_true(row, "allow_insecure"));
	return ep;
}

static const AtpStreamKind *
check_format(AtpTuple row, const AtpEndpoint *ep)
{
	char	   *format = atp_get_text_or_null(row, "format");
	const AtpStreamKind *source = atp_stream_kind_of(ep->stream, format);

	if (source == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("no stream %s is known in the format \"%s\"", ep->stream, format ? atp_quotable(format) : ""),
				 errhint("Formats are \"%s\", \"%s\" and \"%s\"; without one, the URL tells. A Jetstream's ends with \"/subscribe\" or \"/xrpc/network.bsky.jetstream.subscribeEvents\".", "dag-cbor", "json", "jetstream")));
	return source;
}

/* Complete a row with the columns that only this trigger writes. old: the row before an update, or NULL. */
static HeapTuple
complete_row(const AtpTuple *old, AtpTuple row, Oid target_owner, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	int			columns[7];
	Datum		values[7];
	bool		nulls[7] = {false};
	int			n = 0;

	columns[n] = atp_column(row, "target_owner");
	values[n++] = ObjectIdGetDatum(target_owner);

	columns[n] = atp_column(row, "endpoint");
	values[n++] = CStringGetTextDatum(ep->scope);
	columns[n] = atp_column(row, "by_repo");
	values[n++] = BoolGetDatum(source->by_repo);
	columns[n] = atp_column(row, "serves_repos");
	values[n++] = BoolGetDatum(source->has_chain);
	if (atp_get_text_or_null(row, "verify") == NULL)
	{
		columns[n] = atp_column(row, "verify");
		values[n++] = CStringGetTextDatum(source->by_repo && !source->has_chain ? "hash" : "chain");
	}
	if (old == NULL && !subscribing)
	{
		columns[n] = atp_column(row, "stopped");
		values[n++] = CStringGetTextDatum("restored, or inserted by hand; atproto.resume() starts it");
	}
	else if (old != NULL && SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
	{
		/* under logical replication, the publisher's resume() must not start the subscription here */
		static const char *const kept[] = {"stopped", "stopped_at"};

		for (int i = 0; i < lengthof(kept); i++, n++)
		{
			columns[n] = atp_column(row, kept[i]);
			values[n] = SPI_getbinval(old->tuple, old->desc, columns[n], &nulls[n]);
		}
	}
	return heap_modify_tuple_by_cols(row.tuple, row.desc, n, columns, values, nulls);
}

/* SQL: atproto.subscription_check(), BEFORE INSERT OR UPDATE, for each row */
Datum
atp_subscription_check(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	AtpTuple	first,
				row;
	AtpTuple   *old = NULL;
	AtpEndpoint *ep;
	const AtpStreamKind *source;
	Oid			target_owner;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired before each row", "subscription_check")));
	row = first = (AtpTuple) {trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)};
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
	{
		old = &first;
		row.tuple = trigger->tg_newtuple;
	}

	check_owner(row);
	check_id(old, row);
	target_owner = check_target(old, row);
	atp_options_check(row);
	ep = check_url(row);
	source = check_format(row, ep);
	check_proxy(row);
	check_ca_file(old, row);
	atp_stream_options_check(row, source, ep);
	if (source->by_repo && !atp_target_is_renamed())
		atp_neighbours_warn(old, row);
	return PointerGetDatum(complete_row(old, row, target_owner, source, ep));
}
