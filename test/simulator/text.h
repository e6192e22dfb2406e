/*
 * text.h
 *		A post's text in the making, and its facets: which bytes of it are a hashtag, a
 *		mention or a link.
 */
#ifndef SIM_TEXT_H
#define SIM_TEXT_H

#include "value.h"

#define TEXT_CHARS_MAX	300		/* of a post, by its lexicon: graphemes, of which there are no more than characters */
#define FACETS_MAX		8

typedef struct Facet
{
	size_t		start;
	size_t		end;
	const char *type;			/* the part of app.bsky.richtext.facet */
	const char *key;			/* of its value */
	char		value[128];
} Facet;

typedef struct Text
{
	char		s[4 * TEXT_CHARS_MAX + 1];
	size_t		len;
	unsigned	chars;
	Facet		facet[FACETS_MAX];	/* in the order of the text */
	unsigned	nfacets;
} Text;

/* Each gives false, and adds nothing, where the text would become too long; the joint comes first, unless the text is empty. */
extern bool text_add(Text *t, const char *joint, const char *words);
extern bool text_hashtag(Text *t, const char *tag);	/* without # */
extern bool text_mention(Text *t, const char *handle, const char *did);
extern bool text_link(Text *t, const char *shown, const char *uri);

/* Adds text and facets to a post. */
extern void text_put(const Text *t, Values *v, Value *post);

#endif							/* SIM_TEXT_H */
