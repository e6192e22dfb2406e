/*
 * key_join.c
 *		Ranges of keys: joined ranges have the keys of the ranges, and ascend.
 *
 * proves: atp_key_ranges_join atp_key_ranges_ascend atp_key_range_compare compare_bounds byte_of_bound
 * short: -DN=3 --unwind 6
 * long: -DN=5 --unwind 8
 * by hand: 23 s
 * assumes: the caller has sorted the ranges
 */
#include "core/repo/key_range.c"
#include "lib/proof.h"

static bool
is_inside(AtpBytes key, const AtpKeyRange *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (atp_key_compare(key, ranges[i].first) >= 0 && atp_key_compare(key, ranges[i].end) < 0)
			return true;
	}
	return false;
}

#define IS_PATTERN(text, n) \
	((n) > 0 && ((text)[(n) - 1] != '*' || (n) == 1 || ((n) > 2 && (text)[(n) - 2] == '.')))

int
main(void)
{
	AtpKeyRange ranges[2];
	AtpKeyRange joined[2];
	size_t		n;

	ANY_TEXT(a, an, N);
	ANY_TEXT(b, bn, N);
	ANY_BUFFER(key, m, N);
	ASSUME(m > 0 && IS_PATTERN(a, an) && IS_PATTERN(b, bn));
	ranges[0] = joined[0] = atp_key_range((AtpSpan) {a, an});
	ranges[1] = joined[1] = atp_key_range((AtpSpan) {b, bn});
	LAW(sign(atp_key_range_compare(&ranges[0], &ranges[1])) == -sign(atp_key_range_compare(&ranges[1], &ranges[0])));
	ASSUME(atp_key_range_compare(&ranges[0], &ranges[1]) <= 0);
	n = atp_key_ranges_join(joined, 2);
	LAW(n == 1 || n == 2);
	LAW(atp_key_ranges_ascend(joined, n));
	LAW((n == 2) == atp_key_ranges_ascend(ranges, 2));
	LAW(is_inside((AtpBytes) {key, m}, joined, n) == is_inside((AtpBytes) {key, m}, ranges, 2));
	if (n == 1 && an == 3 && bn == 1 && b[0] != '*')
		REACHED("ranges that touch");
	return 0;
}
