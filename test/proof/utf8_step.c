/*
 * utf8_step.c
 *		The automaton of utf8.c accepts the characters of RFC 3629 and no other bytes: from its first state, one to four
 *		bytes end in that state exactly if they are one character.
 *
 * proves: next_state is_whole
 * short: --unwind 6
 * long: --unwind 6
 */
#include "core/syntax/utf8.c"
#include "lib/proof.h"

#include "lib/utf8.h"

/* The number of bytes of the character at s, by RFC 3629; 0: there is none. */
static size_t
character(const uint8_t s[4])
{
	bool		tail[4];

	for (int i = 1; i < 4; i++)
		tail[i] = s[i] >= 0x80 && s[i] <= 0xbf;
	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		return tail[1] ? 2 : 0;
	if (s[0] >= 0xe0 && s[0] <= 0xef)
		return tail[1] && tail[2] && !(s[0] == 0xe0 && s[1] < 0xa0) && !(s[0] == 0xed && s[1] > 0x9f) ? 3 : 0;
	if (s[0] >= 0xf0 && s[0] <= 0xf4)
		return tail[1] && tail[2] && tail[3] && !(s[0] == 0xf0 && s[1] < 0x90) && !(s[0] == 0xf4 && s[1] > 0x8f) ? 4 : 0;
	return 0;
}

int
main(void)
{
	uint8_t		s[4];
	uint64_t	state = WHOLE;
	uint8_t		byte = any_byte();
	uint64_t	any = any_u64();
	size_t		n;

	for (int i = 0; i < 4; i++)
		s[i] = any_byte();
	n = character(s);
	for (size_t i = 0; i < 4; i++)
	{
		state = next_state(state, s[i]);
		if (n > 0 && i + 1 <= n)
			LAW(is_whole(state) == (i + 1 == n));
		/* what is no character stays none: no state leads from WRONG to another */
		if (n == 0)
			LAW(!is_whole(state));
	}
	LAW(next_state(WRONG, byte) % 64 == WRONG);
	/* the formula that utf8.c uses instead of the table */
	ASSUME(is_utf8_state(any % 64));
	LAW(next_state(any, byte) % 64 == proof_next_state(any, byte));
	LAW(is_utf8_state(proof_next_state(any, byte)));
	if (n == 4)
		REACHED("a character of four bytes");
	return 0;
}
