/*
 * stream_options.c
 *		Options of a subscription for some kinds of streams only, and options with a syntax of their own.
 *
 * Called by the trigger on atproto.subscription (subscription_check.c).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/quotable.h"
#include "common/signature.h"
#include "config/option.h"
#include "config/stream_options.h"
#include "config/subscription.h"
#include "config/target.h"
#include "core/repo/link.h"
#include "core/syntax/nsid.h"
#include "core/syntax/slice.h"
#include "fmgr.h"
#include "net/dns.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

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

static void
check_workers(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	bool		isnull;
	Datum		value = atp_get(row, "workers", INT4OID, &isnull);

	if (isnull || DatumGetInt32(value) <= 1)
		return;
	if (!source->by_account)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have several workers", ep->stream),
				 errdetail("Workers share a stream by its accounts.")));
	/* events wait in the workers' memory, while the receiving process says that the log is fresh */
	if (atp_is_true(row, "identities"))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions with \"%s\" cannot have several workers", "identities"),
				 errhint("Read the log with several workers first; then set \"%s\" to 1, and after that \"%s\" to true.", "workers", "identities")));
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
				 errhint("For signatures, subscribe to a relay or to the account's PDS. With a Jetstream leave \"%s\" out; an audit is possible only for repositories fetched by \"%s\", without \"%s\".", "verify", "backfill", "collections")));
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
					 errhint("Name the collections, or use %s, which fetches all repositories that the server lists.", "backfill => 'network'")));
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is \"%s\", but the subscription names no collections", "backfill", backfill),
				 errhint("Name the collections, or use %s, which fetches all repositories that the server lists.", "backfill => 'network'")));
}

static void
check_fetch_as(AtpTuple row)
{
	const char *fetch_as = atp_get_text_or_null(row, "fetch_as");
	Datum	   *values;
	bool	   *nulls;

	if (fetch_as != NULL && strcmp(fetch_as, "sparse") == 0 && atp_get_array(row, "collections", TEXTOID, &values, &nulls) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" is \"%s\", but the subscription names no collections", "fetch_as", fetch_as),
				 errhint("Name the collections, or leave \"%s\" out.", "fetch_as")));
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
				 errmsg("handles are verified only at level \"%s\"", "full"),
				 errhint("Set \"%s\" to \"%s\", or \"%s\" to \"%s\".", "verify", "full", "handles", "none")));
}

/* A fold of an archive's rows needs the deletions (A.3 of the rules H). */
static void
check_history_actions(AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = atp_get_array(row, "actions", TEXTOID, &values, &nulls);

	for (int i = 0; i < n; i++)
		if (strcmp(TextDatumGetCString(values[i]), "delete") == 0)
			return;
	if (n >= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" needs the action \"%s\"", "history", "delete"),
				 errdetail("An archive has records that were deleted later."),
				 errhint("Add 'delete' to \"%s\", or leave \"%s\" out.", "actions", "actions")));
}

static void
check_history(AtpTuple row, const AtpStreamKind *source, const AtpEndpoint *ep)
{
	const char *history = atp_get_text_or_null(row, "history");
	const char *archive_source = atp_get_text_or_null(row, "archive_source");

	if (history == NULL || strcmp(history, "none") == 0)
		return;
	if (source->archive == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have \"%s\"", ep->stream, "history"),
				 errdetail("Its server has no archive."),
				 errhint("Subscribe to a Jetstream of version 2, whose URL ends with \"/xrpc/network.bsky.jetstream.subscribeEvents\", or use \"%s\".", "backfill")));
	if (atp_is_true(row, "host_is_pds"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" and \"%s\" exclude each other", "history", "host_is_pds"),
				 errdetail("An archive has the accounts of all servers."),
				 errhint("Leave \"%s\" out.", "host_is_pds")));
	if (archive_source != NULL && strncmp(archive_source, "http://", 7) == 0 && !atp_is_true(row, "allow_insecure"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the connection to the archive would not be encrypted"),
				 errhint("Use https://. In a network that you trust, allow_insecure => true permits http://.")));
	check_history_actions(row);
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
	check_history(row, source, ep);
	check_fetch_as(row);
	check_handles(row, source, ep);
	check_links(row, source, ep);
	check_validate(row, source, ep);
}
