/*
 * change_options.c
 *		The options with which a reader starts to read a slot (O-22).
 */
#include "postgres.h"

#include "changes/change_options.h"
#include "common/quotable.h"
#include "core/syntax/nsid.h"
#include "nodes/parsenodes.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/varlena.h"

/* The server and the readers' libraries have buffers of 1 GB, and strings of JavaScript have half as much. */
#define MAX_MESSAGE			(256 * 1024 * 1024)
#define LEAST_MAX_MESSAGE	(16 * 1024)
#define MOST_MAX_MESSAGE	(512 * 1024 * 1024)

static const struct
{
	const char *name;
	int			kind;
}			kinds[] = {
	{"commit", ATP_CHANGE_COMMITS},
	{"identity", ATP_CHANGE_IDENTITIES},
	{"account", ATP_CHANGE_ACCOUNTS},
	{"label", ATP_CHANGE_LABELS},
};

static void
refuse_value(const char *option, const char *value, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for option \"%s\" of output plugin atproto: \"%s\"", option, atp_quotable(value)),
			 errhint("%s", why)));
}

/* The parts of a list a,b,c, without spaces around them. */
static List *
split_list(const char *option, const char *value)
{
	List	   *parts = NIL;
	const char *rest = value;

	do
	{
		const char *end = rest + strcspn(rest, ",");
		const char *last = end;

		while (rest < last && *rest == ' ')
			rest++;
		while (last > rest && last[-1] == ' ')
			last--;
		if (rest == last)
			refuse_value(option, value, "Write values with commas between them.");
		parts = lappend(parts, pnstrdup(rest, last - rest));
		rest = *end == ',' ? end + 1 : NULL;
	} while (rest != NULL);
	return parts;
}

static List *
read_targets(const char *value)
{
	List	   *names;

	if (!SplitIdentifierString(pstrdup(value), ',', &names) || names == NIL)
		refuse_value("targets", value, "Write names of schemas with commas between them, as in SQL.");
	return names;
}

static List *
read_collections(const char *value)
{
	List	   *patterns = split_list("collections", value);
	ListCell   *cell;
	size_t		at;

	foreach(cell, patterns)
	{
		const char *pattern = lfirst(cell);

		if (atp_nsid_pattern_check(pattern, strlen(pattern), &at) != ATP_OK)
			refuse_value("collections", pattern, "Write NSIDs, or patterns like app.bsky.*, with commas between them.");
	}
	return patterns;
}

static void
read_dids(AtpChangeOptions *result, const char *value)
{
	List	   *texts = split_list("dids", value);
	ListCell   *cell;

	result->dids = palloc(sizeof(struct varlena *) * list_length(texts));
	result->ndids = 0;
	foreach(cell, texts)
	{
		const char *text = lfirst(cell);
		Datum		did;

		if (!atp_try_did(text, strlen(text), &did))
			refuse_value("dids", text, "Write DIDs with commas between them.");
		result->dids[result->ndids++] = (struct varlena *) DatumGetPointer(did);
	}
	qsort(result->dids, result->ndids, sizeof(struct varlena *), atp_compare_did_refs);
}

static int
read_kinds(const char *value)
{
	List	   *names = split_list("kinds", value);
	ListCell   *cell;
	int			result = 0;

	foreach(cell, names)
	{
		const char *name = lfirst(cell);
		int			i = 0;

		while (i < lengthof(kinds) && strcmp(kinds[i].name, name) != 0)
			i++;
		if (i == lengthof(kinds))
			refuse_value("kinds", name, "Kinds are commit, identity, account and label.");
		result |= kinds[i].kind;
	}
	return result;
}

static bool
read_bool(const char *option, const char *value)
{
	bool		result = false;

	if (!parse_bool(value, &result))
		refuse_value(option, value, "Write true or false.");
	return result;
}

static bool
read_positions(const char *value)
{
	if (strcmp(value, "all") != 0 && strcmp(value, "changes") != 0)
		refuse_value("positions", value, "Write all, or changes for no message after a transaction that has no other.");
	return strcmp(value, "all") == 0;
}

static int
read_max_message(const char *value)
{
	int			bytes;

	if (!parse_int(value, &bytes, GUC_UNIT_BYTE, NULL) || bytes < LEAST_MAX_MESSAGE || bytes > MOST_MAX_MESSAGE)
		refuse_value("max_message", value, "Write a size from 16kB to 512MB.");
	return bytes;
}

static void
read_option(AtpChangeOptions *result, const char *name, const char *value)
{
	if (strcmp(name, "targets") == 0)
		result->targets = read_targets(value);
	else if (strcmp(name, "collections") == 0)
		result->collections = read_collections(value);
	else if (strcmp(name, "dids") == 0)
		read_dids(result, value);
	else if (strcmp(name, "kinds") == 0)
		result->kinds = read_kinds(value);
	else if (strcmp(name, "old") == 0)
		result->old = read_bool(name, value);
	else if (strcmp(name, "max_message") == 0)
		result->max_message = read_max_message(value);
	else if (strcmp(name, "positions") == 0)
		result->positions = read_positions(value);
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("output plugin atproto has no option \"%s\"", atp_quotable(name)),
				 errhint("Options are targets, collections, dids, kinds, max_message, old and positions.")));
}

AtpChangeOptions
atp_change_options(List *options)
{
	AtpChangeOptions result = {
		.kinds = ATP_CHANGE_COMMITS | ATP_CHANGE_IDENTITIES | ATP_CHANGE_ACCOUNTS | ATP_CHANGE_LABELS,
		.max_message = MAX_MESSAGE,
		.positions = true
	};
	ListCell   *cell;

	foreach(cell, options)
	{
		DefElem    *option = lfirst(cell);

		/* pg_recvlogical -o old */
		read_option(&result, option->defname, option->arg != NULL ? strVal(option->arg) :
					strcmp(option->defname, "old") == 0 ? "true" : "");
	}
	return result;
}

bool
atp_change_has_target(const AtpChangeOptions *options, const char *target)
{
	ListCell   *cell;

	foreach(cell, options->targets)
		if (strcmp(lfirst(cell), target) == 0)
			return true;
	return options->targets == NIL;
}

bool
atp_change_has_collection(const AtpChangeOptions *options, const char *collection)
{
	ListCell   *cell;

	foreach(cell, options->collections)
	{
		const char *pattern = lfirst(cell);

		if (atp_nsid_matches(collection, strlen(collection), pattern, strlen(pattern)))
			return true;
	}
	return options->collections == NIL;
}

bool
atp_change_has_did(const AtpChangeOptions *options, struct varlena *did)
{
	return options->ndids == 0 ||
		bsearch(&did, options->dids, options->ndids, sizeof(struct varlena *), atp_compare_did_refs) != NULL;
}
