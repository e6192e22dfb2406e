/*
 * option.c
 *		Options of a subscription with a fixed set of values: the sets, and their
 *		checks.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/option.h"
#include "config/subscription.h"
#include "lib/stringinfo.h"
#include "net/endpoint.h"
#include "common/quotable.h"
#include "utils/builtins.h"

#define SERVER_MAX		300		/* bytes of a scheme and host */

const char *const atp_events_words[] = {"none", "keep", "hand", NULL};
const char *const atp_verify_words[] = {"hash", "chain", "full", NULL};
const char *const atp_backfill_words[] = {"none", "repair", "seen", "collections", "network", NULL};
const char *const atp_actions_words[] = {"create", "update", "delete", NULL};
static const char *const handles_words[] = {"none", "verify", NULL};
const char *const atp_fetch_as_words[] = {"auto", "whole", "sparse", NULL};
static const char *const history_words[] = {"none", "archive", NULL};
static const char *const source_words[] = {"pds", "upstream", NULL};

/*
 * Options with a word of a list as their value. verify may be NULL: complete_row() in subscription_check.c fills
 * in a value.
 */
static const struct
{
	const char *column;
	const char *const *words;
	const char *meaning;		/* for the HINT: what the words do */
	bool		nullable;
}			with_words[] = {
	{"events", atp_events_words, "'keep' stores each operation in the table record_event, 'hand' only hands the operation to the table's triggers."},
	{"verify", atp_verify_words, "'hash' checks each commit by itself, 'chain' also that no commit is missing, 'full' also signatures.", true},
	{"backfill", atp_backfill_words, "'repair' fetches repositories that miss something and those of \"dids\", 'seen' those with events, 'collections' those with records of \"collections\", 'network' all of the server."},
	{"handles", handles_words, "'verify' looks up the handle of each account."},
	{"fetch_as", atp_fetch_as_words, "'sparse' fetches only the records of \"collections\", with proof, 'whole' the whole repository, 'auto' what is cheaper."},
	{"history", history_words, "'archive' reads the archive of the stream's server before the stream."},
};

static const struct
{
	const char *column;
	Oid			type;
	int64		least;
	int64		most;			/* PG_INT64_MAX: limited only by the type */
}			with_number[] = {
	{"workers", INT4OID, 1, ATP_WORKERS_MAX},
	{"max_dead_letters", INT4OID, 0, PG_INT64_MAX},
	{"max_dead_letter_bytes", INT8OID, 0, PG_INT64_MAX},
	{"max_held_events", INT4OID, 0, PG_INT64_MAX},
	{"max_held_bytes", INT8OID, 0, PG_INT64_MAX},
};

static const char *const booleans[] = {
	"enabled", "keep_records", "keep_raw", "count_collections", "host_is_pds", "list_hosts", "allow_insecure", "identities"
};

int
atp_word_number(const char *const *words, const char *word)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

/* The words as text: "'none', 'keep' or 'hand'". */
static char *
list_of(const char *const *words)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; words[i] != NULL; i++)
		appendStringInfo(&list, "%s'%s'", i == 0 ? "" : words[i + 1] != NULL ? ", " : " or ", words[i]);
	return list.data;
}

void
atp_option_is_null(const char *option, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_NOT_NULL_VIOLATION),
			 errmsg("\"%s\" must not be null", option),
			 errhint("%s", hint)));
}

/* The HINT for each argument without a default. */
static const struct
{
	const char *argument;
	const char *hint;
} arguments[] = {
	{"car", "Give the contents of a CAR file, such as pg_read_binary_file('/path/repo.car')."},
	{"collection", "Name a collection, such as app.bsky.feed.post."},
	{"did", "Name an account, such as did:web:example.com."},
	{"handle", "Name a handle, such as bsky.app."},
	{"id", "SELECT id FROM atproto.gap WHERE closed_at IS NULL shows the numbers."},
	{"name", "The view \"atproto.stat_subscription\" has the names."},
	{"role", "Name a role, such as reader."},
	{"source", "Name a collection and a path, such as app.bsky.feed.like:subject.uri."},
	{"target", "Name the schema in which the tables are, such as atproto."},
};

void
atp_argument_is_null(const char *argument)
{
	const char *hint = "Leave the argument out for its default.";

	for (int i = 0; i < lengthof(arguments); i++)
		if (strcmp(argument, arguments[i].argument) == 0)
			hint = arguments[i].hint;
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("%s must not be null", argument),
			 errhint("%s", hint)));
}

void
atp_option_has_null(const char *option, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("\"%s\" must not contain nulls", option),
			 errhint("%s", hint)));
}

void
atp_option_is_wrong(const char *option, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"%s\": \"%s\"", option, atp_quotable(value)),
			 errhint("%s", hint)));
}

static void
check_words(AtpTuple row)
{
	for (int i = 0; i < lengthof(with_words); i++)
	{
		const char *column = with_words[i].column;
		const char *value = atp_get_text_or_null(row, column);
		const char *hint = psprintf("Use %s. %s", list_of(with_words[i].words), with_words[i].meaning);

		if (value == NULL && !with_words[i].nullable)
			atp_option_is_null(column, hint);
		if (value != NULL && atp_word_number(with_words[i].words, value) < 0)
			atp_option_is_wrong(column, value, hint);
	}
}

/* A NULL element matches nothing, so an array of NULLs only would exclude everything.  Reject NULL elements. */
static void
check_array(AtpTuple row, const char *column, Oid element)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = atp_get_array(row, column, element, &values, &nulls);

	for (int i = 0; i < n; i++)
		if (nulls[i])
			atp_option_has_null(column, psprintf("Probably a query that made the array has found nothing: mend the query. '{}' would store nothing, and without \"%s\" everything of the server would be stored.", column));
}

static void
check_arrays(AtpTuple row)
{
	check_array(row, "collections", TEXTOID);
	check_array(row, "dids", atp_type("did"));
	check_array(row, "actions", TEXTOID);
}

static void
check_actions(AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = atp_get_array(row, "actions", TEXTOID, &values, &nulls);

	for (int i = 0; i < n; i++)
	{
		const char *action = TextDatumGetCString(values[i]);

		if (atp_word_number(atp_actions_words, action) < 0)
			atp_option_is_wrong("actions", action, psprintf("Use an array of %s, or NULL for all of them.", list_of(atp_actions_words)));
	}
}

static void
check_numbers(AtpTuple row)
{
	for (int i = 0; i < lengthof(with_number); i++)
	{
		const char *column = with_number[i].column;
		int64		least = with_number[i].least;
		int64		most = with_number[i].most;
		bool		isnull;
		Datum		value = atp_get(row, column, with_number[i].type, &isnull);
		int64		number = with_number[i].type == INT4OID ? DatumGetInt32(value) : DatumGetInt64(value);
		const char *hint = most < PG_INT64_MAX
			? psprintf("Use a number from " INT64_FORMAT " to " INT64_FORMAT ".", least, most)
			: psprintf("Use a number that is not less than " INT64_FORMAT ".", least);

		if (isnull)
			atp_option_is_null(column, hint);
		if (number < least || number > most)
			atp_option_is_wrong(column, psprintf(INT64_FORMAT, number), hint);
	}
}

static void
check_booleans(AtpTuple row)
{
	for (int i = 0; i < lengthof(booleans); i++)
		if (atp_get_text_or_null(row, booleans[i]) == NULL)
			atp_option_is_null(booleans[i], "Use true or false.");
}

static void
check_names(AtpTuple row)
{
	const char *name = atp_get_text_or_null(row, "name");
	const char *hint = psprintf("Use a name of 1 to %d bytes.", ATP_NAME_MAX);

	if (name == NULL)
		atp_option_is_null("name", hint);
	if (name[0] == '\0' || strlen(name) > ATP_NAME_MAX)
		atp_option_is_wrong("name", name, hint);
	if (atp_get_text_or_null(row, "target") == NULL)
		atp_option_is_null("target", "Use the schema of the tables that are filled.");
	if (atp_get_text_or_null(row, "created_at") == NULL)
		atp_option_is_null("created_at", "Leave it as it is.");
	if (atp_get_text_or_null(row, "id") == NULL)
		atp_option_is_null("id", "Leave it as it is: other rows name the subscription by it.");
}

/* Is this a scheme and a host, and nothing else? */
static bool
is_server(const char *text)
{
	const char *host = strncmp(text, "https://", 8) == 0 ? text + 8 : strncmp(text, "http://", 7) == 0 ? text + 7 : "";

	if (host[0] == '\0' || strlen(text) > SERVER_MAX)
		return false;
	for (; *host != '\0'; host++)
		if (strchr("/?#@", *host) != NULL || (unsigned char) *host <= ' ')
			return false;
	return true;
}

static void
check_servers(AtpTuple row)
{
	const char *list_source = atp_get_text_or_null(row, "list_source");
	const char *repo_source = atp_get_text_or_null(row, "repo_source");
	const char *archive_source = atp_get_text_or_null(row, "archive_source");

	if (list_source != NULL && !is_server(list_source))
		atp_option_is_wrong("list_source", list_source, "Use scheme and host of a server, such as 'https://bsky.network', or NULL for the server of the URL.");
	if (archive_source != NULL && !is_server(archive_source))
		atp_option_is_wrong("archive_source", archive_source, "Use scheme and host of a server, such as 'https://archive.example.com', or NULL for the server of the URL.");
	if (repo_source != NULL && atp_word_number(source_words, repo_source) < 0 && !is_server(repo_source))
		atp_option_is_wrong("repo_source", repo_source,
							psprintf("Use %s, or scheme and host of a server, such as 'https://mirror.example.com'.", list_of(source_words)));
}

void
atp_options_check(AtpTuple row)
{
	check_names(row);
	check_booleans(row);
	check_words(row);
	check_arrays(row);
	check_actions(row);
	check_numbers(row);
	check_servers(row);
}
