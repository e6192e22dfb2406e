/*
 * lex_format.c
 *		Formats of Lexicons by name, and MIME types against patterns.
 *
 * proves: atp_lex_accepts atp_lex_format_named atp_lex_format_name
 * sources: core/lexicon/lex_format.c core/syntax/chars.c
 * short: -DN=4 --unwind 14
 * long: -DN=8 --unwind 14
 */
#include "core/lexicon/lex_format.h"
#include "core/syntax/chars.h"
#include "lib/proof.h"

static void
accepts(void)
{
	size_t		stem;
	bool		same = true;
	bool		accepted;

	ANY_TEXT(p, pn, N);
	ANY_TEXT(m, mn, N);
	accepted = atp_lex_accepts((AtpSpan) {p, pn}, (AtpSpan) {m, mn});
	stem = pn > 0 && p[pn - 1] == '*' ? pn - 1 : pn;
	for (size_t i = 0; i < N; i++)
		same = same && (i >= stem || (i < mn && atp_char_lower(p[i]) == atp_char_lower(m[i])));
	if (pn == 3 && p[0] == '*' && p[1] == '/' && p[2] == '*')
		LAW(accepted);
	else
		LAW(accepted == (same && (stem < pn || mn == pn)));
	if (accepted && stem == 2 && mn == N)
		REACHED("a type that a pattern accepts");
}

static void
names(void)
{
	AtpLexFormat format;

	ANY_TEXT(s, n, N);
	format = atp_lex_format_named((AtpSpan) {s, n});
	LAW(format > ATP_LEX_ANY && format <= ATP_LEX_FORMATS);
	LAW(format == ATP_LEX_FORMATS || atp_span_is((AtpSpan) {s, n}, atp_lex_format_name(format)));
	LAW(format == ATP_LEX_FORMATS || n == strlen(atp_lex_format_name(format)));
	if (format == ATP_LEX_NSID)
		REACHED("a format's name");
}

int
main(void)
{
	accepts();
	names();
	return 0;
}
