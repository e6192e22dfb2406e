/*
 * printable.h
 *		Makes a stranger's text safe for logs and text columns.
 */
#ifndef ATP_PRINTABLE_H
#define ATP_PRINTABLE_H

#include "core/atp.h"

/* Replaces each byte that is not printable ASCII by '?', in place. */
static inline void
atp_make_printable(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			s[i] = '?';
}

#endif							/* ATP_PRINTABLE_H */
