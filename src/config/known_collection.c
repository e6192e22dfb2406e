/*
 * known_collection.c
 *		Names of collections that are probably misspelt.
 *
 * Each author may invent collections, so a subscription may name a collection without a known Lexicon.  A misspelt name is no
 * error, but the subscription waits for records that never come.  A NOTICE names the collection that was probably meant.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/quotable.h"
#include "config/known_collection.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

/* Letters by which a misspelt name may differ from the known name: app.bsky.feed.posts, app.bsky.graph.folow. */
#define LETTERS_MAX	3

char *
atp_collection_near(const char *name)
{
	AtpResult	known = atp_query("SELECT id::text AS id FROM atproto.lexicon WHERE doc #>> '{defs,main,type}' = 'record' ORDER BY id", ATP_NO_ARGS);
	char	   *nearest = NULL;
	int			least = LETTERS_MAX + 1;

	for (uint64 i = 0; i < known.n && least > 0; i++)
	{
		char	   *id = atp_get_text(atp_result_row(known, i), "id");
		int			letters = varstr_levenshtein_less_equal(name, strlen(name), id, strlen(id), 1, 1, 1, LETTERS_MAX, true);

		if (letters < least)
		{
			least = letters;
			nearest = id;
		}
	}
	return least > 0 ? nearest : NULL;
}

static bool
same_collections(AtpTuple a, AtpTuple b)
{
	const char *x = atp_get_text_or_null(a, "collections");
	const char *y = atp_get_text_or_null(b, "collections");

	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/* Does the name begin names of known Lexicons, as app.bsky.feed does? */
static bool
begins_known(const char *name)
{
	return atp_query("SELECT FROM atproto.lexicon WHERE starts_with(id::text, $1) LIMIT 1", ATP_ARGS(atp_text_arg(psprintf("%s.", name)))).n > 0;
}

static int
detail_of(const char *name, bool alone)
{
	return alone ? errdetail("The subscription stores only records of the collection \"%s\", if there ever are any.", atp_quotable(name)) :
		errdetail("Under this name only records of exactly \"%s\" are stored, if there ever are any; the other collections are not affected.", atp_quotable(name));
}

/* The statement that corrects a name in the list. */
static char *
correct_name(const char *name, const char *meant, const char *subscription)
{
	return psprintf("UPDATE atproto.subscription SET collections = array_replace(collections, %s, %s) WHERE name = %s.",
					quote_literal_cstr(name), quote_literal_cstr(meant), subscription);
}

static void
notice_of(const char *name, bool alone, const char *subscription)
{
	const char *meant;

	if (strchr(name, '*') != NULL)
		return;
	meant = atp_collection_near(name);
	if (meant != NULL)
		ereport(NOTICE,
				(errmsg("no Lexicon \"%s\" is known, but \"%s\" is", atp_quotable(name), meant),
				 detail_of(name, alone),
				 errhint("If you mean \"%s\": %s", meant, correct_name(name, meant, subscription))));
	else if (begins_known(name))
		ereport(NOTICE,
				(errmsg("no Lexicon \"%s\" is known, but \"%s.*\" are", atp_quotable(name), atp_quotable(name)),
				 detail_of(name, alone),
				 errhint("If you mean all of \"%s.*\": %s", atp_quotable(name), correct_name(name, psprintf("%s.*", name), subscription))));
}

void
atp_collections_notice(const AtpTuple *old, AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	if (old != NULL && same_collections(*old, row))
		return;
	n = atp_get_array(row, "collections", TEXTOID, &values, &nulls);
	SPI_connect();
	for (int i = 0; i < n; i++)
		notice_of(TextDatumGetCString(values[i]), n == 1, quote_literal_cstr(atp_get_text(row, "name")));
	SPI_finish();
}
