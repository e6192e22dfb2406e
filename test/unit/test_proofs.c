/*
 * test_proofs.c
 *		The tree nodes of a #commit: which nodes are necessary, and that a wrong node is noticed at every
 *		place (F-07, V-17, V-22, V-23).
 *
 * Seven keys make a tree of three full layers; each set of keys is a tree, and each pair of trees is a
 * commit: 16,384.  The test builds the trees without atp_mst_build(), so that it can put faults into them.
 */
#include "core/wire/commit_check.h"
#include "core/repo/path.h"
#include "core/wire/repos_message.h"
#include "core/repo/commit_write.h"
#include "protocol/mst_build.h"
#include "repo.h"
#include "unit.h"

#define KEYS	7
#define TREES	(1 << KEYS)

static const unsigned heights[KEYS] = {0, 1, 0, 2, 0, 1, 0};
static char keys[KEYS][32];
static char strange[KEYS + 1][32];	/* before each key: keys whose height does not fit the place */

/* --- trees and faults --- */

typedef enum Fault
{
	NONE,
	EMPTY,						/* an empty node where the rules allow no node */
	EMPTY_BELOW,				/* the same below a node without entries */
	RECORD,						/* a link to a record where no link belongs */
	RECORD_FOR_NODE,			/* a link to a record in place of a link to a node */
	TOO_DEEP,					/* a node without entries too many */
	TOO_FLAT,					/* one too few */
	EMPTY_TOP,					/* the root is below a node without entries */
	WRONG_LAYER,				/* a key in a node of another layer */
	WRONG_CHILD,				/* such a key in a node of its own */
	TWICE,						/* a key once more at the end of the node */
	MOVED,						/* a subtree moved to a wrong place of its node */
	DOUBLED						/* a subtree that stands at a second place, too */
} Fault;

static const char *const fault_names[] = {
	"none", "an empty node", "an empty node below one without entries", "a record below a node",
	"a record for a node", "a node too many", "a node too few", "an empty top",
	"a key in a wrong layer", "a node of a wrong layer", "a key twice", "a subtree moved",
	"a subtree doubled"
};

#define FAULTS	(sizeof(fault_names) / sizeof(fault_names[0]))

typedef struct Making
{
	AtpCborWriter *car;			/* where the blocks go */
	unsigned	mask;			/* which keys */
	bool		proof;			/* only nodes that the operations need ... */
	unsigned	ops;			/* ... on these keys ... */
	int			without;		/* ... except for this node; -1: all */
	int			nodes;			/* written, or left out as "without" says */
	Fault		fault;
	int			place;			/* place of the fault: counted down at each possible place, applied at 0 */
	bool		done;
} Making;

static bool
here(Making *m, Fault fault)
{
	if (m->fault != fault || m->place-- != 0)
		return false;
	m->done = true;
	return true;
}

static unsigned
bits(unsigned lo, unsigned hi)
{
	return ((1u << hi) - 1) & ~((1u << lo) - 1);
}

/* The search for a key visits the nodes around the key's place, down to its height. */
static bool
is_needed(const Making *m, unsigned lo, unsigned hi, unsigned layer, bool is_root)
{
	for (unsigned i = 0; i < KEYS; i++)
	{
		if ((m->ops >> i & 1) && (is_root || (i >= lo && i < hi && heights[i] <= layer)))
			return true;
	}
	return false;
}

static void
no_entries(Making *m, const uint8_t *below, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	put_node(m->car, NULL, 0, below, cid);
}

/* A record that no reader can mistake for a node. */
static void
some_record(Making *m, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	uint8_t		buf[256];
	size_t		n = repo_record("com.example.a/x", buf, sizeof(buf), cid);

	repo_block(m->car, cid, buf, n);
}

static void make_node(Making *m, unsigned lo, unsigned hi, unsigned layer, bool is_root,
					  uint8_t cid[ATP_CID_BLESSED_LEN]);

/* Writes the link between two keys of a node of this layer; false: no keys, no link. */
static bool
make_link(Making *m, unsigned lo, unsigned hi, unsigned layer, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	uint8_t		inner[ATP_CID_BLESSED_LEN];
	unsigned	in = m->mask & bits(lo, hi);

	if (in == 0)
	{
		NodeEntry	one = {0, strange[lo], NULL};

		if (here(m, EMPTY))
			no_entries(m, NULL, cid);
		else if (here(m, EMPTY_BELOW))
		{
			no_entries(m, NULL, inner);
			no_entries(m, inner, cid);
		}
		else if (here(m, RECORD))
			some_record(m, cid);
		else if (here(m, WRONG_CHILD))
			put_node(m->car, &one, 1, NULL, cid);
		else
			return false;
		return true;
	}
	if (here(m, RECORD_FOR_NODE))
		some_record(m, cid);
	else if (here(m, TOO_DEEP))
	{
		make_node(m, lo, hi, layer - 1, false, inner);
		no_entries(m, inner, cid);
	}
	else if (layer == 2 && (in & (1u << 1 | 1u << 5)) == 0 && here(m, TOO_FLAT))
		make_node(m, lo, hi, layer - 2, false, cid);
	else
		make_node(m, lo, hi, layer - 1, false, cid);
	return true;
}

static void
make_node(Making *m, unsigned lo, unsigned hi, unsigned layer, bool is_root,
		  uint8_t cid[ATP_CID_BLESSED_LEN])
{
	NodeEntry	entries[KEYS + 2];
	uint8_t		links[KEYS + 2][ATP_CID_BLESSED_LEN];
	bool		there[KEYS + 2];
	unsigned	n = 0;
	unsigned	from = lo;
	const char *last = "";
	size_t		start;

	for (unsigned i = lo; i < hi; i++)
	{
		unsigned	shared = 0;

		if (heights[i] != layer || (m->mask >> i & 1) == 0)
			continue;
		there[n] = make_link(m, from, i, layer, links[n]);
		while (last[shared] != '\0' && last[shared] == keys[i][shared])
			shared++;
		entries[n] = (NodeEntry) {shared, keys[i] + shared, NULL};
		last = keys[i];
		from = i + 1;
		n++;
	}
	there[n] = make_link(m, from, hi, layer, links[n]);

	for (unsigned i = 0; i <= n; i++)
	{
		for (unsigned k = 0; k <= n; k++)
		{
			if (i == k || !there[i] || there[k])
				continue;
			if (here(m, MOVED))
				there[i] = false;
			else if (!here(m, DOUBLED))
				continue;
			memcpy(links[k], links[i], sizeof(links[k]));
			there[k] = true;
			goto placed;
		}
	}
placed:
	if (n > 0 && here(m, WRONG_LAYER))
	{
		/* a key that sorts after the node's last key and before all following keys */
		unsigned	shared = 0;

		while (last[shared] == strange[from][shared])
			shared++;
		entries[n] = (NodeEntry) {shared, strange[from] + shared, NULL};
		there[++n] = false;
	}
	else if (n > 0 && here(m, TWICE))
	{
		entries[n] = (NodeEntry) {0, keys[from - 1], NULL};
		there[++n] = false;
	}
	for (unsigned i = 0; i < n; i++)
		entries[i].subtree = there[i + 1] ? links[i + 1] : NULL;

	start = m->car->len;
	put_node(m->car, entries, n, there[0] ? links[0] : NULL, cid);
	if (m->proof && !is_needed(m, lo, hi, layer, is_root))
		m->car->len = start;
	else if (m->proof && m->nodes++ == m->without)
		m->car->len = start;
}

static void
make_tree(Making *m, uint8_t root[ATP_CID_BLESSED_LEN])
{
	uint8_t		inner[ATP_CID_BLESSED_LEN];
	unsigned	top = 0;

	for (unsigned i = 0; i < KEYS; i++)
	{
		if ((m->mask >> i & 1) && heights[i] > top)
			top = heights[i];
	}
	make_node(m, 0, KEYS, top, true, root);
	if (m->mask != 0 && here(m, EMPTY_TOP))
	{
		memcpy(inner, root, sizeof(inner));
		no_entries(m, inner, root);
	}
}

/* --- commits --- */

static uint8_t value[ATP_CID_BLESSED_LEN];

/* The verdict on a #commit with these nodes and operations. */
static AtpErr
check(Making *m, unsigned creates, unsigned deletes, bool prev_data)
{
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	static AtpReposMessage msg;
	static Index ix;
	static uint8_t body[16 * 1024];
	static uint8_t file[32 * 1024];
	AtpCborWriter body_w = {.buf = body, .cap = sizeof(body)};
	AtpCborWriter w = {.buf = file, .cap = sizeof(file)};
	uint8_t		block[1024];
	AtpCborWriter commit_w = {.buf = block, .cap = sizeof(block)};
	AtpCommit	commit = {.did = {REPO_DID, strlen(REPO_DID)}, .rev = REPO_REV, .sig = {sig, sizeof(sig)}};
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	size_t		at = 0;
	AtpErr		err;

	m->car = &body_w;
	m->nodes = 0;
	make_tree(m, root);
	commit.data = cid_span(root);
	atp_commit_put(&commit_w, &commit);
	block_cid(block, commit_w.len, cid);
	atp_car_put_header(&w, cid_span(cid));
	repo_block(&w, cid, block, commit_w.len);
	repo_block(&w, value, (const uint8_t *) "", 0);
	atp_cbor_put_raw(&w, body, body_w.len);
	if (body_w.len > body_w.cap || w.len > w.cap)
		exit(2);

	memset(&msg, 0, offsetof(AtpReposMessage, ops));
	msg.kind = ATP_REPOS_COMMIT;
	msg.did = commit.did;
	msg.rev = commit.rev;
	msg.commit = cid_span(cid);
	msg.blocks = (AtpBytes) {file, w.len};
	msg.prev_data = prev_data ? cid_span(value) : (AtpBytes) {NULL, 0};
	/* KEYS is prime, so that any step visits all keys, in many orders */
	for (unsigned n = 0; n < KEYS; n++)
	{
		unsigned	i = (m->mask + n * (1 + (creates | deletes) % (KEYS - 1))) % KEYS;

		if ((creates | deletes) >> i & 1)
		{
			msg.ops[msg.nops] = (AtpOp) {
				.action = creates >> i & 1 ? ATP_CREATE : ATP_DELETE,
				.path = {keys[i], strlen(keys[i])},
				.cid = creates >> i & 1 ? cid_span(value) : (AtpBytes) {NULL, 0}
			};
			if (atp_repos_add_op(&msg) != ATP_OK)
				exit(2);
		}
	}
	index_clear(&ix);
	err = atp_commit_check(&msg, &ix.index, sha256, NULL, &at);
	if (at > w.len)
		exit(2);
	return err;
}

/* From each tree to each tree, with the fewest nodes possible, and with one node less. */
static void
each_commit(void)
{
	unsigned	refused = 0;
	unsigned	too_few = 0;
	unsigned	accepted = 0;
	unsigned	old = 0;
	unsigned	wrong_old = 0;

	for (unsigned before = 0; before < TREES; before++)
	{
		for (unsigned after = 0; after < TREES; after++)
		{
			Making		m = {.mask = after, .proof = true, .ops = before ^ after, .without = -1};
			unsigned	creates = after & ~before;
			unsigned	deletes = before & ~after;
			int			n;

			refused += check(&m, creates, deletes, true) != ATP_OK;
			n = m.nodes;
			for (m.without = 0; m.without < n; m.without++)
			{
				AtpErr		expected = creates == 0 ? ATP_OK : ATP_E_MST_MISSING;

				too_few++;
				accepted += check(&m, creates, deletes, true) != ATP_E_MST_MISSING;

				/* without the root no check of the old tree is possible */
				if (m.without == n - 1)
				{
					old++;
					wrong_old += check(&m, creates, deletes, false) != expected;
				}
			}
		}
	}
	ok(refused == 0, "V-17: of %u commits with just the nodes they need, %u are refused", TREES * TREES, refused);
	ok(too_few > 20000 && accepted == 0, "V-17: of %u that lack one, %u are not refused for it", too_few, accepted);
	ok(old > 10000 && wrong_old == 0, "F-07: of %u without prevData and without the root, %u get another answer"
	   " than that deletes may do without", old, wrong_old);
}

/* An operation that contradicts the tree is refused, whichever operation it is. */
static void
each_lie(void)
{
	unsigned	lies = 0;
	unsigned	accepted = 0;

	for (unsigned mask = 0; mask < TREES; mask++)
	{
		for (unsigned i = 0; i < KEYS; i++)
		{
			Making		m = {.mask = mask, .proof = true, .ops = TREES - 1, .without = -1};
			unsigned	lie = 1u << i;

			lies++;
			accepted += check(&m, (mask ^ lie), ~(mask ^ lie) & (TREES - 1), true) != ATP_E_MST_VALUE;
		}
	}
	ok(accepted == 0, "F-07: of %u lies among seven operations, %u are not refused for it", lies, accepted);
}

/* A fault in a node, with each operation that the tree confirms, and without operations. */
static void
each_fault(Fault fault)
{
	unsigned	trees = 0;
	unsigned	accepted = 0;
	AtpErr		last = ATP_OK;

	for (unsigned mask = 0; mask < TREES; mask++)
	{
		bool		done = true;

		for (int place = 0; done; place++)
		{
			for (unsigned i = 0; i <= KEYS; i++)
			{
				Making		m = {.mask = mask, .fault = fault, .place = place};
				unsigned	op = i < KEYS ? 1u << i : 0;
				AtpErr		err = check(&m, op & mask, op & ~mask, true);

				if (!(done = m.done))
					break;
				trees++;
				accepted += err == ATP_OK || err == ATP_E_MST_VALUE || err == ATP_E_MST_MISSING;
				last = err;
			}
		}
	}
	ok(trees > 50 && accepted == 0, "V-23: %s: of %u commits %u are not refused for it: %s", fault_names[fault],
	   trees, accepted, atp_err_text(last));
}

/* The trees made here are equal to those of atp_mst_build(). */
static void
same_trees(void)
{
	static uint8_t scratch[REPO_ROOM];
	static uint8_t buf[REPO_ROOM];
	unsigned	differ = 0;

	for (unsigned mask = 0; mask < TREES; mask++)
	{
		AtpMstItem	items[KEYS];
		size_t		n = 0;
		AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
		Making		m = {.mask = mask, .car = &w};
		uint8_t		mine[ATP_CID_BLESSED_LEN];
		uint8_t		built[ATP_CID_BLESSED_LEN];

		for (unsigned i = 0; i < KEYS; i++)
		{
			if (mask >> i & 1)
				items[n++] = (AtpMstItem) {.key = bytes_of(keys[i]), .value = cid_span(value)};
		}
		make_tree(&m, mine);
		if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), repo_block, &w, built) != ATP_OK)
			exit(2);
		differ += memcmp(mine, built, sizeof(mine)) != 0;
	}
	ok(differ == 0, "B-63: %d trees, of which %u differ from those that are built", TREES, differ);
}

/* A key "com.example.a/" with letter and digits, of the wanted height or of a height outside the tree. */
static void
find_key(char *key, char letter, int wanted)
{
	for (unsigned i = 0;; i++)
	{
		unsigned	height;

		sprintf(key, "com.example.a/%c%u", letter, i);
		height = atp_mst_height((uint8_t *) key, strlen(key), sha256, NULL);
		if (wanted < 0 ? height == 3 : height == (unsigned) wanted)
			return;
	}
}

int
main(void)
{
	block_cid((const uint8_t *) "", 0, value);
	for (unsigned i = 0; i < KEYS; i++)
		find_key(keys[i], (char) ('b' + 2 * i), (int) heights[i]);
	for (unsigned i = 0; i <= KEYS; i++)
		find_key(strange[i], (char) ('a' + 2 * i), -1);
	same_trees();
	each_commit();
	each_lie();
	for (size_t fault = NONE + 1; fault < FAULTS; fault++)
		each_fault((Fault) fault);
	return done_testing();
}
