/*
 * markup.c
 *		The text of a page of HTML: see markup.h.
 *
 * Servers and proxies answer with pages where a program expects JSON.  A message that quotes the page would show tags
 * and styles only, since a message shows but the first bytes.
 */
#include "core/syntax/markup.h"

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static char
lower_case(char c)
{
	return c >= 'A' && c <= 'Z' ? (char) (c - 'A' + 'a') : c;
}

/* Does s begin with the prefix, which is in lower case? */
static bool
has_prefix(const char *s, size_t n, const char *prefix)
{
	size_t		i = 0;

	for (; prefix[i] != '\0'; i++)
		if (i >= n || lower_case(s[i]) != prefix[i])
			return false;
	return true;
}

/* The offset behind the next occurrence of end at or after i; n if there is none. */
static size_t
find_behind(const char *s, size_t n, size_t i, const char *end)
{
	for (; i < n; i++)
		if (has_prefix(s + i, n - i, end))
			return i + strlen(end);
	return n;
}

/* The offset behind the markup that begins at i; the contents of scripts and styles count as markup. */
static size_t
skip_markup(const char *s, size_t n, size_t i)
{
	if (has_prefix(s + i, n - i, "<!--"))
		return find_behind(s, n, i, "-->");
	if (has_prefix(s + i, n - i, "<script"))
		i = find_behind(s, n, i, "</script");
	else if (has_prefix(s + i, n - i, "<style"))
		i = find_behind(s, n, i, "</style");
	return find_behind(s, n, i, ">");
}

size_t
atp_strip_markup(char *s, size_t n)
{
	size_t		i = 0;
	size_t		len = 0;
	bool		apart = false;	/* something was skipped since the last byte of text */

	while (i < n && is_space(s[i]))
		i++;
	if (i == n || s[i] != '<')
		return n;
	while (i < n)
	{
		if (s[i] == '<')
		{
			i = skip_markup(s, n, i);
			apart = true;
		}
		else if (is_space(s[i]))
		{
			i++;
			apart = true;
		}
		else
		{
			if (apart && len > 0)
				s[len++] = ' ';
			apart = false;
			s[len++] = s[i++];
		}
	}
	return len;
}
