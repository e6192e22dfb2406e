/*
 * test_language.c
 *		Language tags: rule L-10.
 */
#include "core/lexicon/language.h"
#include "syntax.h"

int
main(void)
{
	AtpErr		(*checker) (const char *, size_t, size_t *) = atp_language_check;

	check_interop("language", atp_language_check, 18, 7);
	/* repeated parts are well-formed, and Lexicons ask for no more */
	ok(each_line(VECTORS "interop/language_parse_invalid.txt", expect_valid, &checker) > 0, "language_parse_invalid.txt is there");

	ACCEPTED("L-10", atp_language_check, "en", "pt-BR", "zh-cmn-Hans-CN", "sl-rozaj-biske-1994", "en-a-bbb-x-a-ccc",
			 "x-whatever", "EN-gb-OED", "i-enochian", "de-1996", "zh-min-nan", "es-419", "en-x-1", "zh-aaa-bbb-ccc");
	REFUSED("L-10", atp_language_check,
			{"", ATP_E_EMPTY, 0},
			{"e", ATP_E_LANGUAGE, 0},
			{"EN", ATP_E_LANGUAGE, 0},
			{"engl", ATP_E_LANGUAGE, 0},
			{"en_US", ATP_E_CHAR, 2},
			{"en-", ATP_E_LANGUAGE, 3},
			{"en--US", ATP_E_LANGUAGE, 3},
			{"en-US-GB", ATP_E_LANGUAGE, 6},
			{"en-US-Latn", ATP_E_LANGUAGE, 6},
			{"en-a", ATP_E_LANGUAGE, 4},
			{"en-a-b-cc", ATP_E_LANGUAGE, 5},
			{"en-x", ATP_E_LANGUAGE, 4},
			{"en-abcdefghi", ATP_E_LANGUAGE, 3},
			{"zh-aaa-bbb-ccc-ddd", ATP_E_LANGUAGE, 15},
			{"i-else", ATP_E_LANGUAGE, 0});
	check_charset("L-10", atp_language_check, "en-abcd*", ALNUM);
	{
		char	   *text = filled("en-x", '-', 128);
		size_t		at;

		for (size_t i = 5; i < 128; i += 2)
			text[i] = 'a';
		ok(atp_language_check(text, 128, &at) == ATP_OK, "L-10: a tag of 128 bytes");
		ok(atp_language_check(text, 129, &at) == ATP_E_TOO_LONG && at == 128, "L-10: a tag of 129 bytes");
	}
	return done_testing();
}
