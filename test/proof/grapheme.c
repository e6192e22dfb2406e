/*
 * grapheme.c
 *		Graphemes: the characters of a text of any bytes, and the number of graphemes with any classes.
 *
 * proves: decode_character begins_grapheme read_class atp_graphemes
 * replaces: class_of:any_class
 * short: -DN=5 --unwind 6
 * long: -DN=9 --unwind 10
 * not proved: class_of(), a search in a table
 */
#include "core/lexicon/grapheme.c"
#include "lib/proof.h"

static uint32_t most;			/* the greatest character asked for */

Class
any_class(uint32_t c)
{
	if (c > most)
		most = c;
	return (Class) any_size(CLASS_LVT);
}

/* By RFC 3629, of valid text. */
static void
character(void)
{
	uint32_t	c;
	size_t		len;

	ANY_BUFFER(s, n, 4);
	if (n == 0)
		return;
	len = decode_character(s, n, &c);
	LAW(len >= 1 && len <= n && c < 0x200000);
	if (s[0] < 0x80)
		LAW(len == 1 && c == s[0]);
	else if (n >= 2 && s[0] >= 0xc2 && s[0] < 0xe0)
		LAW(len == 2 && c == (s[0] & 31u) * 64 + (s[1] & 63u));
	else if (n >= 3 && s[0] >= 0xe0 && s[0] < 0xf0)
		LAW(len == 3 && c == (s[0] & 15u) * 4096 + (s[1] & 63u) * 64 + (s[2] & 63u));
	else if (n == 4 && s[0] >= 0xf0)
		LAW(len == 4 && (s[0] >= 0xf5 || c == (s[0] & 7u) * 262144 + (s[1] & 63u) * 4096 + (s[2] & 63u) * 64 + (s[3] & 63u)));
}

/* UAX #29, of any state and class; the numbers are those of the rules. */
static void
rules(void)
{
	State		s = {
		.before = (Class) any_size(CLASS_LVT), .half_flag = any_bool(), .picture = any_bool(), .consonant = any_bool(), .linker = any_bool()
	};
	Class		c = (Class) any_size(CLASS_LVT);
	bool		begins = begins_grapheme(&s, c);
	State		after = s;

	if (s.before == CLASS_CR && c == CLASS_LF)
		LAW(!begins);			/* GB3 */
	else if (s.before <= CLASS_CONTROL && s.before >= CLASS_CR)
		LAW(begins);			/* GB4 */
	else if (c <= CLASS_CONTROL && c >= CLASS_CR)
		LAW(begins);			/* GB5 */
	else if (c == CLASS_EXTEND || c == CLASS_ZWNJ || c == CLASS_LINKER || c == CLASS_ZWJ || c == CLASS_SPACING)
		LAW(!begins);			/* GB9, GB9a */
	else if (s.before == CLASS_OTHER && (c == CLASS_OTHER || c >= CLASS_L))
		LAW(begins);			/* GB999 */
	else if (s.before == CLASS_PREPEND)
		LAW(!begins);			/* GB9b */
	else if (c == CLASS_FLAG)
		LAW(begins == !s.half_flag);	/* GB12, GB13 */
	else if (c == CLASS_PICTURE)
		LAW(begins == !(s.picture && s.before == CLASS_ZWJ));	/* GB11 */
	else if (c == CLASS_CONSONANT)
		LAW(begins == !(s.consonant && s.linker));	/* GB9c */
	else if (s.before == CLASS_L)
		LAW(begins == (c != CLASS_L && c != CLASS_V && c != CLASS_LV && c != CLASS_LVT));	/* GB6 */
	else if (s.before == CLASS_LV || s.before == CLASS_V)
		LAW(begins == (c != CLASS_V && c != CLASS_T));	/* GB7 */
	else if (s.before == CLASS_LVT || s.before == CLASS_T)
		LAW(begins == (c != CLASS_T));	/* GB8 */
	else
		LAW(begins);			/* GB999 */
	read_class(&after, c);
	LAW(after.before == c && after.half_flag == (c == CLASS_FLAG && !s.half_flag));
	LAW(!after.linker || after.consonant || c == CLASS_LINKER || s.linker);
	if (c == CLASS_OTHER)
		LAW(!after.picture && !after.consonant && !after.linker);
}

static void
text(void)
{
	size_t		enough = any_size(N);
	size_t		count;

	ANY_TEXT(s, n, N);
	count = atp_graphemes(s, n, enough);
	LAW(count <= n && count <= enough + 1);
	LAW((count == 0) == (n == 0));
	LAW(most < 0x200000);
	if (count == N)
		REACHED("as many graphemes as bytes");
}

int
main(void)
{
	character();
	rules();
	text();
	return 0;
}
