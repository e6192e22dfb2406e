/*
 * violation.c
 *		Builds the sentence about a fault in a value, with its place: see
 *		violation.h.
 */
#include "postgres.h"

#include "lexicon/violation.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"

static void
put_place(StringInfo out, const AtpJsonPath *place)
{
	check_stack_depth();
	if (place == NULL)
		return;
	put_place(out, place->up);
	appendStringInfoChar(out, '/');
	if (place->name.ptr == NULL)
	{
		appendStringInfo(out, "%u", place->element);
		return;
	}
	for (size_t i = 0; i < place->name.len; i++)
	{
		char		c = place->name.ptr[i];

		if (c == '~' || c == '/')
			appendStringInfoString(out, c == '~' ? "~0" : "~1");
		else
			appendStringInfoChar(out, c);
	}
}

char *
atp_violation(const AtpJsonPath *place, const char *format, ...)
{
	StringInfoData out;
	va_list		args;
	int			needed;

	initStringInfo(&out);
	appendStringInfoChar(&out, '"');
	put_place(&out, place);
	appendStringInfoString(&out, "\" ");
	do
	{
		va_start(args, format);
		needed = appendStringInfoVA(&out, format, args);
		va_end(args);
		if (needed > 0)
			enlargeStringInfo(&out, needed);
	} while (needed > 0);
	return out.data;
}
