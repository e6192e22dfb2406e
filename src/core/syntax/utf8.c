/*
 * utf8.c
 *		Validates UTF-8: see utf8.h.
 *
 * Nearly all text is ASCII: eight bytes are checked at once.  All other text goes through an automaton
 * without branches, because text that mixes scripts would cause mispredictions.  Each byte value has a row
 * with the next state for every state, at the bit that is the state's number, so that one shift is a step.
 */
#include "core/syntax/utf8.h"

/*
 * Bytes that go through the automaton once a byte is not ASCII: the next bytes are probably not ASCII either.
 */
#define RUN	32

enum
{
	WRONG = 0,					/* invalid; no way out */
	WHOLE = 6,					/* no character is open */
	ONE = 12,					/* so many bytes are still to come ... */
	TWO = 18,
	THREE = 24,
	AFTER_E0 = 30,				/* ... two, and the next must not make the form overlong */
	AFTER_ED = 36,				/* ... two, and the next must not make a surrogate */
	AFTER_F0 = 42,				/* ... three, and the next must not make the form overlong */
	AFTER_F4 = 48,				/* ... three, and the next must not exceed U+10FFFF */
};

#define STEP(from, to)	((uint64_t) (to) << (from))
#define TAIL			(STEP(ONE, WHOLE) | STEP(TWO, ONE) | STEP(THREE, TWO))

#define EACH4(row)		row, row, row, row
#define EACH16(row)		EACH4(row), EACH4(row), EACH4(row), EACH4(row)

#define ASCII			STEP(WHOLE, WHOLE)
#define LEAD2			STEP(WHOLE, ONE)
#define LEAD3			STEP(WHOLE, TWO)
#define LEAD4			STEP(WHOLE, THREE)

/* No range of designators ([0x00 ... 0x7f]): that is no C11, and CBMC (test/proof) reads only its first element. */
static const uint64_t rows[256] = {
	EACH16(ASCII), EACH16(ASCII), EACH16(ASCII), EACH16(ASCII), EACH16(ASCII), EACH16(ASCII), EACH16(ASCII), EACH16(ASCII),
	/* 0x80, 0x90, 0xa0, 0xb0 */
	EACH16(TAIL | STEP(AFTER_ED, ONE) | STEP(AFTER_F4, TWO)),
	EACH16(TAIL | STEP(AFTER_ED, ONE) | STEP(AFTER_F0, TWO)),
	EACH16(TAIL | STEP(AFTER_E0, ONE) | STEP(AFTER_F0, TWO)),
	EACH16(TAIL | STEP(AFTER_E0, ONE) | STEP(AFTER_F0, TWO)),
	/* 0xc0 and 0xc1 would begin an overlong form */
	0, 0, LEAD2, LEAD2, EACH4(LEAD2), EACH4(LEAD2), EACH4(LEAD2), EACH16(LEAD2),
	/* 0xe0 to 0xef */
	STEP(WHOLE, AFTER_E0), EACH4(LEAD3), EACH4(LEAD3), EACH4(LEAD3), STEP(WHOLE, AFTER_ED), LEAD3, LEAD3,
	/* 0xf0 to 0xf4: the others would be above U+10FFFF */
	STEP(WHOLE, AFTER_F0), LEAD4, LEAD4, LEAD4, STEP(WHOLE, AFTER_F4),
};

/* The state is the lowest six bits; the bits above are garbage. */
static inline uint64_t
next_state(uint64_t state, uint8_t byte)
{
	return rows[byte] >> (state & 63);
}

static inline bool
is_whole(uint64_t state)
{
	return (state & 63) == WHOLE;
}

/* The end of the last complete character before the fault. */
static size_t
whole_before(const uint8_t *s, size_t n)
{
	uint64_t	state = WHOLE;
	size_t		end = 0;

	for (size_t i = 0; i < n; i++)
	{
		state = next_state(state, s[i]);
		if (is_whole(state))
			end = i + 1;
	}
	return end;
}

static inline bool
is_ascii8(const uint8_t *s)
{
	uint64_t	word;

	memcpy(&word, s, 8);
	return atp_utf8_unplain(word) == 0;
}

size_t
atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul)
{
	uint64_t	state = WHOLE;
	size_t		i = 0;
	bool		nul = false;

	while (i < n)
	{
		/* The last eight bytes may include bytes already checked. */
		size_t		at = n - i >= 8 || n < 8 ? i : n - 8;
		size_t		stop;

		if (n >= 8 && is_whole(state) && is_ascii8(s + at))
		{
			i = at + 8;
			continue;
		}
		stop = n - i < RUN ? n : i + RUN;
		for (; i < stop; i++)
		{
			nul |= s[i] == 0;
			state = next_state(state, s[i]);
		}
	}
	*has_nul = nul;
	return is_whole(state) ? n : whole_before(s, n);
}
