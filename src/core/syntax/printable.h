/*
 * printable.h
 *		Text of a stranger's, made safe for logs and text columns.
 */
#ifndef ATP_PRINTABLE_H
#define ATP_PRINTABLE_H

#include "core/atp.h"

/* Whatever is not printable ASCII becomes '?', in place. */
static inline void
atp_make_printable(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			s[i] = '?';
}

#endif							/* ATP_PRINTABLE_H */
