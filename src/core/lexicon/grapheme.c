/*
 * grapheme.c
 *		Counts graphemes by the rules of UAX #29, which comments cite by number.  GB9c, about the conjuncts of
 *		Indic scripts, is from Unicode 15.1.
 *
 * libutf8proc is not used: its tables differ between the versions that servers have installed.  A record would be
 * valid on one server and a dead letter on the next, or change its validity with an upgrade of the operating system.
 */
#include "core/lexicon/grapheme.h"

typedef enum Class
{
	CLASS_OTHER,
	CLASS_CR,
	CLASS_LF,
	CLASS_CONTROL,
	CLASS_EXTEND,
	CLASS_ZWNJ,					/* an EXTEND that separates conjuncts */
	CLASS_LINKER,				/* an EXTEND that joins consonants into a conjunct */
	CLASS_ZWJ,
	CLASS_SPACING,
	CLASS_PREPEND,
	CLASS_FLAG,					/* a regional indicator: two make a flag */
	CLASS_PICTURE,
	CLASS_CONSONANT,			/* a consonant of a script with conjuncts */
	CLASS_L,
	CLASS_V,
	CLASS_T,
	CLASS_LV,
	CLASS_LVT
} Class;

#define CLASS_BITS	5
#define RANGE(first, class)	((uint32_t) (first) << CLASS_BITS | CLASS_##class)
#include "core/lexicon/grapheme_table.h"

/* What the rules need to know about the text read so far. */
typedef struct State
{
	Class		before;			/* class of the last character */
	bool		half_flag;		/* the last character is a regional indicator without a partner */
	bool		picture;		/* the text ends in a picture, any EXTEND, and perhaps one ZWJ */
	bool		consonant;		/* the text ends in a consonant and any EXTEND or linkers ... */
	bool		linker;			/* ... with at least one linker */
} State;

static Class
class_of(uint32_t c)
{
	size_t		low = 0;
	size_t		high = sizeof(table) / sizeof(table[0]);

	if (c >= 0xAC00 && c <= 0xD7A3)
		return (c - 0xAC00) % 28 == 0 ? CLASS_LV : CLASS_LVT;
	while (high - low > 1)
	{
		size_t		middle = (low + high) / 2;

		if (table[middle] >> CLASS_BITS <= c)
			low = middle;
		else
			high = middle;
	}
	return (Class) (table[low] & ((1u << CLASS_BITS) - 1));
}

static inline bool
is_control(Class class)
{
	return class == CLASS_CR || class == CLASS_LF || class == CLASS_CONTROL;
}

static inline bool
is_extend(Class class)
{
	return class == CLASS_EXTEND || class == CLASS_ZWNJ || class == CLASS_LINKER;
}

/* GB6 to GB8 */
static bool
is_one_syllable(Class before, Class class)
{
	switch (before)
	{
		case CLASS_L:
			return class == CLASS_L || class == CLASS_V || class == CLASS_LV || class == CLASS_LVT;
		case CLASS_LV:
		case CLASS_V:
			return class == CLASS_V || class == CLASS_T;
		case CLASS_LVT:
		case CLASS_T:
			return class == CLASS_T;
		default:
			return false;
	}
}

/* Does a grapheme begin with a character of this class? */
static bool
begins_grapheme(const State *s, Class class)
{
	if (s->before == CLASS_CR && class == CLASS_LF) /* GB3 */
		return false;
	if (is_control(s->before) || is_control(class)) /* GB4, GB5 */
		return true;
	if (is_extend(class) || class == CLASS_ZWJ || class == CLASS_SPACING || /* GB9, GB9a */
		s->before == CLASS_PREPEND) /* GB9b */
		return false;
	if (class == CLASS_CONSONANT && s->consonant && s->linker)	/* GB9c */
		return false;
	if (class == CLASS_PICTURE && s->picture && s->before == CLASS_ZWJ) /* GB11 */
		return false;
	if (class == CLASS_FLAG && s->half_flag)	/* GB12, GB13 */
		return false;
	return !is_one_syllable(s->before, class);
}

static void
read_class(State *s, Class class)
{
	bool		extends = is_extend(class) || class == CLASS_ZWJ;

	s->half_flag = class == CLASS_FLAG && !s->half_flag;
	/* GB11: only EXTEND may stand between the picture and the ZWJ. */
	s->picture = class == CLASS_PICTURE || (s->picture && s->before != CLASS_ZWJ && extends);
	s->linker = s->consonant && (class == CLASS_LINKER || (s->linker && extends && class != CLASS_ZWNJ));
	s->consonant = class == CLASS_CONSONANT || (s->consonant && extends && class != CLASS_ZWNJ);
	s->before = class;
}

/*
 * Decodes the character at s, of which n >= 1 bytes may be read; returns its length.  Invalid UTF-8 gives a
 * wrong character, but nothing behind the n bytes is read.
 */
static size_t
decode_character(const uint8_t *s, size_t n, uint32_t *c)
{
	size_t		len = s[0] < 0xC0 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;

	*c = len == 1 ? s[0] : s[0] & (0xFFu >> (len + 1));
	if (len > n)
		return n;
	for (size_t i = 1; i < len; i++)
		*c = *c << 6 | (s[i] & 0x3F);
	return len;
}

size_t
atp_graphemes(const char *s, size_t n, size_t enough)
{
	const uint8_t *p = (const uint8_t *) s;
	State		state = {.before = CLASS_CONTROL};
	size_t		count = 0;

	for (size_t i = 0; i < n && count <= enough;)
	{
		uint32_t	c;
		Class		class;

		i += decode_character(p + i, n - i, &c);
		class = c >= ' ' && c <= '~' ? CLASS_OTHER : class_of(c);
		count += begins_grapheme(&state, class);
		read_class(&state, class);
	}
	return count;
}
