/*
 * key_range.c
 *		Ranges of keys: a key is in a pattern's range exactly if the pattern matches the collection before its slash.
 *
 * proves: atp_key_range atp_key_compare
 * sources: core/syntax/nsid.c core/syntax/chars.c
 * short: -DN=4 --unwind 6
 * long: -DN=8 --unwind 10
 * by hand: 9 s
 */
#include "core/repo/key_range.c"
#include "lib/proof.h"

/* The order of a key and a bound's bytes; the end comes before each byte. */
static int
order_of(const uint8_t *key, size_t n, AtpKeyBound bound)
{
	int			order = 0;

	for (size_t i = 0; i <= N && order == 0; i++)
	{
		int			a = i < n ? key[i] + 1 : 0;
		int			b = i < bound.text.len ? (uint8_t) bound.text.ptr[i] + 1 : i == bound.text.len ? bound.last + 1 : 0;

		order = a - b;
	}
	return order;
}

int
main(void)
{
	AtpKeyRange range;
	AtpBytes	bytes;
	size_t		slash = 0;
	bool		inside;
	bool		matches;

	ANY_TEXT(pattern, n, N);
	ANY_BUFFER(key, m, N);
	ASSUME(n > 0 && m > 0);
	ASSUME(pattern[n - 1] != '*' || n == 1 || (n > 2 && pattern[n - 2] == '.'));
	for (size_t i = 0; i < n; i++)
		ASSUME(pattern[i] != '/');
	while (slash < m && key[slash] != '/')
		slash++;

	range = atp_key_range((AtpSpan) {pattern, n});
	bytes = (AtpBytes) {key, m};
	LAW(sign(atp_key_compare(bytes, range.first)) == sign(order_of(key, m, range.first)));
	LAW(range.end.text.ptr == NULL ? n == 1 && atp_key_compare(bytes, range.end) < 0 :
		sign(atp_key_compare(bytes, range.end)) == sign(order_of(key, m, range.end)));
	inside = atp_key_compare(bytes, range.first) >= 0 && atp_key_compare(bytes, range.end) < 0;
	if (slash == m || slash == 0)
		return 0;
	/* "a.b.*" has also the keys of "a.b.", which is no collection */
	matches = atp_nsid_matches((char *) key, slash, pattern, n) || (n > 1 && pattern[n - 1] == '*' && slash == n - 1 && same_bytes(key, slash, pattern, slash));
	LAW(inside == matches);
	if (inside && n > 2 && pattern[n - 1] == '*')
		REACHED("a key of a pattern");
	return 0;
}
