/*
 * uri_text.h
 *		Texts of valid URIs, and their order as uri.h says it.
 */
#ifndef URI_TEXT_H
#define URI_TEXT_H

#include "core/syntax/chars.h"
#include "core/syntax/uri.h"
#include "lib/proof.h"

/* the weight of a character of the text. */
static inline int
text_weight(char c)
{
	return c == '#' ? 1 : c == '?' ? 2 : c == '/' ? 3 : (uint8_t) c;
}

static inline int
text_order(const char *a, size_t an, const char *b, size_t bn)
{
	for (size_t i = 0; i < an && i < bn; i++)
		if (a[i] != b[i])
			return text_weight(a[i]) - text_weight(b[i]);
	return (an > bn) - (an < bn);
}

/* Characters of a valid URI: what is around them does not matter to the stored form. */
static inline bool
is_uri_chars(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] != '%' && s[i] != '#' && !atp_char_is(s[i], ATP_C_QUERY))
			return false;
	return true;
}

static inline bool
is_uri_text(const char *s, size_t n)
{
	return is_uri_chars(s, n) && !atp_char_is(s[0], ATP_C_DELIMITER);
}

#endif							/* URI_TEXT_H */
