/*
 * record.c
 *		Records as the lexicons of app.bsky have them, of about the sizes that
 *		are seen.  They mean nothing: with --social, most come from social_record.c.
 */
#include "record.h"

#include "parts.h"

#include <stdio.h>

/* Words of several scripts, and all that JSON and COPY have to escape. */
static const char *const words[] = {
	"the", "a", "and", "is", "this", "that", "for", "not", "with", "just", "today", "people",
	"network", "protocol", "morning", "coffee", "writing", "photo", "cat", "garden", "train",
	"weather", "music", "reading", "database", "really", "thank", "you", "why", "because",
	"great", "new", "old", "never", "again", "\xf0\x9f\xa6\x8b", "\xe2\x9d\xa4\xef\xb8\x8f",
	"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", "\xec\x95\x88\xeb\x85\x95", "caf\xc3\xa9",
	"stra\303\237e", "#sky", "\"quoted\"", "back\\slash", "line\nbreak", "tab\tbed", "100%"
};
#define WORDS	(sizeof words / sizeof *words)

/* What an account says of itself in the application statusphere: one emoji. */
static const char *const statuses[] = {
	"\xf0\x9f\x91\x8d", "\xf0\x9f\xa6\x8b", "\xf0\x9f\xa5\xb3", "\xf0\x9f\x98\xa4", "\xf0\x9f\x92\xaa",
	"\xf0\x9f\x91\xbd", "\xf0\x9f\x90\x89", "\xf0\x9f\xab\xb6", "\xe2\x98\x95", "\xe2\x9b\xb5"
};
#define STATUSES	(sizeof statuses / sizeof *statuses)

static const char *
word(Network *net)
{
	return words[random_below(&net->random, WORDS)];
}

/* Some words: at least one, and bytes on average; out has room for twice that and more. */
#define SENTENCE_MAX	6200

static const char *
sentence(Network *net, uint64_t bytes, char out[SENTENCE_MAX])
{
	uint64_t	want = random_below(&net->random, 2 * bytes + 1);
	size_t		len = 0;

	do
		len += (size_t) snprintf(out + len, SENTENCE_MAX - len, "%s%s", len > 0 ? " " : "", word(net));
	while (len < want);
	return out;
}

static const char *
some_did(Network *net)
{
	return net->accounts[random_skewed(&net->random, net->naccounts)].did;
}

static void
old_rkey(Network *net, char rkey[ATP_TID_TEXT])
{
	atp_tid_format(atp_tid_make(net->start - random_below(&net->random, net->start / 100), 0), rkey);
}

/* The repost by which somebody came to the post. */
static void
put_via(Network *net, Values *v, Value *record)
{
	char		rkey[ATP_TID_TEXT];
	uint8_t		digest[DIGEST_LEN];

	old_rkey(net, rkey);
	random_bytes(&net->random, digest, sizeof digest);
	put_strong_ref(v, record, "via", some_did(net), KIND_REPOST, rkey, digest);
}

static void
put_list_uri(Network *net, Values *v, Value *parent, const char *key)
{
	char		rkey[ATP_TID_TEXT];

	old_rkey(net, rkey);
	value_text(v, parent, key, "at://%s/app.bsky.graph.list/%.*s", some_did(net), ATP_TID_TEXT, rkey);
}

static void
put_images(Network *net, Values *v, Value *post)
{
	Value	   *embed = value_map(v, post, "embed");
	Value	   *images = value_list(v, embed, "images");
	uint64_t	n = 1 + random_below(&net->random, 2);
	char		text[SENTENCE_MAX];

	value_text(v, embed, "$type", "app.bsky.embed.images");
	for (uint64_t i = 0; i < n; i++)
	{
		Value	   *image = value_map(v, images, NULL);

		value_text(v, image, "alt", "%s", sentence(net, 20, text));
		put_blob(net, v, image, "image");
		put_aspect(net, v, image);
	}
}

static void
put_facet(Network *net, Values *v, Value *post)
{
	Value	   *facet = value_map(v, value_list(v, post, "facets"), NULL);
	Value	   *index = value_map(v, facet, "index");
	Value	   *feature = value_map(v, value_list(v, facet, "features"), NULL);

	value_integer(v, index, "byteStart", 0);
	value_integer(v, index, "byteEnd", 1);
	value_text(v, feature, "$type", "app.bsky.richtext.facet#link");
	value_text(v, feature, "uri", "https://example.com/%llu",
			   (unsigned long long) random_below(&net->random, UINT32_MAX));
}

static void
put_post(Network *net, Values *v, Value *post)
{
	static const char *const languages[] = {"en", "en", "en", "ja", "pt", "de", "ko"};
	char		text[SENTENCE_MAX];

	value_text(v, post, "text", "%s", sentence(net, net->options->text, text));
	value_text(v, value_list(v, post, "langs"), NULL, "%s",
			   languages[random_below(&net->random, sizeof languages / sizeof *languages)]);
	if (random_below(&net->random, 100) < 45)
	{
		Value	   *reply = value_map(v, post, "reply");
		PostRef		root = network_post(net);
		PostRef		parent = random_below(&net->random, 2) ? root : network_post(net);

		put_ref(net, v, reply, "root", &root);
		put_ref(net, v, reply, "parent", &parent);
	}
	else if (random_below(&net->random, 100) < 30)
		put_images(net, v, post);
	if (random_below(&net->random, 100) < 15)
		put_facet(net, v, post);
}

static void
put_note(Network *net, Values *v, Value *note)
{
	char		text[SENTENCE_MAX];

	value_text(v, note, "content", "%s", sentence(net, 200, text));
	value_bool(v, note, "draft", random_below(&net->random, 2));
	value_integer(v, note, "balance", -(int64_t) random_below(&net->random, INT64_MAX));
	value_integer(v, note, "visits", (int64_t) random_below(&net->random, INT64_MAX));
	value_list(v, note, "tags");
}

const Value *
record_make(Network *net, const Account *account, Kind kind, const char *rkey, const About *about, Values *v)
{
	Value	   *record = value_record(v);
	char		text[SENTENCE_MAX];
	PostRef		post;

	value_text(v, record, "$type", "%s", collections[kind]);
	put_now(net, v, record);
	if (net->options->social && social_record(net, account, kind, about, v, record))
		return record;
	switch (kind)
	{
		case KIND_LIKE:
		case KIND_REPOST:
			post = network_post(net);
			put_ref(net, v, record, "subject", &post);
			if (random_below(&net->random, 4) == 0)
				put_via(net, v, record);
			break;
		case KIND_POST:
			put_post(net, v, record);
			break;
		case KIND_FOLLOW:
		case KIND_BLOCK:
			value_text(v, record, "subject", "%s", some_did(net));
			break;
		case KIND_LISTITEM:
			value_text(v, record, "subject", "%s", some_did(net));
			put_list_uri(net, v, record, "list");
			break;
		case KIND_LIST:
			value_text(v, record, "name", "%s", sentence(net, 20, text));
			value_text(v, record, "purpose", "app.bsky.graph.defs#curatelist");
			break;
		case KIND_PROFILE:
			value_text(v, record, "displayName", "%s", sentence(net, 12, text));
			value_text(v, record, "description", "%s", sentence(net, 80, text));
			put_blob(net, v, record, "avatar");
			break;
		case KIND_THREADGATE:
			value_text(v, record, "post", "at://%s/app.bsky.feed.post/%s", account->did, rkey);
			value_list(v, record, "allow");
			break;
		case KIND_STATUS:
			value_text(v, record, "status", "%s", statuses[random_below(&net->random, STATUSES)]);
			break;
		default:
			put_note(net, v, record);
			break;
	}
	return record;
}
