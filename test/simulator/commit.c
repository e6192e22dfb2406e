/*
 * commit.c
 *		From operations on a repository to a #commit message, and #sync.
 *
 * A message has the nodes of the new tree that its operations changed, and those
 * on the way to each key and to the keys beside it: with them one can go back
 * from the new tree to the one before, whose CID is prevData (F-09).
 */
#include "commit.h"

#include "core/repo/commit.h"
#include "core/repo/car_write.h"
#include "core/repo/commit_write.h"
#include "export.h"
#include "message.h"
#include "record.h"
#include "sign.h"
#include "social.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCKS_ROOM	(4 * 1024 * 1024)
#define RECORD_MAX	32768
#define REV_AHEAD	50			/* microseconds from the first record key to the revision */
#define PATH_MAX_	128

typedef struct Op
{
	AtpAction	action;
	Leaf		leaf;			/* its value is the new record's */
	uint8_t		prev[DIGEST_LEN];	/* of update and delete */
	char	   *to_free;		/* the path of a record that is gone */
} Op;

typedef struct Commit
{
	Network    *net;
	Account    *account;
	uint64_t	rev;
	Op			op[BATCH_MAX];
	unsigned	nops;
	About		about;			/* of the record in the making, with --social */
	AtpCborWriter blocks;		/* nodes and records */
} Commit;

static void
add_block(void *w, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	atp_car_put_block(w, cid_span(cid), block, n);
}

/* --- operations --- */

static bool
is_in_commit(const Commit *c, const char *path)
{
	for (unsigned i = 0; i < c->nops; i++)
	{
		if (strcmp(c->op[i].leaf.path, path) == 0)
			return true;
	}
	return false;
}

/* Makes the record's content and puts its block into the commit. */
static void
fill_record(Commit *c, Record *record)
{
	static Values values;
	static uint8_t block[RECORD_MAX];
	static char json[JSON_MAX];
	AtpCborWriter w = {.buf = block, .cap = sizeof block};
	const Value *value = record_make(c->net, c->account, record->kind,
									 strchr(record->path, '/') + 1, &c->about, &values);
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	value_cbor(value, &w);
	if (w.len > w.cap)
		die("a record of %zu bytes", w.len);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block, w.len, sha256, NULL, cid);
	memcpy(record->digest, cid + sizeof cid - DIGEST_LEN, DIGEST_LEN);
	record->rev = c->rev;
	add_block(&c->blocks, cid, block, w.len);
	if (c->net->options->expect != NULL)
	{
		free(record->json);
		record->json = xstrndup(json, value_json(value, json));
	}
	if (c->net->options->exports != NULL || c->net->options->export != NULL)
	{
		free(record->block);
		record->block = (uint8_t *) xstrndup((const char *) block, w.len);
		record->block_len = w.len;
	}
}

static Op *
add_op(Commit *c, AtpAction action, const Leaf *leaf, const uint8_t *prev)
{
	Op		   *op = &c->op[c->nops++];

	*op = (Op) {.action = action, .leaf = *leaf};
	if (prev != NULL)
		memcpy(op->prev, prev, DIGEST_LEN);
	c->net->nops[action]++;
	return op;
}

/* Creates the record at a path, or writes it anew. */
static void
put(Commit *c, Kind kind, const char *path)
{
	static const uint8_t none[DIGEST_LEN];
	Leaf		leaf = tree_leaf(path, none);
	const uint8_t *prev = tree_find(&c->account->tree, &leaf);
	Record	   *record = prev == NULL ? NULL : account_find(c->account, path);

	if (record == NULL)
		record = account_add(c->account, kind, path);
	fill_record(c, record);
	leaf.path = record->path;
	memcpy(leaf.value, record->digest, DIGEST_LEN);
	add_op(c, prev == NULL ? ATP_CREATE : ATP_UPDATE, &leaf, prev);
	if (prev == NULL)
		tree_insert(&c->account->tree, &leaf);
	else
		tree_update(&c->account->tree, &leaf);
	if (kind == KIND_POST && prev == NULL)
		network_posted(c->net, c->account, record, &c->about.root);
}

static void
create(Commit *c, Kind kind)
{
	char		path[PATH_MAX_];
	char		rkey[ATP_TID_TEXT];

	atp_tid_format(network_tid(c->net), rkey);
	snprintf(path, sizeof path, "%s/%.*s", collections[kind], ATP_TID_TEXT, rkey);
	put(c, kind, path);
}

/* A post of the account, made by the stream in an earlier commit; or NULL. */
static const Record *
own_post(Commit *c)
{
	for (int i = 0; i < 20 && c->account->nrecords > 0; i++)
	{
		const Record *record = &c->account->records[random_below(&c->net->random, c->account->nrecords)];

		if (record->kind == KIND_POST && !is_in_commit(c, record->path))
			return record;
	}
	return NULL;
}

/* False when there is nothing to delete. */
static bool
delete(Commit *c)
{
	Account    *a = c->account;
	Record	   *record = NULL;
	Leaf		leaf;
	const uint8_t *prev;

	if (a->nrecords > 0 && random_below(&c->net->random, 10) > 0)
	{
		record = &a->records[random_below(&c->net->random, a->nrecords)];
		/* people keep their names */
		if (c->net->options->social && record->kind == KIND_PROFILE)
			return false;
		leaf = tree_leaf(record->path, record->digest);
	}
	else if (a->history > 0)
		leaf = c->net->old[random_below(&c->net->random, a->history)].leaf;
	else
		return false;

	/* one from the start may have been deleted before, or written anew */
	prev = tree_find(&a->tree, &leaf);
	if (prev == NULL || memcmp(prev, leaf.value, DIGEST_LEN) != 0 || is_in_commit(c, leaf.path))
		return false;
	add_op(c, ATP_DELETE, &leaf, prev)->to_free = record == NULL ? NULL : record->path;
	tree_remove(&a->tree, &leaf);
	if (record != NULL)
	{
		if (c->net->options->social && record->kind == KIND_POST)
			network_unposted(c->net, a, record->path);
		account_forget(a, record);
	}
	return true;
}

static void
operate(Commit *c, Kind kind)
{
	const Record *post = !c->net->options->social && (kind == KIND_UPDATE || kind == KIND_THREADGATE) ? own_post(c) : NULL;
	char		path[PATH_MAX_];

	if (kind == KIND_DELETE && delete(c))
		return;
	c->about = (About) {.root.account = NOBODY};
	if (c->net->options->social)
	{
		kind = social_plan(c->net, c->account, kind, &c->about);
		if (kind == KIND_THREADGATE)
			post = account_find(c->account, c->about.path);
	}
	if (kind == KIND_UPDATE && post != NULL)
	{
		put(c, KIND_POST, post->path);
		return;
	}
	if (kind == KIND_PROFILE || (kind == KIND_THREADGATE && post != NULL))
	{
		snprintf(path, sizeof path, "%s/%s", collections[kind],
				 kind == KIND_PROFILE ? "self" : strchr(post->path, '/') + 1);
		if (!is_in_commit(c, path))
		{
			put(c, kind, path);
			return;
		}
	}
	create(c, kind < RECORD_KINDS && kind != KIND_PROFILE && kind != KIND_THREADGATE ? kind : KIND_LIKE);
}

/* --- messages --- */

/* Signs a commit of the account's tree, and begins the CAR file with it as the root. */
static void
put_commit(Network *net, Account *a, uint64_t rev, AtpCborWriter *car)
{
	AtpCborWriter w = {.buf = a->commit_block, .cap = sizeof a->commit_block};
	uint8_t		sig[ATP_COMMIT_SIG_LEN];
	AtpCommit	commit = {.did = {a->did, DID_LEN}, .rev = rev, .data = cid_span(a->data)};

	if (net->options->sign)
		sign_commit(a, &commit, sig);
	else
	{
		/* r and s: two numbers of at most 255 bits, the second below half the order */
		random_bytes(&net->random, sig, sizeof sig);
		sig[0] &= 0x3f;
		sig[sizeof sig / 2] &= 0x3f;
	}
	commit.sig = (AtpBytes) {sig, sizeof sig};
	atp_commit_put(&w, &commit);
	if (w.len > w.cap)
		die("a commit of %zu bytes", w.len);
	a->commit_len = w.len;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, a->commit_block, w.len, sha256, NULL, a->commit);
	atp_car_put_header(car, cid_span(a->commit));
	add_block(car, a->commit, a->commit_block, w.len);
	a->rev = rev;
	a->has_commit = a->is_seen = true;
	export_if_asked(net, a);
}

static void
put_rev(AtpCborWriter *w, const char *key, uint64_t rev)
{
	char		text[ATP_TID_TEXT];

	atp_tid_format(rev, text);
	atp_cbor_put_key(w, key);
	atp_cbor_put_text(w, text, sizeof text);
}

static void
put_digest(AtpCborWriter *w, const char *key, const uint8_t digest[DIGEST_LEN])
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	cid_of_digest(digest, cid);
	atp_cbor_put_key(w, key);
	atp_cbor_put_link(w, cid, sizeof cid);
}

static void
put_ops(AtpCborWriter *w, const Commit *c)
{
	static const char *const actions[] = {
		[ATP_CREATE] = "create", [ATP_UPDATE] = "update", [ATP_DELETE] = "delete"
	};

	atp_cbor_put_key(w, "ops");
	atp_cbor_put_array(w, c->nops);
	for (unsigned i = 0; i < c->nops; i++)
	{
		const Op   *op = &c->op[i];

		atp_cbor_put_map(w, op->action == ATP_CREATE ? 3 : 4);
		if (op->action == ATP_DELETE)
		{
			atp_cbor_put_key(w, "cid");
			atp_cbor_put_null(w);
		}
		else
			put_digest(w, "cid", op->leaf.value);
		atp_cbor_put_key(w, "path");
		atp_cbor_put_key(w, op->leaf.path);
		if (op->action != ATP_CREATE)
			put_digest(w, "prev", op->prev);
		atp_cbor_put_key(w, "action");
		atp_cbor_put_key(w, actions[op->action]);
	}
}

static void
put_message(Commit *c, AtpCborWriter *w, const AtpCborWriter *car, uint64_t since,
			const uint8_t prev_data[ATP_CID_BLESSED_LEN])
{
	message_begin(c->net, w, ATP_REPOS_COMMIT, 12);
	put_ops(w, c);
	put_rev(w, "rev", c->rev);
	message_put_seq(c->net, w);
	atp_cbor_put_key(w, "repo");
	atp_cbor_put_key(w, c->account->did);
	message_put_time(c->net, w);
	atp_cbor_put_key(w, "blobs");
	atp_cbor_put_array(w, 0);
	if (since != 0)
		put_rev(w, "since", since);
	else
	{
		atp_cbor_put_key(w, "since");
		atp_cbor_put_null(w);
	}
	atp_cbor_put_key(w, "blocks");
	atp_cbor_put_bytes(w, car->buf, car->len);
	put_digest(w, "commit", c->account->commit + ATP_CID_BLESSED_LEN - DIGEST_LEN);
	atp_cbor_put_key(w, "rebase");
	atp_cbor_put_bool(w, false);
	atp_cbor_put_key(w, "tooBig");
	atp_cbor_put_bool(w, false);
	put_digest(w, "prevData", prev_data + ATP_CID_BLESSED_LEN - DIGEST_LEN);
}

/* The first operation is of this kind, each of the others of one of those. */
static void
write_commit(Network *net, Account *account, Kind kind, unsigned nops, const Kind *others, size_t nothers,
			 AtpCborWriter *frame)
{
	static uint8_t blocks[BLOCKS_ROOM];
	static uint8_t car_buf[BLOCKS_ROOM];
	AtpCborWriter car = {.buf = car_buf, .cap = sizeof car_buf};
	Commit		c = {
		.net = net, .account = account, .blocks = {.buf = blocks, .cap = sizeof blocks},
		.rev = atp_tid_make(net->micros + REV_AHEAD, 0)
	};
	/* V-28: nothing was before the first commit of all */
	uint64_t	since = account->has_commit || account->history > 0 ? account->rev : 0;
	uint8_t		prev_data[ATP_CID_BLESSED_LEN];

	memcpy(prev_data, account->data, sizeof prev_data);
	for (unsigned i = 0; i < nops; i++)
	{
		operate(&c, kind);
		kind = others[random_below(&net->random, nothers)];
	}
	tree_seal(&account->tree, add_block, &c.blocks, account->data);
	for (unsigned i = 0; i < c.nops; i++)
		tree_prove(&account->tree, &c.op[i].leaf, add_block, &c.blocks);
	net->micros += REV_AHEAD;
	put_commit(net, account, c.rev, &car);
	atp_cbor_put_raw(&car, blocks, c.blocks.len);
	if (car.len > car.cap)
		die("the blocks of a commit have %zu bytes", car.len);
	put_message(&c, frame, &car, since, prev_data);
	for (unsigned i = 0; i < c.nops; i++)
		free(c.op[i].to_free);
}

void
commit_write(Network *net, Account *account, Kind kind, unsigned nops, AtpCborWriter *frame)
{
	static const Kind others[] = {KIND_LIKE, KIND_POST, KIND_FOLLOW, KIND_DELETE, KIND_DELETE};

	write_commit(net, account, kind, nops, others, COUNT(others), frame);
}

void
commit_first(Network *net, Account *account, AtpCborWriter *frame)
{
	static const Kind follow = KIND_FOLLOW;
	uint64_t	most = net->nactive < BATCH_MAX ? net->nactive : BATCH_MAX;

	write_commit(net, account, KIND_PROFILE, 1 + (unsigned) random_below(&net->random, most), &follow, 1, frame);
}

static void
no_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
}

/* The loss of a record that the stream has never told of, and never will. */
static void
remove_silently(Network *net, Account *account)
{
	const Old  *old = &net->old[random_below(&net->random, account->history)];
	const uint8_t *value = tree_find(&account->tree, &old->leaf);

	if (value == NULL || memcmp(value, old->leaf.value, DIGEST_LEN) != 0)
		return;
	tree_remove(&account->tree, &old->leaf);
	tree_seal(&account->tree, no_block, NULL, account->data);
}

void
sync_write(Network *net, Account *account, AtpCborWriter *frame)
{
	uint8_t		buf[1024];
	AtpCborWriter car = {.buf = buf, .cap = sizeof buf};

	if (account->history > 0 && random_below(&net->random, 2))
		remove_silently(net, account);
	put_commit(net, account, network_tid(net), &car);
	message_begin(net, frame, ATP_REPOS_SYNC, 5);
	atp_cbor_put_key(frame, "did");
	atp_cbor_put_key(frame, account->did);
	put_rev(frame, "rev", account->rev);
	message_put_seq(net, frame);
	message_put_time(net, frame);
	atp_cbor_put_key(frame, "blocks");
	atp_cbor_put_bytes(frame, buf, car.len);
}
