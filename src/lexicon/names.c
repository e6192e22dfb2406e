/*
 * names.c
 *		Converts names of Lexicons to SQL names: see names.h.
 */
#include "postgres.h"

#include "common/keywords.h"
#include "lexicon/names.h"

static bool
is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool
is_small(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

void
atp_name_append(StringInfo name, const char *part)
{
	if (name->len > 0)
		appendStringInfoChar(name, '_');
	for (const char *c = part; *c != '\0'; c++)
	{
		/* A word begins here, as in fooBar and fooURLBar. */
		if (c > part && is_upper(*c) && (is_small(c[-1]) || (is_upper(c[-1]) && c[1] >= 'a' && c[1] <= 'z')))
			appendStringInfoChar(name, '_');
		appendStringInfoChar(name, is_upper(*c) ? *c - 'A' + 'a' : is_small(*c) ? *c : '_');
	}
}

static bool
is_reserved(const char *name)
{
	int			keyword = ScanKeywordLookup(name, &ScanKeywords);

	return keyword >= 0 &&
		(ScanKeywordCategories[keyword] == RESERVED_KEYWORD || ScanKeywordCategories[keyword] == TYPE_FUNC_NAME_KEYWORD);
}

char *
atp_name_finish(StringInfo name)
{
	char	   *cut = pnstrdup(name->data, Min(name->len, NAMEDATALEN - 1));

	if (is_reserved(cut))
		return psprintf("%s_", cut);
	if (*cut == '\0' || (*cut >= '0' && *cut <= '9'))
		return psprintf("_%.*s", NAMEDATALEN - 2, cut);
	return cut;
}

HTAB *
atp_names_make(void)
{
	HASHCTL		ctl = {.keysize = NAMEDATALEN, .entrysize = NAMEDATALEN, .hcxt = CurrentMemoryContext};

	return hash_create("atproto names", 64, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

void
atp_names_take(HTAB *names, const char *name)
{
	(void) hash_search(names, name, HASH_ENTER, NULL);
}

char *
atp_names_take_free(HTAB *names, const char *name)
{
	const char *free = name;

	for (int i = 2; hash_search(names, free, HASH_FIND, NULL) != NULL; i++)
	{
		char	   *suffix = psprintf("_%d", i);

		free = psprintf("%.*s%s", (int) (NAMEDATALEN - 1 - strlen(suffix)), name, suffix);
	}
	atp_names_take(names, free);
	return pstrdup(free);
}
