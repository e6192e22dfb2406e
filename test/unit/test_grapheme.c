/*
 * test_grapheme.c
 *		Graphemes: the tests of the Unicode Character Database, and further cases (L-12).
 */
#include "core/lexicon/grapheme.h"
#include "syntax.h"

static size_t
put_utf8(char *out, unsigned c)
{
	if (c < 0x80)
		return sprintf(out, "%c", c), 1;
	if (c < 0x800)
		return sprintf(out, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 63));
	if (c < 0x10000)
		return sprintf(out, "%c%c%c", 0xE0 | c >> 12, 0x80 | (c >> 6 & 63), 0x80 | (c & 63));
	return sprintf(out, "%c%c%c%c", 0xF0 | c >> 18, 0x80 | (c >> 12 & 63), 0x80 | (c >> 6 & 63), 0x80 | (c & 63));
}

static void
check_line(char *line, size_t n, void *arg)
{
	char	   *tab = strchr(line, '\t');
	char		text[200];
	size_t		len = 0;
	size_t		expected;

	if (strncmp(line, "characters", 10) == 0)
		return;
	expected = strtoul(tab + 1, NULL, 10);
	for (char *p = line; p < tab;)
		len += put_utf8(text + len, (unsigned) strtoul(p, &p, 16));
	ok(atp_graphemes(text, len, 1000) == expected, "L-12: %.*s is %zu", (int) (tab - line), line, expected);
	(*(int *) arg)++;
}

static void
gives(const char *text, size_t expected)
{
	size_t		n = atp_graphemes(text, strlen(text), 1000);

	ok(n == expected, "L-12: %s is %zu (%zu)", show(text, strlen(text)), expected, n);
}

int
main(void)
{
	int			tests = 0;
	int			lines = each_line(VECTORS "derived/graphemes.tsv", check_line, &tests);

	ok(lines == tests + 1 && tests > 500, "L-12: %d tests of Unicode", tests);
	gives("", 0);
	gives("abc", 3);
	gives("a\r\nb", 3);
	gives("e\xcc\x81", 1);
	/* a family; flags; a flag and a half */
	gives("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa6", 1);
	gives("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", 2);
	gives("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xa9", 2);
	/* Hangul: two syllables; a syllable spelt as letters */
	gives("\xed\x95\x9c\xea\xb5\xad", 2);
	gives("\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", 1);
	/* GB9c: Devanagari "kta"; with U+200C, with U+200D between; Tamil has no conjuncts */
	gives("\xe0\xa4\x95\xe0\xa5\x8d\xe0\xa4\xa4", 1);
	gives("\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8c\xe0\xa4\xa4", 2);
	gives("\xe0\xa4\x95\xe0\xa5\x8d\xe2\x80\x8d\xe0\xa4\xa4", 1);
	gives("\xe0\xa4\x95\xe0\xa4\xbc\xe0\xa4\xa4", 2);
	gives("\xe0\xae\x95\xe0\xaf\x8d\xe0\xae\xa4", 2);
	/* GB11 allows one joiner: a picture after two joiners counts separately */
	gives("\xf0\x9f\x91\xa9\xe2\x80\x8d\xe2\x80\x8d\xf0\x9f\x91\xa9", 2);
	ok(atp_graphemes("aaaaaaaaaa", 10, 3) == 4, "L-12: no more is counted than is asked for");
	return done_testing();
}
