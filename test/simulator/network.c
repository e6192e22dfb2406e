/*
 * network.c
 *		Accounts, their repositories at the start, and recent posts.
 */
#include "network.h"

#include "core/syntax/base32.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OLD_SPAN	(UINT64_C(63072000) * 1000000)	/* two years of history */

const char *const collections[RECORD_KINDS] = {
	[KIND_LIKE] = "app.bsky.feed.like",
	[KIND_POST] = "app.bsky.feed.post",
	[KIND_REPOST] = "app.bsky.feed.repost",
	[KIND_FOLLOW] = "app.bsky.graph.follow",
	[KIND_BLOCK] = "app.bsky.graph.block",
	[KIND_LISTITEM] = "app.bsky.graph.listitem",
	[KIND_LIST] = "app.bsky.graph.list",
	[KIND_PROFILE] = "app.bsky.actor.profile",
	[KIND_THREADGATE] = "app.bsky.feed.threadgate",
	[KIND_OTHER] = "com.example.note",
	[KIND_STATUS] = "xyz.statusphere.status"
};

/* --- time --- */

uint64_t
network_tid(Network *net)
{
	return atp_tid_make(++net->micros, (unsigned) random_below(&net->random, ATP_TID_MAX_CLOCK + 1));
}

void
time_text(uint64_t micros, char out[TIME_TEXT])
{
	time_t		seconds = (time_t) (micros / 1000000);
	struct tm	tm;

	gmtime_r(&seconds, &tm);
	snprintf(out, TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
			 (unsigned) (tm.tm_year + 1900) % 10000, (unsigned) (tm.tm_mon + 1) % 100,
			 (unsigned) tm.tm_mday % 100, (unsigned) tm.tm_hour % 100, (unsigned) tm.tm_min % 100,
			 (unsigned) tm.tm_sec % 100, (unsigned) (micros / 1000 % 1000));
}

/* --- the start --- */

static void
no_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
}

/* A profile, and then what the stream's mix of records has, but no more profiles. */
static Kind
old_kind(Network *net, size_t i)
{
	static const Kind kinds[] = {
		KIND_LIKE, KIND_LIKE, KIND_LIKE, KIND_LIKE, KIND_LIKE, KIND_LIKE, KIND_POST, KIND_POST,
		KIND_REPOST, KIND_FOLLOW
	};

	return i == 0 ? KIND_PROFILE : kinds[random_below(&net->random, sizeof kinds / sizeof *kinds)];
}

static char *
path_of(Kind kind, uint64_t tid)
{
	char		path[128];
	char		rkey[ATP_TID_TEXT];
	int			len;

	atp_tid_format(tid, rkey);
	len = snprintf(path, sizeof path, "%s/%.*s", collections[kind], ATP_TID_TEXT, rkey);
	return xstrndup(path, (size_t) len);
}

/* How many records a repository of this size has. */
static uint64_t
records_of(const Network *net, unsigned size)
{
	return net->options->history * size / SIZES;
}

void
old_record(const char *path, AtpCborWriter *w)
{
	const char *rkey = strchr(path, '/') + 1;

	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "rkey");
	atp_cbor_put_key(w, rkey);
	atp_cbor_put_key(w, "$type");
	atp_cbor_put_text(w, path, (size_t) (rkey - 1 - path));
}

static void
make_old(Network *net, uint64_t i)
{
	Old		   *old = &net->old[i];
	uint64_t	micros = net->start - OLD_SPAN + OLD_SPAN / net->options->history * i;
	char	   *path;
	uint8_t		block[512];
	AtpCborWriter w = {.buf = block, .cap = sizeof block};
	uint8_t		digest[DIGEST_LEN];

	old->kind = old_kind(net, i);
	path = old->kind == KIND_PROFILE ? xstrndup("app.bsky.actor.profile/self", 27) :
		path_of(old->kind, atp_tid_make(micros, 0));
	old_record(path, &w);
	sha256(NULL, block, w.len, digest);
	old->leaf = tree_leaf(path, digest);
}

/* The history that accounts share, and the trees of its beginnings. */
static void
make_history(Network *net)
{
	Tree		tree = {.root = NULL};
	uint64_t	done = 0;

	net->old = xcalloc(net->options->history + 1, sizeof(Old));
	for (unsigned size = 0; size <= SIZES; size++)
	{
		tree.owner = size + 1;	/* goes on from the one before */
		for (; done < records_of(net, size); done++)
		{
			make_old(net, done);
			tree_insert(&tree, &net->old[done].leaf);
		}
		tree_seal(&tree, no_block, NULL, net->old_root[size]);
		net->old_tree[size] = tree;
	}
}

static void
set_size(Network *net, Account *a, unsigned size)
{
	a->history = (uint32_t) records_of(net, size);
	a->tree.root = net->old_tree[size].root;
	memcpy(a->data, net->old_root[size], sizeof a->data);
}

void
account_set_key(const Network *net, Account *a, unsigned key)
{
	uint64_t	seed[3] = {net->options->seed, (uint64_t) (a - net->accounts), key};

	a->key = key;
	sha256(NULL, (const uint8_t *) seed, sizeof seed, a->secret);
}

uint32_t
network_join(Network *net)
{
	Account    *a;
	Random		own = {.state = net->options->seed * UINT64_C(0x100000001) + net->naccounts};

	if (net->naccounts == net->cap)
	{
		net->cap = net->cap * 2 + 16;
		net->accounts = xrealloc(net->accounts, net->cap * sizeof(Account));
	}
	a = &net->accounts[net->naccounts];
	*a = (Account) {.active = true, .rev = atp_tid_make(net->micros, 0)};
	memcpy(a->did, "did:plc:", 8);
	for (int i = 8; i < DID_LEN; i++)
		a->did[i] = atp_base32_digit[random_below(&own, 32)];
	a->host = (unsigned) random_below(&own, HOSTS);
	a->curve = (double) random_below(&own, 1000000) < net->options->p256 * 10000 ? ATP_P256 : ATP_K256;
	account_set_key(net, a, 0);
	a->tree.owner = SIZES + 2 + net->naccounts;
	set_size(net, a, 0);
	net->nactive++;
	return net->naccounts++;
}

void
network_start(Network *net, const Options *o)
{
	net->options = o;
	net->random.state = o->seed;
	net->start = net->micros = o->start;
	make_history(net);
	/* with --social the stream tells how each of them joins */
	for (uint64_t i = 0; i < o->accounts && !o->social; i++)
	{
		uint32_t	joined = network_join(net);

		set_size(net, &net->accounts[joined], (unsigned) random_below(&net->random, SIZES + 1));
	}
}

void
network_free(Network *net)
{
	for (uint32_t i = 0; i < net->naccounts; i++)
	{
		account_clear(&net->accounts[i]);
		free(net->accounts[i].records);
	}
	for (unsigned size = SIZES + 1; size-- > 0;)
		tree_free(&net->old_tree[size]);
	for (uint64_t i = 0; i < net->options->history; i++)
		free((char *) net->old[i].leaf.path);
	free(net->old);
	free(net->accounts);
	once_free(&net->once);
}

/* --- choices --- */

Account *
network_pick(Network *net)
{
	Account    *a;

	do
		a = &net->accounts[random_skewed(&net->random, net->naccounts)];
	while (!a->active);
	return a;
}

/* The newest most often. */
Post *
network_recent_post(Network *net)
{
	uint64_t	n = net->nposts < RECENT_POSTS ? net->nposts : RECENT_POSTS;

	if (n == 0)
		return NULL;
	return &net->post[(net->nposts - 1 - random_skewed(&net->random, n)) % RECENT_POSTS];
}

/* One of the last posts; else one from before the stream. */
PostRef
network_post(Network *net)
{
	PostRef		post = {.account = (uint32_t) random_skewed(&net->random, net->naccounts)};
	const Account *a = &net->accounts[post.account];

	if (net->nposts > 0 && random_below(&net->random, 10) > 0)
		return network_recent_post(net)->ref;
	for (int i = 0; i < 10 && a->history > 0; i++)
	{
		const Old  *old = &net->old[random_below(&net->random, a->history)];

		if (old->kind != KIND_POST)
			continue;
		memcpy(post.rkey, old->leaf.path + old->leaf.len - ATP_TID_TEXT, ATP_TID_TEXT);
		memcpy(post.digest, old->leaf.value, DIGEST_LEN);
		return post;
	}
	atp_tid_format(atp_tid_make(net->start - random_below(&net->random, OLD_SPAN), 0), post.rkey);
	random_bytes(&net->random, post.digest, sizeof post.digest);
	return post;
}

void
network_posted(Network *net, const Account *account, const Record *record, const PostRef *root)
{
	Post	   *post = &net->post[net->nposts++ % RECENT_POSTS];

	*post = (Post) {.ref.account = (uint32_t) (account - net->accounts)};
	memcpy(post->ref.rkey, strchr(record->path, '/') + 1, ATP_TID_TEXT);
	memcpy(post->ref.digest, record->digest, DIGEST_LEN);
	post->root = root->account == NOBODY ? post->ref : *root;
}

void
network_unposted(Network *net, const Account *account, const char *path)
{
	const char *rkey = strchr(path, '/') + 1;

	for (size_t i = 0; i < RECENT_POSTS && i < net->nposts; i++)
	{
		PostRef    *ref = &net->post[i].ref;

		if (ref->account == (uint32_t) (account - net->accounts) && strcmp(ref->rkey, rkey) == 0)
			ref->account = NOBODY;
	}
}

/* --- records of an account --- */

Record *
account_add(Account *a, Kind kind, const char *path)
{
	Record	   *record;

	if (a->nrecords == a->cap)
	{
		a->cap = a->cap * 2 + 4;
		a->records = xrealloc(a->records, a->cap * sizeof(Record));
	}
	record = &a->records[a->nrecords++];
	*record = (Record) {.path = xstrndup(path, strlen(path)), .kind = kind};
	return record;
}

Record *
account_find(Account *a, const char *path)
{
	for (uint32_t i = 0; i < a->nrecords; i++)
	{
		if (strcmp(a->records[i].path, path) == 0)
			return &a->records[i];
	}
	return NULL;
}

void
account_forget(Account *a, Record *record)
{
	free(record->json);
	free(record->block);
	*record = a->records[--a->nrecords];
}

void
account_clear(Account *a)
{
	tree_free(&a->tree);
	for (uint32_t i = 0; i < a->nrecords; i++)
	{
		free(a->records[i].path);
		free(a->records[i].json);
		free(a->records[i].block);
	}
	a->nrecords = 0;
}
