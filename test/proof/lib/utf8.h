/*
 * utf8.h
 *		The automaton of utf8.c as a formula, for harnesses that include utf8.c: a table of 256 words costs the solver more.
 *		utf8_step.c proves that both are the same.
 */
#ifndef PROOF_UTF8_H
#define PROOF_UTF8_H

static inline bool
is_utf8_state(uint64_t state)
{
	return state % 6 == 0 && state <= AFTER_F4;
}

uint64_t
proof_next_state(uint64_t state, uint8_t byte)
{
	bool		tail = byte >= 0x80 && byte <= 0xbf;

	switch (state & 63)
	{
		case WHOLE:
			return byte < 0x80 ? WHOLE : byte < 0xc2 ? WRONG : byte < 0xe0 ? ONE :
				byte == 0xe0 ? AFTER_E0 : byte == 0xed ? AFTER_ED : byte < 0xf0 ? TWO :
				byte == 0xf0 ? AFTER_F0 : byte < 0xf4 ? THREE : byte == 0xf4 ? AFTER_F4 : WRONG;
		case ONE:
			return tail ? WHOLE : WRONG;
		case TWO:
			return tail ? ONE : WRONG;
		case THREE:
			return tail ? TWO : WRONG;
		case AFTER_E0:
			return tail && byte >= 0xa0 ? ONE : WRONG;
		case AFTER_ED:
			return tail && byte < 0xa0 ? ONE : WRONG;
		case AFTER_F0:
			return tail && byte >= 0x90 ? TWO : WRONG;
		case AFTER_F4:
			return tail && byte < 0x90 ? TWO : WRONG;
		default:
			return WRONG;
	}
}

#endif							/* PROOF_UTF8_H */
