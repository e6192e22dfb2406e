/*
 * json.c
 *		Walks over JSON texts.
 */
#include "json.h"

#include <stdlib.h>
#include <string.h>

bool
slice_is(Slice s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.p, text, s.len) == 0;
}

static void
space(Slice *rest)
{
	while (rest->len > 0 && strchr(" \t\r\n", *rest->p) != NULL && *rest->p != '\0')
		rest->p++, rest->len--;
}

/* Passes spaces, and the byte c, if c is next. */
static bool
take(Slice *rest, char c)
{
	space(rest);
	if (rest->len == 0 || *rest->p != c)
		return false;
	rest->p++;
	rest->len--;
	return true;
}

/* A string, its quotes left out. */
static bool
take_string(Slice *rest, Slice *text)
{
	if (!take(rest, '"'))
		return false;
	text->p = rest->p;
	while (rest->len > 0 && *rest->p != '"')
	{
		size_t		n = *rest->p == '\\' && rest->len > 1 ? 2 : 1;

		rest->p += n;
		rest->len -= n;
	}
	text->len = (size_t) (rest->p - text->p);
	return take(rest, '"');
}

/* Any value: brackets are counted, strings jumped over. */
static bool
take_value(Slice *rest, Slice *value)
{
	size_t		depth = 0;

	space(rest);
	value->p = rest->p;
	while (rest->len > 0)
	{
		char		c = *rest->p;
		Slice		text;

		if (depth == 0 && rest->p > value->p && strchr(",:]} \t\r\n", c) != NULL)
			break;
		if (c == '"')
		{
			if (!take_string(rest, &text))
				return false;
			continue;
		}
		if (c == '{' || c == '[')
			depth++;
		else if (c == '}' || c == ']')
		{
			if (depth == 0)
				break;
			depth--;
		}
		rest->p++;
		rest->len--;
	}
	value->len = (size_t) (rest->p - value->p);
	return value->len > 0 && depth == 0;
}

bool
json_member(Slice object, const char *key, Slice *value)
{
	Slice		name;

	if (!take(&object, '{'))
		return false;
	while (take_string(&object, &name) && take(&object, ':') && take_value(&object, value))
	{
		if (slice_is(name, key))
			return true;
		if (!take(&object, ','))
			return false;
	}
	return false;
}

bool
json_string(Slice object, const char *key, Slice *text)
{
	Slice		value;

	return json_member(object, key, &value) && take_string(&value, text);
}

bool
json_number(Slice object, const char *key, int64_t *number)
{
	Slice		value;
	char		digits[32];
	char	   *end;

	if (!json_member(object, key, &value) || value.len >= sizeof digits)
		return false;
	memcpy(digits, value.p, value.len);
	digits[value.len] = '\0';
	*number = strtoll(digits, &end, 10);
	return end != digits && *end == '\0';
}

bool
json_next_string(Slice *array, Slice *text)
{
	return (take(array, '[') || take(array, ',')) && take_string(array, text);
}
