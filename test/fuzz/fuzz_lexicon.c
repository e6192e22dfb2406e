/*
 * fuzz_lexicon.c
 *		What Lexicons ask of texts, and no type has: URIs of any scheme, language
 *		tags, graphemes.
 */
#include "core/lexicon/any_uri.h"
#include "core/lexicon/grapheme.h"
#include "core/lexicon/language.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;
	size_t		at = SIZE_MAX;
	size_t		graphemes = atp_graphemes(s, size, SIZE_MAX - 1);

	if (atp_any_uri_check(s, size, &at) != ATP_OK)
		CHECK(at <= size);
	else
		CHECK(memchr(s, ':', size) != NULL && memchr(s, ' ', size) == NULL);
	at = SIZE_MAX;
	if (atp_language_check(s, size, &at) != ATP_OK)
		CHECK(at <= size);
	else
		CHECK(size <= ATP_LANGUAGE_MAX && s[size - 1] != '-');
	CHECK(graphemes <= size && (graphemes > 0) == (size > 0));
	/* counting stops at the limit */
	CHECK(atp_graphemes(s, size, graphemes) == graphemes);
	if (graphemes > 0)
		CHECK(atp_graphemes(s, size, graphemes - 1) == graphemes);
	if (graphemes > 1)
		CHECK(atp_graphemes(s, size, graphemes - 2) == graphemes - 1);
	return 0;
}
