/*
 * address_v6.c
 *		IPv6 addresses: which texts are accepted, where all 16 bytes are written.
 *
 * proves: parse_v6
 * sources: core/syntax/chars.c
 * replaces: parse_v4:any_v4
 * short: -DM=5 --unwind 6 --unwindset parse_v6.0:5,groups.1:9,memset.0:17,memmove.0:17,memmove.1:17
 * long: -DM=8 --unwind 9 --unwindset groups.1:9,memset.0:17,memmove.0:17,memmove.1:17
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

/* Groups of a text with a gap, up to M characters. */
static void
groups(const char *s, size_t n, const uint8_t out[16])
{
	unsigned	group[2][M + 1] = {{0}, {0}};	/* before the gap, and behind it */
	unsigned	count[2] = {0, 0};
	int			side = 0;
	bool		inside = false;

	for (size_t i = 0; i < n; i++)
	{
		if (s[i] != ':')
		{
			unsigned	digit = (unsigned) (grammar_digit(s[i]) ? s[i] - '0' : (s[i] | 0x20) - 'a' + 10);

			if (!inside)
				count[side]++;
			group[side][count[side]] = inside ? group[side][count[side]] * 16 + digit : digit;
			inside = true;
			continue;
		}
		inside = false;
		if (i > 0 && s[i - 1] == ':')
			side = 1;
	}
	for (unsigned i = 0; i < 8; i++)
	{
		unsigned	expected = i < count[0] ? group[0][i + 1] : i + count[1] >= 8 ? group[1][i + count[1] - 7] : 0;

		LAW(out[2 * i] == expected >> 8 && out[2 * i + 1] == (expected & 0xff));
	}
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
	groups(s, n, out);
	REACHED("an IPv6 address");
}

int
main(void)
{
	v6();
	return 0;
}
