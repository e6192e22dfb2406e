/*
 * test_sparse_walk.c
 *		Some collections of a repository, with proof: P-02, P-03, P-12 to P-16, P-30.  The proven records are compared with the
 *		filter's part of the whole repository.  test_sparse_hostile.c has trees that hide records.
 */
#include "sparse_server.h"

/* --- repositories of the usual sizes --- */

static void
measure(const char *name, unsigned ways, const char *const *patterns, size_t expected, size_t max_requests, size_t max_rounds, double max_share)
{
	bool		as_whole;
	AtpErr		err;
	size_t		nodes;
	double		share;

	begin_fetch(patterns);
	fetch_ways(ways);
	err = fetch_nodes();
	nodes = kept.index.n;
	ok(err == ATP_E_MST_END && prove(false, patterns, &as_whole) == ATP_E_MST_END && as_whole && fetch.records == expected,
	   "P-15: %s: the keys are those of the whole tree: %zu", name, fetch.records);
	if (expected > 0)
	{
		ok(prove(true, patterns, &as_whole) == ATP_E_RECORD_MISSING, "P-15: without the records the proof fails");
		err = fetch_records();
		ok(err == ATP_E_MST_END && prove(true, patterns, &as_whole) == ATP_E_MST_END && as_whole, "with them it is whole");
	}
	share = 100.0 * fetch.bytes / whole_bytes;
	ok(fetch.requests <= max_requests && fetch.rounds <= max_rounds && share <= max_share,
	   "P-03: %s: %zu requests in %zu rounds, %zu nodes, %zu bytes: %.2f %% of %zu", name, fetch.requests, fetch.rounds, nodes, fetch.bytes, share, whole_bytes);
	ok(nodes <= proof.asked, "nothing else was kept");
	ok(ways == 0 || (fetch.estimate.records >= nitems / 16 && fetch.estimate.records <= nitems * 16 &&
	   fetch.estimate.in_ranges >= fetch.records / 16 && fetch.estimate.in_ranges <= fetch.records * 16),
	   "P-30: after the first answers %llu records are expected, %llu of them in the ranges",
	   (unsigned long long) fetch.estimate.records, (unsigned long long) fetch.estimate.in_ranges);
}

static void
usual_sizes(void)
{
	static const Part small[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 700}, {"app.bsky.feed.post", 200}, {"app.bsky.graph.follow", 99}
	};
	static const Part middle[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 12000}, {"app.bsky.feed.post", 3000}, {"app.bsky.feed.repost", 2000},
		{"app.bsky.graph.follow", 2594}, {"exchange.recipe.recipe", 405}
	};
	static const Part large[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 70000}, {"app.bsky.feed.post", 15000}, {"app.bsky.feed.repost", 10000},
		{"app.bsky.graph.block", 78}, {"app.bsky.graph.follow", 2912}, {"com.whtwnd.blog.entry", 2009}
	};

	serve_parts(small, 4, 0);
	measure("nothing of 1,000 records", 1, PATTERN_LIST("exchange.recipe.recipe"), 0, 1, 1, 10);
	measure("199 of 1,000 records, without getRecord", 0, PATTERN_LIST("app.bsky.feed.post"), 200, 12, 7, 60);
	serve_parts(middle, 6, 0);
	measure("nothing of 20,000 records", 1, PATTERN_LIST("com.example.nothing"), 0, 1, 1, 0.2);
	measure("405 of 20,000 records", 2, PATTERN_LIST("exchange.recipe.recipe"), 405, 12, 7, 5);
	measure("3 ranges of 20,000 records", 2, PATTERN_LIST("exchange.recipe.*", "app.bsky.actor.profile", "com.example.nothing"), 406, 30, 9, 5);
	serve_parts(large, 7, 0);
	measure("nothing of 100,000 records", 1, PATTERN_LIST("app.bsky.feed.threadgate"), 0, 1, 1, 0.1);
	measure("78 of 100,000 records", 2, PATTERN_LIST("app.bsky.graph.block"), 78, 6, 5, 1);
	measure("2,009 of 100,000 records", 2, PATTERN_LIST("com.whtwnd.*"), 2009, 34, 7, 4);
}

/* --- many small repositories --- */

/*
 * Any ranges of any tree: each round goes a level down, only necessary nodes are fetched, and the proof fails
 * without any of these nodes or records.
 */
static void
small_trees(void)
{
	static const char *const collections[] = {"a.b.c.d", "a.b.c.e", "a.b.c", "a.b.c0d", "a.b.d", "a.c.a", "b.a.a"};
	static const char *const patterns[] = {"a.b.c", "a.b.c.*", "a.b.*", "a.b.c.e", "a.b.d", "a.b.x", "b.*", "c.c.c", "*"};
	size_t		right = 0;
	size_t		missed = 0;
	size_t		blocks = 0;
	size_t		with_records = 0;
	const size_t trees = 300;

	for (size_t t = 0; t < trees; t++)
	{
		Part		parts[7];
		const char *some[4] = {NULL};
		size_t		levels;
		size_t		nodes;
		bool		as_whole;
		bool		good;

		for (size_t i = 0; i < 7; i++)
			parts[i] = (Part) {collections[i], random_below(3) == 0 ? 0 : random_below(t % 10 == 0 ? 200 : 20)};
		for (size_t i = 0; i <= random_below(3); i++)
			some[i] = patterns[random_below(9)];
		serve_parts(parts, 7, random_below(100000));
		begin_fetch(some);
		good = fetch_nodes() == ATP_E_MST_END;
		levels = sparse.top_keys > 0 ? sparse.top + 1 : 1;
		nodes = kept.index.n;
		good = good && prove(false, some, &as_whole) == ATP_E_MST_END && as_whole && nodes == proof.asked && fetch.rounds <= levels;
		/* P-16 */
		if (fetch.records == 0)
			good = good && nodes <= levels * fetch.nranges;
		with_records += fetch.records > 0;
		good = good && fetch_records() == ATP_E_MST_END && prove(true, some, &as_whole) == ATP_E_MST_END && as_whole;
		right += good;
		for (size_t i = 0; i < kept.index.n; i += 1 + kept.index.n / 50)
		{
			left_out = &kept.blocks[i];
			missed += prove(true, some, &as_whole) == (i < nodes ? ATP_E_MST_MISSING : ATP_E_RECORD_MISSING);
			blocks++;
		}
		left_out = NULL;
	}
	ok(right == trees && with_records > 100, "P-13: %zu of %zu trees give the records of the ranges; each node that was fetched is needed", right, trees);
	ok(missed == blocks && blocks > 3000, "P-15: each of %zu blocks that was left out was missed", blocks);
}

/* P-04: the repository gets a new record during the fetch: almost all nodes are the same. */
static void
moved_on(void)
{
	static const Part parts[] = {{"a.b.c", 3000}, {"a.b.d", 1000}};
	size_t		before;
	bool		as_whole;

	serve_parts(parts, 2, 0);
	begin_fetch(PATTERN_LIST("a.b.d"));
	(void) fetch_nodes();
	before = kept.index.n;
	serve_record("a.b.d", 1000);
	serve_tree();
	ok(fetch_nodes() == ATP_E_MST_END && prove(false, PATTERN_LIST("a.b.d"), &as_whole) == ATP_E_MST_END && as_whole &&
	   fetch.records == 1001, "P-04: a fetch begins again at a later commit");
	ok(before > 200 && kept.index.n - before <= sparse.top + 1, "with %zu more nodes than %zu", kept.index.n - before, before);
}

/* Blocks that came early, here the whole repository: the same walks take the nodes of the ranges, and no other block. */
static void
all_at_once(void)
{
	static const Part parts[] = {{"a.b.c", 3000}, {"a.b.d", 30}};
	bool		as_whole;

	serve_parts(parts, 2, 0);
	begin_fetch(PATTERN_LIST("a.b.d"));
	for (size_t i = 0; i < server.index.n; i++)
		blocks_add(&early, &server.blocks[i]);
	ok(fetch_nodes() == ATP_E_MST_END && fetch.requests == 0 && prove(false, PATTERN_LIST("a.b.d"), &as_whole) == ATP_E_MST_END && as_whole,
	   "P-10: nodes that came early need no request");
	ok(kept.index.n == proof.asked && kept.index.n < 60, "%zu of %zu blocks were kept", kept.index.n, early.index.n);
}

int
main(void)
{
	usual_sizes();
	small_trees();
	moved_on();
	all_at_once();
	let_go(0);
	return done_testing();
}
