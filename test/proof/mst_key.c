/*
 * mst_key.c
 *		Keys of a tree's node: an entry with any prefix and suffix, after any key.  By induction, all keys of a node.
 *
 * proves: next_key atp_mst_compare
 * short: -DN=4 -DLIMIT=6 --unwind 6
 * long: -DN=8 -DLIMIT=12 --unwind 10
 * assumes: keys have at most LIMIT bytes in place of 1024
 */
#include "core/repo/mst_root.h"

/* a key of 1024 bytes costs the solver too much */
#undef ATP_MST_KEY_MAX
#define ATP_MST_KEY_MAX	LIMIT

#include "core/repo/mst.c"
#include "lib/proof.h"

/* Bytewise; a beginning comes first. */
static void
order(void)
{
	ANY_BUFFER(a, an, 3);
	ANY_BUFFER(b, bn, 3);
	int			order = 0;

	/* the end comes before each byte */
	for (int i = 2; i >= 0; i--)
	{
		int			c = ((size_t) i < an ? a[i] + 1 : 0) - ((size_t) i < bn ? b[i] + 1 : 0);

		order = c != 0 ? c : order;
	}
	LAW(sign(atp_mst_compare((AtpBytes) {a, an}, (AtpBytes) {b, bn})) == sign(order));
}

static void
key(void)
{
	uint8_t		key[ATP_MST_KEY_MAX];
	uint8_t		old = 0;
	size_t		len = any_size(sizeof(key));
	const size_t before = len;
	AtpMstEntry	entry = {.prefix = any_u64()};
	size_t		p;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	entry.suffix = (AtpBytes) {s, n};
	p = (size_t) entry.prefix;
	if (p < before)
		old = key[p];
	err = next_key(key, &len, &entry);
	LAW(err == ATP_OK || err == ATP_E_MST_PREFIX || err == ATP_E_MST_ORDER || err == ATP_E_MST_KEY_LONG);
	if (err != ATP_OK)
	{
		LAW(len == before);
		return;
	}
	LAW(p <= before && len == p + n && len <= ATP_MST_KEY_MAX && n > 0);
	LAW(key[p] == s[0] && key[len - 1] == s[n - 1]);
	/* the key is greater than the key before, and its prefix is as long as can be */
	LAW(p == before || s[0] > old);
	if (len == ATP_MST_KEY_MAX && before == p && n == N)
		REACHED("the longest key");
	if (p < before)
		REACHED("a shorter prefix");
}

int
main(void)
{
	order();
	key();
	return 0;
}
