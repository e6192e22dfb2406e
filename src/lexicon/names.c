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

/* The longest beginning that a name with a number keeps, if the number has one digit. */
#define STEM_MAX	(NAMEDATALEN - 1 - 2)

typedef struct NameEntry
{
	char		name[NAMEDATALEN];
	bool		taken;
	int			next;			/* names that are cut, and have this beginning: their smaller numbers are taken */
} NameEntry;

HTAB *
atp_names_make(void)
{
	HASHCTL		ctl = {.keysize = NAMEDATALEN, .entrysize = sizeof(NameEntry), .hcxt = CurrentMemoryContext};

	return hash_create("atproto names", 64, &ctl, HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

static NameEntry *
enter_name(HTAB *names, const char *name)
{
	bool		found;
	NameEntry  *entry = hash_search(names, name, HASH_ENTER, &found);

	if (!found)
	{
		entry->taken = false;
		entry->next = 2;
	}
	return entry;
}

static bool
is_taken(HTAB *names, const char *name)
{
	NameEntry  *entry = hash_search(names, name, HASH_FIND, NULL);

	return entry != NULL && entry->taken;
}

void
atp_names_take(HTAB *names, const char *name)
{
	enter_name(names, name)->taken = true;
}

/*
 * All names with the same stem get the same names with numbers.  A Lexicon may have a thousand properties whose names
 * differ only behind the stem: the search for a free number goes on where the search before ended.
 */
char *
atp_names_take_free(HTAB *names, const char *name)
{
	char		free[NAMEDATALEN];
	char		stem[NAMEDATALEN];
	NameEntry  *entry;

	strlcpy(free, name, sizeof(free));
	strlcpy(stem, name, STEM_MAX + 1);
	entry = enter_name(names, stem);
	while (is_taken(names, free))
	{
		char		suffix[16];
		int			n = snprintf(suffix, sizeof(suffix), "_%d", entry->next++);

		snprintf(free, sizeof(free), "%.*s%s", NAMEDATALEN - 1 - n, name, suffix);
	}
	atp_names_take(names, free);
	return pstrdup(free);
}
