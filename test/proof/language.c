/*
 * language.c
 *		Language tags: the kind of one part, after a part of any kind; and whole tags, with any kinds.
 *
 * proves: first_part next_part atp_language_check
 * sources: core/syntax/chars.c
 * replaces: is_irregular:any_irregular
 * short: -DN=5 --unwind 6 --unwindset part.0:9,all_of_class.0:9
 * long: -DN=9 --unwind 10
 * not proved: is_irregular(), which compares with a list
 */
#include "core/lexicon/language.c"
#include "lib/grammar.h"

static bool irregular_tag;

bool
any_irregular(const char *s, size_t n)
{
	return irregular_tag;
}

/* RFC 5646, section 2.1 */
static void
part(void)
{
	char		s[8];
	size_t		n = 1 + any_size(7);
	bool		letters = true;
	bool		digits = true;
	TagPart		last = (TagPart) any_size(PART_PRIVATE);
	TagPart		next;
	unsigned	extended = (unsigned) any_size(3);

	for (size_t i = 0; i < 8; i++)
	{
		ASSUME(grammar_letter(s[i]) || grammar_digit(s[i]));
		letters = letters && (i >= n || grammar_letter(s[i]));
		digits = digits && (i >= n || grammar_digit(s[i]));
	}
	next = next_part((AtpSpan) {s, n}, last, &extended);
	LAW(extended <= 4);
	LAW(next == PART_NONE || next >= last || (last == PART_EXTENSION && next == PART_SINGLETON));
	if (next == PART_EXTENDED)
		LAW(n == 3 && letters && extended <= 3 && last <= PART_EXTENDED);
	if (next == PART_SCRIPT)
		LAW(n == 4 && letters && last < PART_SCRIPT);
	if (next == PART_REGION)
		LAW((n == 2 && letters) || (n == 3 && digits));
	if (next == PART_VARIANT)
		LAW(n >= 5 || (n == 4 && grammar_digit(s[0])));
	if (next == PART_SINGLETON)
		LAW(n == 1 && s[0] != 'x' && s[0] != 'X' && last != PART_SINGLETON);
	if (next == PART_PRIVATE_X)
		LAW(n == 1 && (s[0] == 'x' || s[0] == 'X') && last != PART_SINGLETON);
	if (next == PART_NONE && last == PART_LANGUAGE)
		LAW((n == 3 && !digits && !letters) || (n == 2 && !letters) || (n == 4 && !letters && !grammar_digit(s[0])) || extended > 3);
	if (next == PART_VARIANT && last == PART_VARIANT)
		REACHED("a second variant");
}

static void
tag(void)
{
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	irregular_tag = any_bool();
	err = atp_language_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (irregular_tag && n > 0)
		LAW(err == ATP_OK);
	if (err != ATP_OK || irregular_tag)
		return;
	LAW(n >= 2 && s[n - 1] != '-' && grammar_letter(s[0]));
	LAW(s[1] != '-' || ((s[0] == 'x' || s[0] == 'X') && n >= 3));
	for (size_t i = 0; i < n; i++)
		LAW(grammar_letter(s[i]) || grammar_digit(s[i]) || (s[i] == '-' && s[i + 1] != '-'));
	if (n == N && s[3] == '-')
		REACHED("a tag");
}

int
main(void)
{
	part();
	tag();
	return 0;
}
