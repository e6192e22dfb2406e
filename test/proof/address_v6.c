/*
 * address_v6.c
 *		IPv6 addresses: which texts are accepted, where all 16 bytes are written.
 *
 * proves: parse_v6
 * sources: core/syntax/chars.c
 * replaces: parse_v4:any_v4
 * short: -DM=5 --unwind 6 --unwindset parse_v6.0:5,memset.0:17,memmove.0:17,memmove.1:17
 * long: -DM=8 --unwind 9 --unwindset memset.0:17,memmove.0:17,memmove.1:17
 * assumes: parse_v4() does what address.c proves
 */
#include "core/syntax/address.c"
#include "lib/grammar.h"

bool
any_v4(const char *s, const char *end, uint8_t *out)
{
	LAW(s <= end && __CPROVER_w_ok(out, 4));
	return end - s >= 2 && any_bool();
}

static void
v6(void)
{
	uint8_t		out[16];
	bool		has_gap = false;

	ANY_TEXT(s, n, M);
	if (!parse_v6(s, s + n, out))
		return;
	/* with IPv4 at the end: see address.c */
	if (memchr(s, '.', n) != NULL)
		return;
	for (size_t i = 0; i < n; i++)
	{
		LAW(grammar_hex(s[i]) || s[i] == ':');
		LAW(i + 1 >= n || !has_gap || s[i] != ':' || s[i + 1] != ':');
		has_gap |= i + 1 < n && s[i] == ':' && s[i + 1] == ':';
	}
	/* less than eight groups */
	LAW(has_gap);
	REACHED("an IPv6 address");
}

int
main(void)
{
	v6();
	return 0;
}
