/*
 * quotable.c
 *		The quoted part of a faulty value in a message: see quotable.h.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "common/quotable.h"

#define QUOTED_MAX	64			/* bytes */

char *
atp_quotable_span(const char *s, size_t n)
{
	if (n <= QUOTED_MAX)
		return pnstrdup(s, n);
	return psprintf("%.*s...", pg_mbcliplen(s, (int) n, QUOTED_MAX), s);
}

char *
atp_quotable(const char *s)
{
	return atp_quotable_span(s, strlen(s));
}
