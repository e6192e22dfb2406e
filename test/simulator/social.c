/*
 * social.c
 *		The people of the simulated network: languages, names, interests, and what their records are about.
 */
#include "social.h"

#include "phrases.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TRIES	16				/* to find what one has not liked, followed, … yet */

#define REPLIES	45				/* percent of the posts */
#define QUOTES	8				/* of the others */

/* --- people --- */

/* The names of an account: a number makes them differ where there are no more. */
static unsigned
names_of(const Network *net, const Account *account, const char **first, const char **last)
{
	size_t		i = (size_t) (account - net->accounts);

	/* the two numbers of names have no common factor, so that all pairs come */
	*first = first_names.text[i % first_names.n];
	*last = last_names.text[i % last_names.n];
	return (unsigned) (i / (first_names.n * last_names.n));
}

void
social_handle(const Network *net, const Account *account, char out[HANDLE_MAX])
{
	const char *first;
	const char *last;
	unsigned	number = names_of(net, account, &first, &last);
	char		suffix[16] = "";

	if (number > 0)
		snprintf(suffix, sizeof suffix, "-%u", number + 1);
	snprintf(out, HANDLE_MAX, "%s-%s%s.example.com", first, last, suffix);
	for (char *c = out; *c != '\0'; c++)
		*c = (char) tolower((unsigned char) *c);
}

void
social_name(const Network *net, const Account *account, char out[HANDLE_MAX])
{
	const char *first;
	const char *last;
	unsigned	number = names_of(net, account, &first, &last);

	snprintf(out, HANDLE_MAX, "%s %s%s", first, last, number % 2 ? " 🌿" : "");
}

/* --- choices --- */

/* Does this account so to it for the first time? */
static bool
first_time(Network *net, const Account *account, Kind kind, const char *a, const char *b)
{
	const char *const texts[] = {collections[kind], account->did, a, b};

	return once(&net->once, texts, COUNT(texts));
}

/* Of two posts the one with more likes, so that a few get most of them. */
static Post *
good_post(Network *net)
{
	Post	   *best = NULL;

	for (int i = 0; i < 2; i++)
	{
		Post	   *post = network_recent_post(net);

		if (post != NULL && post->ref.account != NOBODY && net->accounts[post->ref.account].active &&
			(best == NULL || post->likes > best->likes))
			best = post;
	}
	return best;
}

/* A post to like or repost: each account does that once; to answer or to quote: as often as it likes. */
static Post *
choose_post(Network *net, const Account *account, Kind kind)
{
	for (int i = 0; i < TRIES; i++)
	{
		Post	   *post = good_post(net);

		if (post != NULL && (kind == KIND_POST ||
							 first_time(net, account, kind, net->accounts[post->ref.account].did, post->ref.rkey)))
			return post;
	}
	return NULL;
}

static const Account *
choose_account(Network *net, const Account *account, Kind kind, const char *list)
{
	for (int i = 0; i < TRIES; i++)
	{
		const Account *other = &net->accounts[random_skewed(&net->random, net->naccounts)];

		if (other != account && other->active && first_time(net, account, kind, other->did, list))
			return other;
	}
	return NULL;
}

/* A list of the account. */
static const char *
own_list(const Account *account)
{
	for (uint32_t i = account->nrecords; i-- > 0;)
	{
		if (account->records[i].kind == KIND_LIST)
			return account->records[i].path;
	}
	return NULL;
}

/* A post of the account that begins a thread. */
static const char *
own_thread(Network *net, Account *account)
{
	char		path[128];

	for (int i = 0; i < TRIES * TRIES; i++)
	{
		const Post *post = network_recent_post(net);

		if (post == NULL || post->ref.account != (uint32_t) (account - net->accounts) ||
			post->root.account != post->ref.account || strcmp(post->root.rkey, post->ref.rkey) != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", collections[KIND_POST], post->ref.rkey);
		return account_find(account, path)->path;
	}
	return NULL;
}

static Kind
plan_post(Network *net, const Account *account, About *about)
{
	uint64_t	chance = random_below(&net->random, 100);

	if (chance < REPLIES && (about->post = choose_post(net, account, KIND_POST)) != NULL)
		about->root = about->post->root;
	else if (chance >= 100 - QUOTES)
		about->is_quote = (about->post = choose_post(net, account, KIND_POST)) != NULL;
	return KIND_POST;
}

static Kind
plan_like(Network *net, const Account *account, Kind kind, About *about)
{
	Post	   *post = choose_post(net, account, kind);

	if (post == NULL)
		return plan_post(net, account, about);
	post->likes += kind == KIND_LIKE;
	about->post = post;
	return kind;
}

Kind
social_plan(Network *net, Account *account, Kind kind, About *about)
{
	switch (kind)
	{
		case KIND_POST:
			return plan_post(net, account, about);
		case KIND_LIKE:
		case KIND_REPOST:
			return plan_like(net, account, kind, about);
		case KIND_FOLLOW:
		case KIND_BLOCK:
			about->account = choose_account(net, account, kind, "");
			break;
		case KIND_LISTITEM:
			if ((about->path = own_list(account)) == NULL)
				return KIND_LIST;
			about->account = choose_account(net, account, kind, about->path);
			break;
		case KIND_THREADGATE:
			return (about->path = own_thread(net, account)) == NULL ? plan_post(net, account, about) : kind;
		case KIND_UPDATE:
			/* applications never write a post anew, only the profile */
			return KIND_PROFILE;
		case KIND_DELETE:
			/* there was nothing to delete */
			return plan_like(net, account, KIND_LIKE, about);
		default:
			return kind;
	}
	return about->account == NULL ? plan_like(net, account, KIND_LIKE, about) : kind;
}
