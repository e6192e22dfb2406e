/*
 * social_record.c
 *		What people write: records that the lexicons of app.bsky allow.
 */
#include "social.h"

#include "parts.h"
#include "phrases.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

/* Percentages of posts. */
#define MENTIONS	12
#define HASHTAGS	30
#define LINKS		10
#define PICTURES	20
#define PICTURES_OF_QUOTES	25

#define SENTENCES_CHARS	170		/* leave room for the rest */

static bool
by_chance(Network *net, unsigned percent)
{
	return random_below(&net->random, 100) < percent;
}

static const char *
some(Network *net, const Phrases *phrases)
{
	return phrases->text[random_below(&net->random, phrases->n)];
}

/* An account writes in one language; four of nine in the first. */
static const Language *
language_of(const Network *net, const Account *account)
{
	size_t		i = (size_t) (account - net->accounts) % 9;

	return &languages[i < LANGUAGES ? i : 0];
}

/* --- text --- */

static void
add_sentences(Network *net, Text *t, const Language *l, bool is_reply)
{
	uint64_t	want = t->len + random_below(&net->random, 2 * net->options->text + 1);
	uint64_t	at = random_below(&net->random, l->goes_on.n);

	text_add(t, " ", some(net, is_reply ? &l->answers : &l->begins));
	/* no sentence comes twice: the loop ends after l->goes_on.n sentences */
	for (size_t i = 0; i < l->goes_on.n && t->len < want && t->chars < SENTENCES_CHARS; i++)
		text_add(t, l->joint, l->goes_on.text[(at + i) % l->goes_on.n]);
}

static void
add_hashtags(Network *net, Text *t, const Language *l)
{
	uint64_t	i = random_skewed(&net->random, l->tags.n);

	text_hashtag(t, l->tags.text[i]);
	if (by_chance(net, 30))
		text_hashtag(t, l->tags.text[(i + 1) % l->tags.n]);
}

/* A random active account that a post mentions, or NULL. */
static const Account *
mentioned(Network *net, const Account *account)
{
	const Account *other = &net->accounts[random_skewed(&net->random, net->naccounts)];

	return other != account && other->active ? other : NULL;
}

/* A web page that a post links to: the text of the link, and the URI. */
typedef struct Page
{
	char		shown[64];
	char		uri[128];
} Page;

static Page
some_page(Network *net)
{
	unsigned	n = (unsigned) random_below(&net->random, 1000);
	Page		page;

	snprintf(page.shown, sizeof page.shown, "example.com/notes/%u…", n);
	snprintf(page.uri, sizeof page.uri, "https://example.com/notes/%u?lang=en&from=atproto#start", n);
	return page;
}

/* --- embeds --- */

static void
put_pictures(Network *net, Values *v, Value *embed)
{
	Value	   *images = value_list(v, embed, "images");
	uint64_t	n = 1 + random_skewed(&net->random, 4);

	value_text(v, embed, "$type", "app.bsky.embed.images");
	for (uint64_t i = 0; i < n; i++)
	{
		Value	   *image = value_map(v, images, NULL);

		value_text(v, image, "alt", "%s", some(net, &pictures));
		put_blob(net, v, image, "image");
		put_aspect(net, v, image);
	}
}

static void
put_quote(Network *net, Values *v, Value *embed, const PostRef *post)
{
	Value	   *record = embed;

	if (by_chance(net, PICTURES_OF_QUOTES))
	{
		value_text(v, embed, "$type", "app.bsky.embed.recordWithMedia");
		put_pictures(net, v, value_map(v, embed, "media"));
		record = value_map(v, embed, "record");
	}
	value_text(v, record, "$type", "app.bsky.embed.record");
	put_ref(net, v, record, "record", post);
}

static void
put_card(Values *v, Value *embed, const char *uri, const Language *l)
{
	Value	   *card = value_map(v, embed, "external");

	value_text(v, embed, "$type", "app.bsky.embed.external");
	value_text(v, card, "uri", "%s", uri);
	value_text(v, card, "title", "%s", l->begins.text[0]);
	value_text(v, card, "description", "%s", l->goes_on.text[0]);
}

/* --- records --- */

static void
put_post(Network *net, const Account *account, const About *about, Values *v, Value *post)
{
	const Language *l = language_of(net, account);
	bool		is_reply = about->root.account != NOBODY;
	bool		has_link = by_chance(net, LINKS);
	const Account *other = by_chance(net, MENTIONS) ? mentioned(net, account) : NULL;
	Page		page = some_page(net);
	Text		text = {.len = 0};

	if (other != NULL)
		text_mention(&text, other->handle, other->did);
	add_sentences(net, &text, l, is_reply);
	if (has_link)
		text_link(&text, page.shown, page.uri);
	if (by_chance(net, HASHTAGS))
		add_hashtags(net, &text, l);
	text_put(&text, v, post);
	value_text(v, value_list(v, post, "langs"), NULL, "%s", l->code);
	if (is_reply)
	{
		Value	   *reply = value_map(v, post, "reply");

		put_ref(net, v, reply, "root", &about->root);
		put_ref(net, v, reply, "parent", &about->post->ref);
	}
	if (about->is_quote)
		put_quote(net, v, value_map(v, post, "embed"), &about->post->ref);
	else if (has_link)
		put_card(v, value_map(v, post, "embed"), page.uri, l);
	else if (by_chance(net, PICTURES))
		put_pictures(net, v, value_map(v, post, "embed"));
}

static void
put_profile(Network *net, const Account *account, Values *v, Value *profile)
{
	const Language *l = language_of(net, account);
	char		name[HANDLE_MAX];

	social_name(net, account, name);
	value_text(v, profile, "displayName", "%s", name);
	value_text(v, profile, "description", "%s #%s", some(net, &l->begins), some(net, &l->tags));
	put_blob(net, v, profile, "avatar");
}

bool
social_record(Network *net, const Account *account, Kind kind, const About *about, Values *v, Value *record)
{
	switch (kind)
	{
		case KIND_POST:
			put_post(net, account, about, v, record);
			return true;
		case KIND_LIKE:
		case KIND_REPOST:
			put_ref(net, v, record, "subject", &about->post->ref);
			return true;
		case KIND_FOLLOW:
		case KIND_BLOCK:
			value_text(v, record, "subject", "%s", about->account->did);
			return true;
		case KIND_LISTITEM:
			value_text(v, record, "subject", "%s", about->account->did);
			value_text(v, record, "list", "at://%s/%s", account->did, about->path);
			return true;
		case KIND_LIST:
			value_text(v, record, "name", "%s", some(net, &language_of(net, account)->tags));
			value_text(v, record, "purpose", "app.bsky.graph.defs#curatelist");
			return true;
		case KIND_PROFILE:
			put_profile(net, account, v, record);
			return true;
		default:
			return false;
	}
}
