/*
 * text.c
 *		Texts and facets.  Offsets count the bytes of UTF-8.
 */
#include "text.h"

#include <stdio.h>
#include <string.h>

static unsigned
chars_of(const char *s)
{
	unsigned	n = 0;

	for (; *s != '\0'; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}

bool
text_add(Text *t, const char *joint, const char *words)
{
	const char *between = t->len == 0 ? "" : joint;
	unsigned	chars = chars_of(between) + chars_of(words);

	if (t->chars + chars > TEXT_CHARS_MAX)
		return false;
	t->len += (size_t) snprintf(t->s + t->len, sizeof t->s - t->len, "%s%s", between, words);
	t->chars += chars;
	return true;
}

static bool
add_facet(Text *t, const char *words, const char *type, const char *key, const char *value)
{
	Facet	   *f = &t->facet[t->nfacets];

	if (t->nfacets == FACETS_MAX || !text_add(t, " ", words))
		return false;
	*f = (Facet) {.start = t->len - strlen(words), .end = t->len, .type = type, .key = key};
	snprintf(f->value, sizeof f->value, "%s", value);
	t->nfacets++;
	return true;
}

bool
text_hashtag(Text *t, const char *tag)
{
	char		words[128];

	snprintf(words, sizeof words, "#%s", tag);
	return add_facet(t, words, "tag", "tag", tag);
}

bool
text_mention(Text *t, const char *handle, const char *did)
{
	char		words[128];

	snprintf(words, sizeof words, "@%s", handle);
	return add_facet(t, words, "mention", "did", did);
}

bool
text_link(Text *t, const char *shown, const char *uri)
{
	return add_facet(t, shown, "link", "uri", uri);
}

void
text_put(const Text *t, Values *v, Value *post)
{
	Value	   *facets;

	value_text(v, post, "text", "%s", t->s);
	if (t->nfacets == 0)
		return;
	facets = value_list(v, post, "facets");
	for (unsigned i = 0; i < t->nfacets; i++)
	{
		const Facet *f = &t->facet[i];
		Value	   *facet = value_map(v, facets, NULL);
		Value	   *index = value_map(v, facet, "index");
		Value	   *feature = value_map(v, value_list(v, facet, "features"), NULL);

		value_integer(v, index, "byteStart", (int64_t) f->start);
		value_integer(v, index, "byteEnd", (int64_t) f->end);
		value_text(v, feature, "$type", "app.bsky.richtext.facet#%s", f->type);
		value_text(v, feature, f->key, "%s", f->value);
	}
}
