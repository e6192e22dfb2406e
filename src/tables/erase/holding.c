/*
 * holding.c
 *		Which columns of the extension's tables and of the data tables can hold an account, and what erase() does with
 *		their rows.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "tables/base/blocked.h"
#include "tables/erase/holding.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_erasure);

#define OF_ACCOUNT	"x.did OPERATOR(@.=) $1"
#define OF_TARGET	OF_ACCOUNT " AND ($4 IS NULL OR x.target = $4)"
#define OF_OWNER(subscription) \
	"EXISTS (SELECT FROM atproto.subscription s WHERE s.name = " subscription \
	" AND pg_catalog.pg_has_role($3, s.owner, 'USAGE') AND ($4 IS NULL OR s.target = $4))"

/* A request of a role, or, for whoever may erase everything, of any role and of the consumers. */
#define OF_ROLE		"$4 IS NULL AND ($5 OR (x.role <> 0 AND pg_catalog.pg_has_role($3, x.role, 'USAGE')))"
#define OF_ALL		"$4 IS NULL AND $5"

/* Does the text, or do the bytes, have the DID? */
#define NAMES(text)	"(position($2 in " text ") > 0 AND " text " ~ $6)"
#define NAMES_IN_BYTES(bytes) \
	"(position(pg_catalog.convert_to($2, 'UTF8') in " bytes ") > 0 AND pg_catalog.encode(" bytes ", 'escape') ~ $7)"

#define IN_REPO(target)	"@.aturi_inside(" target ", $1)"

const AtpHoldingEntry atp_holdings[] = {
	/* the data tables */
	{"#.record", "*", ATP_HOLDS_RECORDS, OF_ACCOUNT, "the account's records; records of other accounts that name the account are theirs"},
	{"#.link", "source rkey did", ATP_HOLDS_RECORDS, OF_ACCOUNT, "links of the account's records go with the records"},
	{"#.link", "target", ATP_HOLDS_KEPT, IN_REPO("x.target") " AND x.did OPERATOR(@.<>) $1",
	"links of other accounts' records to the account: they follow from those records"},
	{"#.link_count", "target", ATP_HOLDS_KEPT, IN_REPO("x.target"), "numbers of links to the account: they follow from the table link"},
	{"#.link_source", "collection path", ATP_HOLDS_NONE, NULL, "names of collections, and places in records"},
	{"#.repo", "*", ATP_HOLDS_RECORDS, OF_ACCOUNT, "the state of the repository, with a former key of the account"},
	{"#.record_event", "*", ATP_HOLDS_ROWS, OF_ACCOUNT, "operations on the account's records"},
	{"#.label", "*", ATP_HOLDS_ROWS,
		"x.src OPERATOR(@.=) $1 OR " ATP_SQL_LABEL_SUBJECT " = $2",
	"labels about the account and its records, and labels that the account has issued"},
	{"#.message", "*", ATP_HOLDS_ROWS, NAMES("x.payload::pg_catalog.text") " OR " NAMES_IN_BYTES("x.raw"),
	"messages that name the account: nothing tells whose a message of an unknown kind is"},
	{"#.sweep_deletion", "*", ATP_HOLDS_ROWS, OF_ACCOUNT, "deletions that are kept while an archive is read"},
	{"#.collection_count", "subscription collection", ATP_HOLDS_NONE, NULL, "sums over all accounts"},
	{"#.plc_operation", "*", ATP_HOLDS_LOG, OF_ACCOUNT, "the account's operations in a public log"},
	{"#.plc_refused", "*", ATP_HOLDS_LOG, OF_ACCOUNT, "refused entries of the account in a public log"},
	{"#.plc_text", "text", ATP_HOLDS_KEPT, NULL, "keys, addresses of servers and domains that operations of several accounts share"},
	{"#.node_mark", "*", ATP_HOLDS_NONE, NULL, "positions of subscriptions on nodes of Citus"},
	{"#.node_written", "*", ATP_HOLDS_NONE, NULL, "positions of subscriptions on nodes of Citus"},

	/* the extension's tables: what belongs to a target */
	{"atproto.repo_job", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "a fetch of the repository"},
	{"atproto.held_event", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "events that wait"},
	{"atproto.held_release", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "events that wait"},
	{"atproto.status_request", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "a request for the account's status"},
	{"atproto.proof_result", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "a proof of the repository"},
	{"atproto.repo_fetched", "*", ATP_HOLDS_BY_TARGET, OF_TARGET, "times of fetches"},

	/* what belongs to an owner of subscriptions, to a role, or to all */
	{"atproto.dead_letter", "*", ATP_HOLDS_BY_OWNER,
		OF_OWNER("x.subscription") " AND (" OF_ACCOUNT " OR (x.did IS NULL AND EXISTS"
		" (SELECT FROM atproto.dead_frame f WHERE f.subscription = x.subscription AND f.digest = x.digest AND " NAMES_IN_BYTES("f.bytes") ")))",
	"dead letters of the account, and those of unknown accounts whose message names the account"},
	{"atproto.dead_frame", "*", ATP_HOLDS_BY_OWNER,
		OF_OWNER("x.subscription") " AND " NAMES_IN_BYTES("x.bytes")
		" AND NOT EXISTS (SELECT FROM atproto.dead_letter l WHERE l.subscription = x.subscription AND l.digest = x.digest)",
	"messages go with the last dead letter about them; a message about records of other accounts, which names the account, stays with their letters"},
	{"atproto.gap", "*", ATP_HOLDS_BY_OWNER, OF_ACCOUNT " AND (" OF_OWNER("x.subscription") " OR (x.subscription IS NULL AND " OF_ALL "))",
	"missing labels of the account, if the account is a labeler"},
	{"atproto.plc_log_request", "*", ATP_HOLDS_LOG_BY_OWNER, OF_ACCOUNT " AND " OF_OWNER("x.subscription"), "a request for the account's log in a public directory, with the answer"},
	{"atproto.handle_lookup", "*", ATP_HOLDS_BY_OWNER,
		"(" OF_ACCOUNT " OR x.handle OPERATOR(@.=) (SELECT i.handle_claimed FROM atproto.identity i WHERE i.did OPERATOR(@.=) $1)) AND " OF_ROLE,
	"a look-up of the account's handle"},
	{"atproto.handle_request", "*", ATP_HOLDS_BY_OWNER, OF_ACCOUNT " AND " OF_ROLE, "a check of the account's handle"},
	{"atproto.identity_request", "*", ATP_HOLDS_BY_OWNER, OF_ACCOUNT " AND " OF_ROLE, "a look-up of the account's document"},
	{"atproto.identity", "*", ATP_HOLDS_BY_OWNER, OF_ACCOUNT " AND " OF_ALL,
	"the account's document, as read last: a cache for all roles, which the extension's owner may empty"},

	/* what may name an account, and stays */
	{"atproto.subscription", "dids", ATP_HOLDS_KEPT, "$1 OPERATOR(@.=) ANY (x.dids)", "a setting, which asks for the account: take the account out of dids first"},
	{"atproto.subscription", "stopped", ATP_HOLDS_KEPT, NULL, "the text of an error: atproto.resume() clears it"},
	{"atproto.subscription", "name url format endpoint target collections slice actions events links validate verify handles backfill list_source"
		" repo_source fetch_as history archive_source ca_file proxy", ATP_HOLDS_NONE, NULL, "settings"},
	{"atproto.subscription_event", "detail", ATP_HOLDS_KEPT, NULL, "texts of errors; newer rows replace the oldest"},
	{"atproto.subscription_event", "subscription event", ATP_HOLDS_NONE, NULL, "names"},
	{"atproto.history", "markers_after", ATP_HOLDS_KEPT, "x.markers_after OPERATOR(@.=) $1", "a position in an archive: the next group of accounts replaces it"},
	{"atproto.history", "error", ATP_HOLDS_KEPT, NULL, "the text of an error, until the next success"},
	{"atproto.history", "subscription endpoint phase filtered_here incomplete", ATP_HOLDS_NONE, NULL, "settings and states"},
	{"atproto.enumeration", "cursor error", ATP_HOLDS_KEPT, NULL, "a position in a server's list of accounts: the next page replaces it"},
	{"atproto.enumeration", "subscription source", ATP_HOLDS_NONE, NULL, "names of servers"},
	{"atproto.audit_state", "error", ATP_HOLDS_KEPT, NULL, "the text of an error, until the next audit"},
	{"atproto.blocked_account", "did", ATP_HOLDS_KEPT, OF_ACCOUNT, "keeps the account away: unblock() removes the row"},
	{"atproto.blocked_account", "target", ATP_HOLDS_NONE, NULL, "names of schemas"},
	{"atproto.audit_state", "target", ATP_HOLDS_NONE, NULL, "names of schemas"},
	{"atproto.host", "host backoff_reason whole_reason", ATP_HOLDS_KEPT, NULL, "servers that were asked, among them the server of a did:web: removed when they were not asked for long"},
	{"atproto.server_info_request", "url answer error", ATP_HOLDS_KEPT, NULL, "what servers say about themselves: removed after a day"},
	{"atproto.lexicon_loaded", "did cid", ATP_HOLDS_KEPT, OF_ACCOUNT, "a Lexicon that the account has published, and that is in use: unload_lexicon() removes it"},
	{"atproto.lexicon_loaded", "id doc", ATP_HOLDS_KEPT, NULL, "a Lexicon: unload_lexicon() removes it"},
	{"atproto.lexicon_bundled", "*", ATP_HOLDS_NONE, NULL, "comes with the extension"},
	{"atproto.web_address", "pattern uri", ATP_HOLDS_KEPT, NULL, "addresses of web pages that an operator has added"},
	{"atproto.request_header", "*", ATP_HOLDS_NONE, NULL, "headers of requests, which an operator has given"},
	{"atproto.cursor", "*", ATP_HOLDS_NONE, NULL, "positions, counts, and a digest of settings"},
	{"atproto.zstd_dictionary", "*", ATP_HOLDS_NONE, NULL, "a dictionary that a server publishes for all readers"},
	{"atproto.proved_set", "*", ATP_HOLDS_NONE, NULL, "sets of collections"},
	{"atproto.proof_sample", "*", ATP_HOLDS_NONE, NULL, "settings"},
	{"atproto.fetch_settings", "*", ATP_HOLDS_NONE, NULL, "a digest of settings"},
	{"atproto.repo_storm", "*", ATP_HOLDS_NONE, NULL, "names of servers with many accounts"},
	{"atproto.repo_total", "*", ATP_HOLDS_NONE, NULL, "sums over all accounts"},
	{NULL}
};

const int	atp_nholdings = lengthof(atp_holdings) - 1;

bool
atp_holding_is_data(const AtpHoldingEntry *entry)
{
	return entry->relation[0] == '#';
}

const char *
atp_holding_table(const AtpHoldingEntry *entry)
{
	return strchr(entry->relation, '.') + 1;
}

const char *
atp_holding_condition(const AtpHoldingEntry *entry)
{
	StringInfoData sql;
	char	   *columns;
	char	   *next;

	if (entry->find != NULL)
		return entry->find;
	initStringInfo(&sql);
	columns = pstrdup(entry->columns);
	for (char *name = strtok_r(columns, " ", &next); name != NULL; name = strtok_r(NULL, " ", &next))
		appendStringInfo(&sql, "%sposition($2 in x.%s::pg_catalog.text) > 0", sql.len > 0 ? " OR " : "", quote_identifier(name));
	return sql.data;
}

/* ------------------------------------------------------------------------
 * DIDs in messages of unknown kinds
 * ------------------------------------------------------------------------
 */

/* A did:plc has a fixed length.  A DID of another method can begin a longer DID, whose next characters these are. */
#define NO_LONGER	"(?![.:-]*[A-Za-z0-9_%])"

/* The DID as a regular expression. */
static void
append_did(StringInfo pattern, const char *did)
{
	for (const char *p = did; *p != '\0'; p++)
		appendStringInfo(pattern, *p == '.' ? "[%c]" : "%c", *p);
}

/* A byte in the form of encode(…, 'escape'), as a regular expression. */
static void
append_escaped(StringInfo pattern, uint8 byte)
{
	if (byte == 0 || byte >= 0x80)
		appendStringInfo(pattern, "\\\\%03o", byte);
	else if (byte == '\\')
		appendStringInfoString(pattern, "\\\\\\\\");
	else
		appendStringInfo(pattern, "\\u%04x", byte);
}

/*
 * A text of CBOR that has just the DID behind "before".  The byte behind a text of CBOR may be the head of the next item, which
 * can look like a letter, so only the length in the text's own head tells where the DID ends.
 */
static void
append_cbor_text(StringInfo pattern, const char *before, const char *did)
{
	size_t		n = strlen(before) + strlen(did);

	appendStringInfoChar(pattern, '|');
	if (n < 24)
		append_escaped(pattern, 0x60 + n);
	else if (n < 256)
	{
		append_escaped(pattern, 0x78);
		append_escaped(pattern, n);
	}
	else
	{
		append_escaped(pattern, 0x79);
		append_escaped(pattern, n >> 8);
		append_escaped(pattern, n & 0xff);
	}
	appendStringInfoString(pattern, before);
	append_did(pattern, did);
}

static const char *
did_pattern(const char *did, bool in_bytes)
{
	StringInfoData pattern;

	initStringInfo(&pattern);
	append_did(&pattern, did);
	if (strncmp(did, "did:plc:", strlen("did:plc:")) == 0)
		return pattern.data;
	appendStringInfoString(&pattern, NO_LONGER);
	if (in_bytes)
	{
		append_cbor_text(&pattern, "", did);
		append_cbor_text(&pattern, "at://", did);
	}
	return pattern.data;
}

void
atp_holding_args(AtpArg *args, const struct varlena *did, Oid caller, const char *target, bool everything)
{
	Oid			output;
	bool		is_varlena;
	char	   *text;

	getTypeOutputInfo(atp_type("did"), &output, &is_varlena);
	args[0] = atp_did_arg(did);
	text = OidOutputFunctionCall(output, PointerGetDatum(did));
	args[1] = atp_text_arg(text);
	args[2] = (AtpArg) {ObjectIdGetDatum(caller), OIDOID, false};
	args[3] = (AtpArg) {target == NULL ? (Datum) 0 : DirectFunctionCall1(namein, CStringGetDatum(target)), NAMEOID, target == NULL};
	args[4] = atp_bool_arg(everything);
	args[5] = atp_text_arg(did_pattern(text, false));
	args[6] = atp_text_arg(did_pattern(text, true));
}

/* The words of erasure(). */
static const char *const words[] = {
	[ATP_HOLDS_RECORDS] = "erased", [ATP_HOLDS_ROWS] = "erased", [ATP_HOLDS_LOG] = "directory", [ATP_HOLDS_BY_TARGET] = "erased",
	[ATP_HOLDS_BY_OWNER] = "erased", [ATP_HOLDS_LOG_BY_OWNER] = "directory", [ATP_HOLDS_KEPT] = "kept", [ATP_HOLDS_NONE] = "none"
};

/* SQL: atproto.erasure() */
Datum
atp_erasure(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (const AtpHoldingEntry *entry = atp_holdings; entry->relation != NULL; entry++)
	{
		Datum		values[] = {
			BoolGetDatum(atp_holding_is_data(entry)), CStringGetTextDatum(atp_holding_table(entry)), CStringGetTextDatum(entry->columns),
			CStringGetTextDatum(words[entry->holds]), CStringGetTextDatum(entry->why)
		};
		bool		nulls[lengthof(values)] = {false};

		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}
