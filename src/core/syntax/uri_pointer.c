/*
 * uri_pointer.c
 *		The fragment of a URI as a JSON Pointer (D19, RFC 6901 section 6).
 */
#include "core/syntax/uri_private.h"

/* The next character of a valid fragment, %HH decoded. */
static char
next_char(AtpSpan fragment, size_t *pos)
{
	const char *p = fragment.ptr + *pos;

	if (*p != '%')
	{
		*pos += 1;
		return *p;
	}
	*pos += 3;
	return atp_triplet_value(p);
}

bool
atp_uri_pointer_next(AtpSpan fragment, size_t *pos, char *token, size_t *len,
					 AtpErr *err, size_t *at)
{
	size_t		n = 0;

	*err = ATP_OK;
	if (fragment.len == 0 || *pos > fragment.len)
		return false;
	if (*pos == 0)
		*pos = 1;				/* the first '/' */
	for (;;)
	{
		size_t		start = *pos;
		char		c;

		if (start == fragment.len)
		{
			*pos = fragment.len + 1;
			break;
		}
		c = next_char(fragment, pos);
		if (c == '/')
			break;
		if (c == '~')
		{
			c = *pos < fragment.len ? next_char(fragment, pos) : '\0';
			if (c != '0' && c != '1')
			{
				*err = atp_fail(ATP_E_URI_POINTER, start, at);
				return false;
			}
			c = c == '0' ? '~' : '/';
		}
		token[n++] = c;
	}
	*len = n;
	return true;
}
