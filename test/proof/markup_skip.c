/*
 * markup_skip.c
 *		Skipping markup moves on, and ends in the page, wherever the page is cut.
 *
 * proves: skip_markup find_behind has_prefix
 * short: -DN=9 --unwind 10
 * long: -DN=18 --unwind 20
 */
#include "core/syntax/markup.c"
#include "lib/proof.h"

static void
skip(size_t n)
{
	char		s[N];
	char	   *start = s + N - n;
	size_t		end;

	start[0] = '<';
	end = skip_markup(start, n, 0);
	LAW(end > 0 && end <= n);
	if (n > 1 && end < n && start[1] == '!')
		REACHED("the end of a comment");
}

int
main(void)
{
	skip(1);
	skip(4);
	skip(N);
	return 0;
}
