/*
 * utf8.c
 *		UTF-8: the automaton against the grammar of RFC 3629, section 4.
 *
 * proves: atp_utf8_valid atp_is_short_plain
 * sources: core/syntax/utf8.c
 * short: -DN=4 --unwind 5
 * long: -DN=9 --unwind 11
 * wraps: atp_utf8_unplain
 */
#include "core/syntax/utf8.h"
#include "lib/proof.h"

static bool
is_tail(uint8_t c)
{
	return c >= 0x80 && c <= 0xbf;
}

/* The length of the character at s, of which n bytes are there; 0: none. */
static size_t
character(const uint8_t *s, size_t n)
{
	uint8_t		c = s[0];

	if (c <= 0x7f)
		return 1;
	if (c >= 0xc2 && c <= 0xdf)
		return n >= 2 && is_tail(s[1]) ? 2 : 0;
	if (c >= 0xe0 && c <= 0xef)
		return n >= 3 && s[1] >= (c == 0xe0 ? 0xa0 : 0x80) && s[1] <= (c == 0xed ? 0x9f : 0xbf) && is_tail(s[2]) ? 3 : 0;
	if (c >= 0xf0 && c <= 0xf4)
		return n >= 4 && s[1] >= (c == 0xf0 ? 0x90 : 0x80) && s[1] <= (c == 0xf4 ? 0x8f : 0xbf) && is_tail(s[2]) && is_tail(s[3]) ? 4 : 0;
	return 0;
}

int
main(void)
{
	size_t		expected = 0;
	bool		expected_nul = false;
	bool		has_nul;
	size_t		valid;

	ANY_BUFFER(s, n, N);
	while (expected < n)
	{
		size_t		len = character(s + expected, n - expected);

		if (len == 0)
			break;
		expected_nul |= s[expected] == 0;
		expected += len;
	}
	valid = atp_utf8_valid(s, n, &has_nul);
	LAW(valid == expected);
	LAW(valid != n || has_nul == expected_nul);
	if (atp_is_short_plain(s, n))
	{
		LAW(valid == n && !has_nul);
		for (size_t i = 0; i < n; i++)
			LAW(s[i] < 0x80);
		if (n == N)
			REACHED("a plain text");
	}
	if (valid == n && n > 0 && s[0] == 0xf4)
		REACHED("a character of four bytes");
	return 0;
}
