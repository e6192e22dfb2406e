/*
 * markup.h
 *		The text of a page of HTML, for messages.
 */
#ifndef ATP_MARKUP_H
#define ATP_MARKUP_H

#include "core/atp.h"

/*
 * Removes markup from a page of HTML, in place, and joins its words with single spaces; returns the length of the text.
 * A body that does not begin with "<" is left alone: it is no page.  The page may be cut anywhere.  The text may still
 * have any byte.
 */
extern size_t atp_strip_markup(char *s, size_t n);

#endif							/* ATP_MARKUP_H */
