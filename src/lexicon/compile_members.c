/*
 * compile_members.c
 *		Reads members of a Lexicon document as values of the expected type.  An
 *		absent member leaves the result unchanged; a member of another type is a
 *		fault of the document.
 */
#include "postgres.h"

#include "lexicon/compile_private.h"
#include "lexicon/violation.h"
#include "lexicon/integer.h"

bool
atp_lex_fail(AtpLexCompiler *c, const AtpJsonPath *place, const char *what)
{
	c->fault = atp_violation(place, "%s", what);
	return false;
}

bool
atp_lex_fail_member(AtpLexCompiler *c, AtpLexObject o, const char *name, const char *what)
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));

	return atp_lex_fail(c, &place, what);
}

AtpSpan
atp_lex_copy_span(AtpSpan span)
{
	char	   *copy = palloc(span.len + 1);

	memcpy(copy, span.ptr, span.len);
	return (AtpSpan) {copy, span.len};
}

static AtpSpan
copy_text(const JsonbValue *v)
{
	return atp_lex_copy_span((AtpSpan) {v->val.string.val, v->val.string.len});
}

bool
atp_lex_is_object(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data);
}

bool
atp_lex_is_array(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data);
}

bool
atp_lex_get(AtpLexObject o, const char *name, JsonbValue *v)
{
	return getKeyJsonValueFromContainer(o.members, name, strlen(name), v) != NULL;
}

/* Members that may be absent: then the result is left unchanged. */

bool
atp_lex_get_text(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan *text)
{
	JsonbValue	v;

	if (!atp_lex_get(o, name, &v))
		return true;
	if (v.type != jbvString)
		return atp_lex_fail_member(c, o, name, "is no string.");
	*text = copy_text(&v);
	return true;
}

bool
atp_lex_get_bool(AtpLexCompiler *c, AtpLexObject o, const char *name, bool *value, bool *found)
{
	JsonbValue	v;

	*found = atp_lex_get(o, name, &v);
	if (!*found)
		return true;
	if (v.type != jbvBool)
		return atp_lex_fail_member(c, o, name, "is no boolean.");
	*value = v.val.boolean;
	return true;
}

bool
atp_lex_get_integer(AtpLexCompiler *c, AtpLexObject o, const char *name, int64 *value, bool *found)
{
	JsonbValue	v;

	*found = atp_lex_get(o, name, &v);
	if (!*found)
		return true;
	if (v.type != jbvNumeric || !atp_integer(v.val.numeric, value))
		return atp_lex_fail_member(c, o, name, "is no integer.");
	return true;
}

/* L-05: reads a minimum and a maximum number of things, which must not be negative. */
bool
atp_lex_get_range(AtpLexCompiler *c, AtpLexObject o, const char *low, int64 *minimum, const char *high, int64 *maximum)
{
	bool		found[2];

	if (!atp_lex_get_integer(c, o, low, minimum, &found[0]) || !atp_lex_get_integer(c, o, high, maximum, &found[1]))
		return false;
	if (found[0] && *minimum < 0)
		return atp_lex_fail_member(c, o, low, "is negative.");
	if (found[1] && *maximum < 0)
		return atp_lex_fail_member(c, o, high, "is negative.");
	if (*minimum > *maximum)
		return atp_lex_fail_member(c, o, low, "is greater than the maximum.");
	return true;
}

bool
atp_lex_get_texts(AtpLexCompiler *c, AtpLexObject o, const char *name, AtpSpan **texts, int *n)
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbValue	v;

	if (!atp_lex_get(o, name, &v))
		return true;
	if (!atp_lex_is_array(&v))
		return atp_lex_fail(c, &place, "is no array.");
	*n = JsonContainerSize(v.val.binary.data);
	*texts = palloc(sizeof(AtpSpan) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		AtpJsonPath element = atp_element(&place, i);
		JsonbValue *text = getIthJsonbValueFromContainer(v.val.binary.data, i);

		if (text->type != jbvString)
			return atp_lex_fail(c, &element, "is no string.");
		(*texts)[i] = copy_text(text);
		pfree(text);
	}
	return true;
}

bool
atp_lex_get_object(AtpLexCompiler *c, AtpLexObject o, AtpJsonPath *place, const char *name, AtpLexObject *member)
{
	JsonbValue	v;

	*member = (AtpLexObject) {NULL, place};
	*place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	if (!atp_lex_get(o, name, &v))
		return true;
	if (!atp_lex_is_object(&v))
		return atp_lex_fail(c, place, "is no object.");
	member->members = v.val.binary.data;
	return true;
}

/* Calls each() for each member of an object, and ends at the first fault. */
bool
atp_lex_each_member(AtpLexCompiler *c, AtpLexObject o, void *to, bool (*each) (AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to))
{
	JsonbIterator *it = JsonbIteratorInit(o.members);
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {"", 0}));
	JsonbIteratorToken token;
	JsonbValue	v;

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			place.name = (AtpSpan) {v.val.string.val, v.val.string.len};
		if (token == WJB_VALUE && !each(c, place.name, &v, &place, to))
			return false;
	}
	return true;
}

/* Calls each() for each element of an array, which may be absent, and ends at the first fault. */
bool
atp_lex_each_element(AtpLexCompiler *c, AtpLexObject o, const char *name, bool (*each) (AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place))
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	AtpJsonPath element = atp_element(&place, 0);

	if (!atp_lex_get(o, name, &v))
		return true;
	if (!atp_lex_is_array(&v))
		return atp_lex_fail(c, &place, "is no array.");
	it = JsonbIteratorInit(v.val.binary.data);
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		if (!each(c, &v, &element))
			return false;
		element.element++;
	}
	return true;
}
