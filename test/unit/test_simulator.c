/*
 * test_simulator.c
 *		The simulator (test/simulator) writes the stream of a valid relay: every message is valid; seqs count,
 *		revisions grow, since and prevData name the previous commit; signatures are right; and the tree of each
 *		commit is equal to a tree newly built from the repository's records.
 */
#include <secp256k1.h>

#include "core/repo/commit_write.h"
#include "protocol/mst_build.h"
#include "protocol/record.h"
#include "unit.h"
#include "repo.h"

#define DIR				"build/simulator"
#define ACCOUNTS_MAX	400
#define RECORDS_MAX		4000	/* of one repository */
#define LINE_MAX_		512
#define NODES_ROOM		(4 * 1024 * 1024)

typedef struct Account
{
	char		did[64];
	uint8_t		key[33];
	uint64_t	rev;			/* 0: before the first commit */
	uint8_t		data[ATP_CID_BLESSED_LEN];
	AtpMstItem	items[RECORDS_MAX];	/* sorted; each key and value in memory of its own */
	size_t		n;
} Account;

typedef struct Count
{
	unsigned	messages;
	unsigned	kinds[ATP_REPOS_INFO + 1];
	unsigned	ops[3];
	unsigned	batches;		/* commits of several operations */
	unsigned	unchanged;		/* #sync with an unchanged tree */
	unsigned	faults;
	size_t		bytes;
	size_t		blocks;
	size_t		record_bytes;
} Count;

static Account *accounts;
static size_t naccounts;
static AtpMstItem *history;
static size_t nhistory;
static secp256k1_context *secp;
static Count count;
static AtpInversion inversion;
static uint8_t tree_before[2 * ATP_BLOCKS_MAX];

static void
fault(const char *did, const char *what)
{
	if (count.faults++ < 10)
		printf("# message %u, %s: %s\n", count.messages, did, what);
}

#define CHECK(account, condition) \
	do { if (!(condition)) fault((account)->did, #condition); } while (0)

/* --- trees --- */

static AtpBytes
copy(const void *p, size_t n)
{
	return (AtpBytes) {memcpy(malloc(n), p, n), n};
}

static int
compare(AtpBytes a, AtpBytes b)
{
	int			cmp = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

	return cmp != 0 ? cmp : (a.len > b.len) - (a.len < b.len);
}

static bool
equal(AtpBytes a, const uint8_t *cid)
{
	return a.len == ATP_CID_BLESSED_LEN && memcmp(a.ptr, cid, a.len) == 0;
}

/* Where a path is, or belongs. */
static size_t
place(const Account *a, AtpBytes path)
{
	size_t		i = a->n;

	while (i > 0 && compare(a->items[i - 1].key, path) >= 0)
		i--;
	return i;
}

static void
put(Account *a, AtpBytes path, AtpBytes cid)
{
	size_t		i = place(a, path);

	if (i == a->n || compare(a->items[i].key, path) != 0)
	{
		if (a->n == RECORDS_MAX)
			exit(2);
		memmove(a->items + i + 1, a->items + i, (a->n++ - i) * sizeof(a->items[0]));
		a->items[i].key = copy(path.ptr, path.len);
	}
	a->items[i].value = copy(cid.ptr, cid.len);
}

static void
no_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
}

static void
build(Account *a, uint8_t root[ATP_CID_BLESSED_LEN])
{
	static uint8_t scratch[NODES_ROOM];

	if (atp_mst_build(a->items, a->n, sha256, NULL, scratch, sizeof(scratch), no_block, NULL, root) != ATP_OK)
		exit(2);
}

/* --- the simulator's description of its network --- */

static FILE *
open_file(const char *name)
{
	char		path[128];
	FILE	   *f;

	snprintf(path, sizeof(path), DIR "/%s", name);
	f = fopen(path, "r");
	ok(f != NULL, "%s is there", path);
	if (f == NULL)
		exit(2);
	return f;
}

/* path, cid */
static void
read_history(void)
{
	FILE	   *f = open_file("history");
	char		path[LINE_MAX_];
	char		text[LINE_MAX_];

	while (fscanf(f, "%511s %511s", path, text) == 2)
	{
		uint8_t		cid[ATP_CID_MAX];
		size_t		len,
					at;

		if (atp_cid_parse(text, strlen(text), cid, &len, &at) != ATP_OK)
			exit(2);
		history = realloc(history, (nhistory + 1) * sizeof(*history));
		history[nhistory++] = (AtpMstItem) {.key = copy(path, strlen(path)), .value = copy(cid, len)};
	}
	fclose(f);
}

/* did, records at the start, key */
static void
read_accounts(void)
{
	FILE	   *f = open_file("account");
	char		key[LINE_MAX_];
	size_t		n;

	accounts = calloc(ACCOUNTS_MAX, sizeof(*accounts));
	while (naccounts < ACCOUNTS_MAX && fscanf(f, "%63s %zu %511s", accounts[naccounts].did, &n, key) == 3)
	{
		Account    *a = &accounts[naccounts++];

		for (int i = 0; i < 33; i++)
			sscanf(key + 2 * i, "%2hhx", &a->key[i]);
		for (size_t i = 0; i < n && i < nhistory; i++)
			put(a, history[i].key, history[i].value);
		build(a, a->data);
	}
	ok(feof(f) && naccounts > 0, "%zu accounts", naccounts);
	fclose(f);
}

static Account *
find_account(AtpSpan did)
{
	for (size_t i = 0; i < naccounts; i++)
	{
		if (atp_span_is(did, accounts[i].did))
			return &accounts[i];
	}
	printf("# an unknown account: %.*s\n", (int) did.len, did.ptr);
	exit(2);
}

/* --- messages --- */

/* B-61: libsecp256k1 refuses a high S by itself. */
static bool
signature_is_good(const Account *a, const AtpCarIndex *index, AtpBytes root)
{
	const AtpCarBlock *block = atp_car_index_find(index, root);
	uint8_t		buf[1024];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	AtpCommit	commit;
	AtpBytes	sig;
	uint8_t		digest[32];
	secp256k1_ecdsa_signature s;
	secp256k1_pubkey key;
	size_t		at;

	if (block == NULL || atp_commit_parse(block->data.ptr, block->data.len, &commit, &at) != ATP_OK)
		return false;
	sig = commit.sig;
	commit.sig.ptr = NULL;
	atp_commit_put(&w, &commit);
	sha256(NULL, buf, w.len, digest);
	return secp256k1_ec_pubkey_parse(secp, &key, a->key, sizeof(a->key)) &&
		secp256k1_ecdsa_signature_parse_compact(secp, &s, sig.ptr) &&
		secp256k1_ecdsa_verify(secp, &s, digest, &key);
}

static void
apply(Account *a, const AtpOp *op)
{
	AtpBytes	path = {(const uint8_t *) op->path.ptr, op->path.len};
	size_t		i = place(a, path);
	bool		is_there = i < a->n && compare(a->items[i].key, path) == 0;
	size_t		at;

	count.ops[op->action]++;
	CHECK(a, is_there == (op->action != ATP_CREATE));
	if (is_there)
		CHECK(a, op->prev.ptr != NULL && equal(op->prev, a->items[i].value.ptr));
	if (op->action != ATP_DELETE)
	{
		CHECK(a, atp_record_check(op->block->data.ptr, op->block->data.len, &at) == ATP_OK);
		put(a, path, op->cid);
	}
	else if (is_there)
		memmove(a->items + i, a->items + i + 1, (--a->n - i) * sizeof(a->items[0]));
}

static void
commit(const AtpReposMessage *msg, Account *a)
{
	uint8_t		root[ATP_CID_BLESSED_LEN];

	CHECK(a, msg->nops > 0);
	CHECK(a, msg->prev_data.ptr != NULL && equal(msg->prev_data, a->data));
	CHECK(a, inversion.verdict == ATP_PROVEN);
	/* V-28: only the first commit of a repository without records lacks since */
	CHECK(a, msg->has_since ? a->rev == 0 || msg->since == a->rev : a->rev == 0 && a->n == 0);
	count.batches += msg->nops > 1;
	for (unsigned i = 0; i < msg->nops; i++)
		apply(a, &msg->ops[i]);
	build(a, root);
	CHECK(a, equal(msg->data, root));
}

/* Reads the message, and the blocks of a #commit or #sync; false when invalid. */
static bool
read_message(const uint8_t *data, size_t len, AtpReposMessage *msg, Index *ix)
{
	AtpFrame	frame;
	AtpErr		err;
	size_t		at;

	count.messages++;
	count.bytes += len;
	index_clear(ix);
	atp_invert_begin(&inversion, tree_before, sizeof(tree_before), sha256, NULL);
	if ((err = atp_frame_parse(data, len, &frame, &at)) != ATP_OK ||
		(err = atp_repos_parse(&frame, msg, &at)) != ATP_OK ||
		(msg->blocks.ptr != NULL &&
		 (err = atp_commit_invert(msg, &ix->index, &inversion, sha256, NULL, &at)) != ATP_OK))
	{
		fault("message", atp_err_text(err));
		return false;
	}
	count.kinds[msg->kind]++;
	count.blocks += ix->index.n;
	return true;
}

/* Compares the message with the state of its account. */
static void
check_message(const AtpReposMessage *msg, const Index *ix)
{
	Account    *a = find_account(msg->did);

	CHECK(a, msg->seq == count.messages);
	if (msg->blocks.ptr == NULL)
		return;
	CHECK(a, msg->rev > a->rev);
	CHECK(a, signature_is_good(a, &ix->index, msg->commit.ptr != NULL ? msg->commit : ix->blocks[0].cid));
	if (msg->kind == ATP_REPOS_COMMIT)
		commit(msg, a);
	else
		count.unchanged += equal(msg->data, a->data);
	a->rev = msg->rev;
	memcpy(a->data, msg->data.ptr, ATP_CID_BLESSED_LEN);
}

/* Checks only the size. */
static void
weigh_message(const AtpReposMessage *msg, const Index *ix)
{
	for (unsigned i = 0; i < msg->nops; i++)
	{
		count.ops[msg->ops[i].action]++;
		if (msg->ops[i].block != NULL)
			count.record_bytes += msg->ops[i].block->data.len;
	}
}

static void
read_capture(void (*use) (const AtpReposMessage *msg, const Index *ix))
{
	static AtpReposMessage msg;
	static Index ix;
	FILE	   *f = fopen(DIR ".frames", "rb");
	uint8_t		head[4];

	if (f == NULL)
		exit(2);
	while (fread(head, 1, 4, f) == 4)
	{
		size_t		len = (size_t) head[0] << 24 | (size_t) head[1] << 16 | head[2] << 8 | head[3];
		uint8_t    *data = malloc(len);

		if (fread(data, 1, len, f) != len)
			exit(2);
		if (read_message(data, len, &msg, &ix))
			use(&msg, &ix);
		free(data);
	}
	fclose(f);
	ok(count.faults == 0, "%u messages, %u faults", count.messages, count.faults);
}

static void
simulate(const char *options)
{
	char		command[512];

	count = (Count) {0};
	snprintf(command, sizeof(command), "simulator/simulate %s --expect " DIR " > " DIR ".frames", options);
	ok(system(command) == 0, "%s", command);
}

/* Runs the simulator, and checks everything that the simulator sends. */
static void
check(const char *options)
{
	simulate(options);
	naccounts = nhistory = 0;
	read_history();
	read_accounts();
	read_capture(check_message);
}

/* The usual sizes are those of production traffic: 5.5 kB, 10 blocks, 270 bytes a record. */
static void
check_sizes(void)
{
	size_t		records;
	size_t		mean;

	simulate("--events 1000 --accounts 200 --no-sign");
	read_capture(weigh_message);
	records = count.ops[ATP_CREATE] + count.ops[ATP_UPDATE];
	mean = count.bytes / count.messages;
	ok(mean > 4500 && mean < 6500, "a message has %zu bytes", mean);
	mean = 10 * count.blocks / count.messages;
	ok(mean > 80 && mean < 120, "and %zu.%zu blocks", mean / 10, mean % 10);
	mean = count.record_bytes / records;
	ok(mean > 200 && mean < 350, "a record has %zu bytes", mean);
}

/* The command line. */
static bool
runs(const char *options, const char *output)
{
	char		command[256];

	snprintf(command, sizeof(command), "simulator/simulate %s > " DIR ".%s 2> " DIR ".err", options, output);
	return system(command) == 0;
}

static void
check_options(void)
{
	static const char *const wrong[] = {
		"--events x", "--events -1", "--accounts 0", "--history", "--mix like", "--mix x=1", "--mix like=x",
		"--batches 101", "--text 0", "--social --history 5", "--start x", "--start 2026-13-01", "--start 1999-01-01", "--start -20y",
		"--span 1", "--span 1w", "--span -1d", "--span 101y", "--span 0s", "--span 1s --events 2000",
		"--what", "more", "--output /nowhere/capture",
		("--mix like=0,post=0,repost=0,follow=0,block=0,listitem=0,list=0,profile=0,threadgate=0,other=0,"
		 "delete=0,update=0,identity=0,account=0,sync=0")
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(!runs(wrong[i], "0"), "%s is refused", wrong[i]);
	ok(runs("--events 300 --history 500", "1") && runs("--events 300 --history 500 --seed 1", "2") &&
	   system("cmp -s " DIR ".1 " DIR ".2") == 0, "same options, same bytes");
	ok(runs("--events 300 --history 500 --seed 2", "2") && system("cmp -s " DIR ".1 " DIR ".2") != 0,
	   "another seed, other bytes");
	ok(runs("--events 0", "1") && system("test ! -s " DIR ".1") == 0, "no events, no bytes");
}

int
main(void)
{
	secp = secp256k1_context_create(SECP256K1_CONTEXT_NONE);

	/* #sync would lose records of the history without saying which */
	check("--events 1000 --accounts 40 --history 300 --batches 20 --mix delete=30,update=5,profile=5,sync=0,account=2");
	ok(count.ops[ATP_CREATE] > 800 && count.ops[ATP_UPDATE] > 20 && count.ops[ATP_DELETE] > 300,
	   "operations: %u create, %u update, %u delete", count.ops[0], count.ops[1], count.ops[2]);
	ok(count.batches > 100, "%u commits of several", count.batches);
	ok(count.kinds[ATP_REPOS_ACCOUNT] > 5, "%u #account", count.kinds[ATP_REPOS_ACCOUNT]);

	/* repositories that begin empty and become empty again */
	check("--events 1000 --accounts 30 --history 0 --batches 20 --mix delete=300,update=5,profile=50,sync=8,identity=8");
	ok(count.kinds[ATP_REPOS_SYNC] > 10 && count.unchanged == count.kinds[ATP_REPOS_SYNC],
	   "%u #sync, all of them with the tree as it was", count.kinds[ATP_REPOS_SYNC]);
	ok(count.kinds[ATP_REPOS_IDENTITY] > 5, "%u #identity", count.kinds[ATP_REPOS_IDENTITY]);

	/* people join during the stream */
	check("--social --events 1500 --accounts 60 --batches 20 --mix delete=10,list=3,listitem=5,threadgate=3,sync=2 --span 30d");
	ok(count.kinds[ATP_REPOS_IDENTITY] >= 60 && count.ops[ATP_CREATE] > 1000, "they join, and write %u records", count.ops[ATP_CREATE]);

	/* higher trees */
	check("--events 200 --accounts 100 --history 2000");
	check_sizes();
	check_options();
	secp256k1_context_destroy(secp);
	return done_testing();
}
