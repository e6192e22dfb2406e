/*
 * utf8.c
 *		A text is valid UTF-8 exactly if the automaton says so byte by byte, also where eight bytes are checked at once;
 *		otherwise the result is the end of the last whole character before the fault.
 *
 * proves: atp_utf8_valid atp_is_short_plain atp_utf8_unplain
 * replaces: next_state:proof_next_state
 * short: -DN=11 --unwind 12
 * long: -DN=40 --unwind 42
 * wraps: atp_utf8_unplain
 * assumes: the automaton is the formula of lib/utf8.h
 */
#include "core/syntax/utf8.c"
#include "lib/proof.h"

#include "lib/utf8.h"

static void
valid(size_t n)
{
	uint8_t		memory[N];
	uint8_t    *s = memory + N - n;
	uint64_t	state = WHOLE;
	size_t		whole = 0;
	bool		has_nul;
	bool		nul = false;
	bool		plain = true;
	size_t		end;

	for (size_t i = 0; i < n; i++)
	{
		state = proof_next_state(state, s[i]);
		if (state == WHOLE)
			whole = i + 1;
		nul = nul || s[i] == 0;
		plain = plain && s[i] > 0 && s[i] < 0x80;
	}
	end = atp_utf8_valid(s, n, &has_nul);
	LAW(end == whole);
	LAW(end < n || has_nul == nul);
	LAW(n > 16 || !atp_is_short_plain(s, n) || plain);
	LAW(n > 16 || !plain || atp_is_short_plain(s, n));
	if (n > 8 && end == n && !plain)
		REACHED("a text that is not ASCII");
}

int
main(void)
{
	valid(0);
	valid(3);
	valid(7);
	valid(8);
	valid(N);
	return 0;
}
