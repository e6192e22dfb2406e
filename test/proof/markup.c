/*
 * markup.c
 *		The text of a page is never longer than the page.
 *
 * proves: atp_strip_markup
 * replaces: skip_markup:proof_skip_markup
 * short: -DN=5 --unwind 7
 * long: -DN=8 --unwind 10
 */
#include "core/syntax/markup.c"
#include "lib/proof.h"

/* In place of skip_markup(): what markup_skip.c proves of it. */
size_t
proof_skip_markup(const char *s, size_t n, size_t i)
{
	size_t		end = any_size(n);

	LAW(i < n && s[i] == '<');
	ASSUME(end > i);
	return end;
}

static void
strip(void)
{
	size_t		len;

	ANY_TEXT(s, n, N);
	len = atp_strip_markup(s, n);
	LAW(len <= n);
	if (len == 3 && s[1] == ' ')
		REACHED("two words");
}

int
main(void)
{
	strip();
	return 0;
}
