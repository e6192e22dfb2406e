/*
 * test_key_range.c
 *		Ranges of keys: P-01, and the keys at their ends: P-02.  A key is in the ranges if the filter accepts
 *		its collection.
 */
#include <stdlib.h>

#include "core/repo/key_range.h"
#include "core/repo/path.h"
#include "unit.h"

#define PATTERNS	((size_t) 8)

static AtpKeyRange ranges[PATTERNS];

static AtpSpan
span_of(const char *text)
{
	return (AtpSpan) {text, strlen(text)};
}

static int
compare_ranges(const void *a, const void *b)
{
	return atp_key_range_compare(a, b);
}

/* The joined ranges of patterns that end with NULL. */
static size_t
make_ranges(const char *const *patterns)
{
	size_t		n = 0;

	for (; patterns[n] != NULL; n++)
		ranges[n] = atp_key_range(span_of(patterns[n]));
	qsort(ranges, n, sizeof(ranges[0]), compare_ranges);
	return atp_key_ranges_join(ranges, n);
}

static bool
is_in(const char *key, size_t n)
{
	AtpBytes	bytes = {(const uint8_t *) key, strlen(key)};

	for (size_t i = 0; i < n; i++)
	{
		if (atp_key_compare(bytes, ranges[i].first) >= 0 && atp_key_compare(bytes, ranges[i].end) < 0)
			return true;
	}
	return false;
}

#define PATTERN_LIST(...)	((const char *const[]) {__VA_ARGS__, NULL})

static void
ranges_and_filters(void)
{
	static const char *const patterns[] = {"a.b.c", "a.b.cd", "a.b-d.c", "a.b.c.*", "a.b.*", "a.b.c.d", "z.y.x", "*"};
	static const char *const collections[] = {
		"a.b.c", "a.b.cd", "a.b.c0d", "a.b-d.c", "a.b.c.d", "a.b.c.d.e", "a.b.d", "a.a.z", "a.c.a", "z.y.x", "z.y.xx", "z.y.X"
	};
	size_t		right = 0;
	size_t		tried = 0;
	size_t		ascending = 0;

	for (unsigned set = 0; set < 1 << PATTERNS; set++)
	{
		const char *some[PATTERNS + 1];
		size_t		n = 0;
		size_t		joined;

		for (unsigned i = 0; i < PATTERNS; i++)
		{
			if (set >> i & 1)
				some[n++] = patterns[i];
		}
		some[n] = NULL;
		joined = make_ranges(some);
		ascending += atp_key_ranges_ascend(ranges, joined);
		for (size_t i = 0; i < sizeof(collections) / sizeof(collections[0]); i++)
		{
			bool		accepted = false;
			char		key[64];

			for (size_t j = 0; j < n; j++)
				accepted = accepted || atp_nsid_matches(collections[i], strlen(collections[i]), some[j], strlen(some[j]));
			for (unsigned k = 0; k < 3; k++)
			{
				(void) snprintf(key, sizeof(key), "%s/%s", collections[i], k == 0 ? "-" : k == 1 ? "3jui7kd2z2y2e" : "~~~");
				right += is_in(key, joined) == accepted;
				tried++;
			}
		}
	}
	ok(right == tried, "P-01: %zu of %zu keys are in the ranges exactly if the filter accepts their collection", right, tried);
	ok(ascending == 1 << PATTERNS, "joined ranges ascend without touching");
}

static void
joins_and_bounds(void)
{
	static AtpKeyRange wrong[2];

	ok(make_ranges(PATTERN_LIST("a.b.c", "a.b.c.*")) == 1, "P-01: a collection and the collections below it are one range");
	ok(make_ranges(PATTERN_LIST("a.b.*", "a.b.c", "a.b.c.*", "a.b.z")) == 1, "P-01: ranges inside another");
	ok(make_ranges(PATTERN_LIST("a.b.d", "a.b.c")) == 2, "two collections are two ranges");
	ok(make_ranges(PATTERN_LIST("a.b.c", "a.b.c")) == 1, "the same collection twice");
	ok(make_ranges(PATTERN_LIST("*", "a.b.c")) == 1, "all collections");
	ok(is_in("\xff\xff", 1) && is_in(" ", 1), "whatever their names");
	(void) make_ranges(PATTERN_LIST("a.b.c"));
	ok(!is_in("a.b.c", 1) && !is_in("a.b.c.d/e", 1) && is_in("a.b.c/", 1), "P-01: the first key of a range");
	ok(is_in("a.b.c/\xff\xff", 1) && !is_in("a.b.c0", 1) && !is_in("a.b.c0d/e", 1), "P-01: the first key after a range");
	(void) make_ranges(PATTERN_LIST("a.b.*"));
	ok(!is_in("a.b/c", 1) && !is_in("a.b", 1) && is_in("a.b.", 1), "P-01: and of a pattern");

	wrong[0] = atp_key_range(span_of("a.b.d"));
	wrong[1] = atp_key_range(span_of("a.b.c"));
	ok(!atp_key_ranges_ascend(wrong, 2), "ranges that were not sorted are seen");
	wrong[1] = wrong[0];
	ok(!atp_key_ranges_ascend(wrong, 2), "and ranges that were not joined");
}

static void
probes(void)
{
	static const char *const patterns[] = {"a.b.c", "app.bsky.*", "a.*", "a.b.c.d.e.*", "*"};
	size_t		good = 0;

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
	{
		size_t		n = make_ranges(PATTERN_LIST(patterns[i]));
		char		keys[2][ATP_NSID_MAX + 32];

		for (unsigned last = 0; last < 2; last++)
		{
			AtpKeyProbe probe;
			AtpSpan		collection;
			AtpSpan		rkey;

			(last ? atp_key_probe_last : atp_key_probe_first) (&ranges[0], &probe);
			(void) sprintf(keys[last], "%.*s/%.*s", (int) probe.collection_len, probe.collection, (int) probe.rkey.len, probe.rkey.ptr);
			good += is_in(keys[last], n) && atp_path_split(span_of(keys[last]), &collection, &rkey) == ATP_OK;
		}
		ok(strcmp(keys[0], keys[1]) < 0, "P-02: %s: %s, %s", patterns[i], keys[0], keys[1]);
	}
	ok(good == 2 * sizeof(patterns) / sizeof(patterns[0]), "P-02: all are paths of records in their ranges");

	{
		/* the longest pattern: what is added to it must fit, too */
		char		name[ATP_NSID_MAX + 1];
		AtpKeyProbe probe;

		memset(name, 'a', ATP_NSID_MAX);
		for (size_t i = 50; i < ATP_NSID_MAX - 2; i += 50)
			name[i] = '.';
		memcpy(name + ATP_NSID_MAX - 2, ".*", 3);
		ranges[0] = atp_key_range(span_of(name));
		atp_key_probe_last(&ranges[0], &probe);
		ok(probe.collection_len == ATP_NSID_MAX && memcmp(probe.collection, name, ATP_NSID_MAX - 1) == 0,
		   "P-02: of the longest pattern");
	}
}

int
main(void)
{
	ranges_and_filters();
	joins_and_bounds();
	probes();
	return done_testing();
}
