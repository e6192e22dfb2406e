/*
 * markup.c
 *		The markup of a page: each skip moves on and ends in the page, and the text is never longer than the page.
 *
 * proves: atp_strip_markup skip_markup find_behind has_prefix
 * replaces: skip_markup:proof_skip_markup
 * short: -DN=5 -DM=9 --unwind 10
 * long: -DN=8 -DM=12 --unwind 13
 */
#include "core/syntax/markup.c"
#include "lib/proof.h"

/* In place of skip_markup(): what markup() proves of it. */
size_t
proof_skip_markup(const char *s, size_t n, size_t i)
{
	size_t		end = any_size(n);

	LAW(i < n && s[i] == '<');
	ASSUME(end > i);
	return end;
}

/* Through a pointer, since the calls by name are replaced. */
static size_t (*const skip) (const char *s, size_t n, size_t i) = skip_markup;

static void
markup(size_t n)
{
	char		s[M];
	size_t		end;

	s[M - n] = '<';
	end = skip(s + M - n, n, 0);
	LAW(end > 0 && end <= n);
	if (end < n && s[M - n + 1] == 's')
		REACHED("the end of a style");
}

static void
strip(void)
{
	ANY_TEXT(s, n, N);
	LAW(atp_strip_markup(s, n) <= n);
}

int
main(void)
{
	markup(1);
	markup(M);
	strip();
	return 0;
}
