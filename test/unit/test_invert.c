/*
 * test_invert.c
 *		The tree before a commit, from a part of the tree after it: V-18 to V-21, V-26, V-28.
 *		Against trees that are made here once more, without the builder.
 *
 * Seven keys make a tree of three full layers; each set of them is a tree, and
 * each two of those are a commit: 16,384.  Then random trees of many keys, with
 * updates, random operations, and random parts of the nodes.
 */
#include "core/repo/invert.h"
#include "core/wire/commit_check.h"
#include "repo.h"
#include "syntax.h"
#include "unit.h"

#define KEYS_MAX	120
#define NODES_MAX	(4 * KEYS_MAX)

/* All keys in ascending order; state n of a key: 0 absent, else its value. */
static size_t nkeys;
static char keys[KEYS_MAX][1100];
static unsigned heights[KEYS_MAX];
static uint8_t values[4][ATP_CID_MAX];
static const size_t value_lens[4] = {0, ATP_CID_BLESSED_LEN, ATP_CID_BLESSED_LEN, ATP_CID_MAX};

typedef struct Node
{
	unsigned	lo;				/* of the keys that could be in or below the node: the first, ... */
	unsigned	hi;				/* ... and the one after the last */
	size_t		len;
	uint8_t    *block;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
} Node;

typedef struct Tree
{
	const uint8_t *state;
	uint8_t		root[ATP_CID_BLESSED_LEN];
	size_t		n;
	Node		nodes[NODES_MAX];
} Tree;

static Tree before;
static Tree after;

static bool make_node(Tree *tree, unsigned lo, unsigned hi, unsigned layer, bool is_root,
					  uint8_t cid[ATP_CID_BLESSED_LEN]);

static void
put_below(Tree *tree, AtpCborWriter *w, unsigned lo, unsigned hi, unsigned layer)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	if (layer > 0 && make_node(tree, lo, hi, layer - 1, false, cid))
		atp_cbor_put_link(w, cid, sizeof(cid));
	else
		atp_cbor_put_null(w);
}

static bool
make_node(Tree *tree, unsigned lo, unsigned hi, unsigned layer, bool is_root,
		  uint8_t cid[ATP_CID_BLESSED_LEN])
{
	AtpCborWriter w = {.cap = 64};
	unsigned	in[KEYS_MAX + 1];
	unsigned	n = 0;
	bool		any = is_root;
	Node	   *node;

	for (unsigned i = lo; i < hi; i++)
	{
		any = any || tree->state[i];
		if (tree->state[i] && heights[i] == layer)
		{
			in[n++] = i;
			w.cap += strlen(keys[i]) + ATP_CID_MAX + 64;
		}
	}
	if (!any)
		return false;
	w.buf = malloc(w.cap);
	in[n] = hi;
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "e");
	atp_cbor_put_array(&w, n);
	for (unsigned k = 0; k < n; k++)
	{
		const char *key = keys[in[k]];
		size_t		p = 0;

		while (k > 0 && key[p] == keys[in[k - 1]][p])
			p++;
		atp_cbor_put_map(&w, 4);
		atp_cbor_put_key(&w, "k");
		atp_cbor_put_bytes(&w, (const uint8_t *) key + p, strlen(key) - p);
		atp_cbor_put_key(&w, "p");
		atp_cbor_put_uint(&w, p);
		atp_cbor_put_key(&w, "t");
		put_below(tree, &w, in[k] + 1, in[k + 1], layer);
		atp_cbor_put_key(&w, "v");
		atp_cbor_put_link(&w, values[tree->state[in[k]]], value_lens[tree->state[in[k]]]);
	}
	atp_cbor_put_key(&w, "l");
	put_below(tree, &w, lo, in[0], layer);
	if (w.len > w.cap || tree->n == NODES_MAX)
		exit(2);
	block_cid(w.buf, w.len, cid);
	node = &tree->nodes[tree->n++];
	*node = (Node) {lo, hi, w.len, w.buf, {0}};
	memcpy(node->cid, cid, sizeof(node->cid));
	return true;
}

static void
make_tree(Tree *tree, const uint8_t *state)
{
	unsigned	top = 0;

	for (size_t i = 0; i < tree->n; i++)
		free(tree->nodes[i].block);
	tree->n = 0;
	tree->state = state;
	for (unsigned i = 0; i < nkeys; i++)
	{
		if (state[i] && heights[i] > top)
			top = heights[i];
	}
	make_node(tree, 0, nkeys, top, true, tree->root);
}

/* --- inversion --- */

typedef struct Case
{
	uint8_t		state[KEYS_MAX];	/* state before the commit, by the operations */
	bool		op[KEYS_MAX];		/* keys with an operation */
	bool		absent[NODES_MAX];	/* nodes of the new tree that the commit lacks */
	AtpBytes	prev_data;
} Case;

static AtpInversion *
invert(const Case *c)
{
	static AtpInversion inversion;
	static AtpMstWalk walk;
	static Index ix;
	AtpMstLookup list[KEYS_MAX];
	size_t		n = 0;
	size_t		bytes = 0;
	size_t		at;
	size_t		room;
	uint8_t    *buf;

	index_clear(&ix);
	for (size_t i = 0; i < after.n; i++)
	{
		AtpCarBlock block = {cid_span(after.nodes[i].cid), {after.nodes[i].block, after.nodes[i].len}, 0};

		if (c->absent[i])
			continue;
		bytes += block.data.len;
		atp_car_index_add(&ix.index, &block);
	}
	for (unsigned i = 0; i < nkeys; i++)
	{
		if (c->op[i])
			list[n++] = (AtpMstLookup) {
				.key = bytes_of(keys[i]),
				.before = {c->state[i] ? values[c->state[i]] : NULL, value_lens[c->state[i]]}
			};
	}
	room = atp_invert_room(bytes, n);
	buf = malloc(room);
	atp_invert_begin(&inversion, buf, room, sha256, NULL);
	if (atp_mst_lookup(&walk, &(AtpMstTree) {&ix.index, after.nodes[0].block, cid_span(after.root), sha256, NULL},
					   list, n, &inversion.builder, &at) != ATP_OK ||
		atp_invert_end(&inversion, c->prev_data, true) != ATP_OK)
	{
		printf("# %s\n", atp_err_text(inversion.builder.err));
		exit(2);
	}
	/* V-28 */
	if (inversion.known && memcmp(inversion.root, before.root, sizeof(before.root)) == 0 &&
		inversion.first != (before.n == 1 && before.nodes[0].len == 7))
		exit(2);
	free(buf);
	return &inversion;
}

/* Is the node on the path to a key of an operation, or to its neighbour? */
static bool
touches(const Case *c, const Node *node)
{
	unsigned	lo = node->lo > 0 ? node->lo - 1 : 0;

	for (unsigned i = lo; i <= node->hi && i < nkeys; i++)
	{
		if (c->op[i])
			return true;
	}
	return node->lo == 0 && node->hi == nkeys;
}

typedef struct Count
{
	unsigned	cases;
	unsigned	proven;
	unsigned	incomplete;
	unsigned	wrong;			/* verdicts that are not allowed */
} Count;

static void
count_verdict(Count *count, const Case *c, bool may_prove, bool may_mismatch)
{
	const AtpInversion *inversion = invert(c);

	count->cases++;
	count->proven += inversion->verdict == ATP_PROVEN;
	count->incomplete += inversion->verdict == ATP_INCOMPLETE;
	count->wrong += (inversion->verdict == ATP_PROVEN && !may_prove) ||
		(inversion->verdict == ATP_MISMATCH && !may_mismatch);
}

static Count whole, proof, without, omitted, altered, other_tree;

/* One commit, from an old tree to a new tree, both made here. */
static void
one_commit(Case *c)
{
	uint8_t		other[ATP_CID_BLESSED_LEN];
	unsigned	nops = 0;

	memset(c->absent, 0, sizeof(c->absent));
	for (unsigned i = 0; i < nkeys; i++)
	{
		c->state[i] = before.state[i];
		c->op[i] = before.state[i] != after.state[i];
		nops += c->op[i];
	}
	c->prev_data = cid_span(before.root);
	count_verdict(&whole, c, true, false);

	for (size_t i = 0; i < after.n; i++)
		c->absent[i] = !touches(c, &after.nodes[i]);
	count_verdict(&proof, c, true, false);

	/* V-20: without a node the verdict may be incomplete, but never a mismatch */
	for (size_t i = 0; i < after.n; i++)
	{
		if (c->absent[i])
			continue;
		c->absent[i] = true;
		count_verdict(&without, c, true, false);
		c->absent[i] = false;
	}
	for (unsigned i = 0; i < nkeys; i++)
	{
		if (!c->op[i])
			continue;
		c->op[i] = false;
		count_verdict(&omitted, c, false, true);
		c->op[i] = true;
		if (c->state[i])
		{
			c->state[i] ^= 3;
			count_verdict(&altered, c, false, true);
			c->state[i] ^= 3;
		}
	}
	memcpy(other, before.root, sizeof(other));
	other[sizeof(other) - 1] ^= 1;
	c->prev_data = cid_span(other);
	if (nops > 0)
		count_verdict(&other_tree, c, false, true);
}

/* --- keys --- */

static int
compare_keys(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
set_keys(size_t n)
{
	nkeys = n;
	qsort(keys, n, sizeof(keys[0]), compare_keys);
	for (size_t i = 0; i < n; i++)
		heights[i] = atp_mst_height((uint8_t *) keys[i], strlen(keys[i]), sha256, NULL);
}

static void
each_commit(void)
{
	static const unsigned wanted[7] = {0, 1, 0, 2, 0, 1, 0};
	static Case c;

	for (unsigned i = 0; i < 7; i++)
	{
		unsigned	n = 0;

		do
			sprintf(keys[i], "com.example.a/%c%u", 'a' + (int) i, n++);
		while (atp_mst_height((uint8_t *) keys[i], strlen(keys[i]), sha256, NULL) != wanted[i]);
	}
	set_keys(7);
	for (unsigned from = 0; from < 128; from++)
	{
		for (unsigned to = 0; to < 128; to++)
		{
			uint8_t		states[2][7];

			for (unsigned i = 0; i < 7; i++)
			{
				states[0][i] = from >> i & 1;
				states[1][i] = to >> i & 1;
			}
			make_tree(&before, states[0]);
			make_tree(&after, states[1]);
			one_commit(&c);
		}
	}
	ok(whole.cases == 16384 && whole.proven == whole.cases, "V-18: of %u commits with all nodes, %u are proven",
	   whole.cases, whole.proven);
	ok(proof.cases == 16384 && proof.proven == proof.cases,
	   "V-19, D27: of %u with the nodes around the operations alone, %u are", proof.cases, proof.proven);
	ok(without.wrong == 0 && without.proven > 500 && without.incomplete > 40000,
	   "V-20: of %u that lack one of those, %u are incomplete, %u proven, %u anything else",
	   without.cases, without.incomplete, without.proven, without.wrong);
	ok(omitted.wrong + omitted.incomplete == 0 && omitted.cases == 16384 * 7 / 2,
	   "V-26: of %u that lack an operation, %u are incomplete, and %u are proven", omitted.cases,
	   omitted.incomplete, omitted.proven);
	ok(altered.wrong + altered.incomplete == 0 && altered.cases > 20000, "V-26: of %u with another prev, %u are proven", altered.cases,
	   altered.proven);
	ok(other_tree.wrong + other_tree.incomplete == 0, "V-26: of %u with another prevData, %u are proven", other_tree.cases, other_tree.proven);
}

/* --- at random --- */

static void
random_keys(void)
{
	size_t		n = 1 + random_below(KEYS_MAX);
	size_t		unique = 0;
	bool		low = random_below(4) == 0;	/* large nodes, and no layer above */

	while (unique < n)
	{
		char	   *key = keys[unique];
		size_t		len = random_below(20) == 0 ? 900 : 3;

		sprintf(key, "c%u.x/%0*x", random_below(3), (int) len, random_below(1u << 28));
		for (size_t i = 0; i < unique && *key != '\0'; i++)
		{
			if (strcmp(keys[i], key) == 0)
				*key = '\0';
		}
		if (*key == '\0' || (low && atp_mst_height((uint8_t *) key, strlen(key), sha256, NULL) > 0))
			continue;
		unique++;
	}
	set_keys(n);
}

static void
change_state(const uint8_t *from, uint8_t *state)
{
	unsigned	percent = random_below(4) == 0 ? random_below(101) : random_below(6);

	for (size_t i = 0; i < nkeys; i++)
	{
		state[i] = from[i];
		if (random_below(100) < percent)
			state[i] = (uint8_t) random_below(4);
	}
}

static void
at_random(unsigned rounds)
{
	static Case c;
	Count		part = {0};

	whole = proof = without = omitted = altered = other_tree = (Count) {0};
	for (unsigned round = 0; round < rounds; round++)
	{
		uint8_t		states[2][KEYS_MAX];
		uint8_t		nothing[KEYS_MAX] = {0};

		random_keys();
		for (size_t i = 0; i < nkeys; i++)
			states[0][i] = random_below(5) == 0 ? 0 : 1 + (uint8_t) random_below(3);
		change_state(random_below(20) == 0 ? nothing : states[0], states[1]);
		make_tree(&before, states[0]);
		make_tree(&after, states[1]);
		one_commit(&c);

		/* any part of the nodes at all */
		c.prev_data = cid_span(before.root);
		for (unsigned i = 0; i < 4; i++)
		{
			unsigned	percent = random_below(100);

			for (size_t k = 0; k < after.n; k++)
				c.absent[k] = random_below(100) < percent;
			count_verdict(&part, &c, true, false);
		}
	}
	ok(whole.proven == rounds && proof.proven == rounds, "V-19: %u random commits are proven", rounds);
	ok(without.wrong == 0 && without.incomplete > rounds, "V-20: of %u without a node, %u are incomplete, %u proven, "
	   "%u anything else", without.cases, without.incomplete, without.proven, without.wrong);
	ok(part.wrong == 0 && part.incomplete > rounds, "V-20: of %u with a part of the nodes, %u are incomplete, "
	   "%u proven, %u anything else", part.cases, part.incomplete, part.proven, part.wrong);
	ok(omitted.wrong == 0 && altered.wrong == 0 && other_tree.wrong == 0,
	   "V-26: %u, %u and %u lies, of which none is proven", omitted.cases, altered.cases, other_tree.cases);
}

/* V-29: a commit without operations. */
static void
no_operations(void)
{
	uint8_t		buf[ATP_MST_ROOT_SPARE];
	AtpInversion inversion;
	AtpBytes	one = {values[1], ATP_CID_BLESSED_LEN};
	AtpBytes	two = {values[2], ATP_CID_BLESSED_LEN};

	atp_invert_begin(&inversion, buf, sizeof(buf), sha256, NULL);
	atp_invert_nothing(&inversion, one, one);
	ok(inversion.verdict == ATP_PROVEN && inversion.known, "V-29: the tree is prevData");
	atp_invert_nothing(&inversion, one, two);
	ok(inversion.verdict == ATP_MISMATCH, "V-29: another tree than prevData");
	atp_invert_nothing(&inversion, one, (AtpBytes) {NULL, 0});
	ok(inversion.verdict == ATP_INCOMPLETE, "V-29: no prevData");
	atp_invert_nothing(&inversion, (AtpBytes) {atp_mst_empty, sizeof(atp_mst_empty)}, (AtpBytes) {atp_mst_empty, sizeof(atp_mst_empty)});
	ok(inversion.verdict == ATP_PROVEN && inversion.first, "V-28, V-29: the empty tree");
}

int
main(void)
{
	for (unsigned i = 1; i < 4; i++)
		block_cid((const uint8_t *) &i, sizeof(i), values[i]);
	/* a CID of another kind, as long as allowed */
	memcpy(values[3], "\x01\x55\x00\x60", 4);
	memset(values[3] + 4, 7, 96);
	no_operations();
	each_commit();
	at_random(400);
	return done_testing();
}
