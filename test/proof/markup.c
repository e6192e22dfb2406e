/*
 * markup.c
 *		Text of a page of HTML.
 *
 * proves: atp_strip_markup
 * sources: core/syntax/markup.c
 * short: -DN=9 --unwind 11
 * long: -DN=14 --unwind 16
 */
#include "core/syntax/markup.h"
#include "lib/proof.h"

int
main(void)
{
	size_t		len;
	bool		page;

	ANY_TEXT(s, n, N);
	page = n > 0 && s[0] == '<';
	len = atp_strip_markup(s, n);
	LAW(len <= n);
	if (!page)
		return 0;
	for (size_t i = 0; i < len; i++)
		LAW(s[i] != '<' && (i + 1 == len || s[i] != ' ' || s[i + 1] != ' '));
	if (len > 2)
		REACHED("a page with text");
	return 0;
}
