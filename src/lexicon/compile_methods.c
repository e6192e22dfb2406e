/*
 * compile_methods.c
 *		Checks the methods and permissions in a Lexicon document.  No record has
 *		a type that is defined here, so nothing is compiled.
 *
 * A document that is accepted unread would be valid here and invalid elsewhere (L-07, L-08), and load_lexicon()
 * tells an author what is wrong with a document before anybody else reads it.
 */
#include "postgres.h"

#include "lexicon/compile_private.h"
#include "lexicon/integer.h"

/* Checks an "input" or "output". */
static bool
check_body(AtpLexCompiler *c, AtpLexObject o, const char *name)
{
	AtpJsonPath place;
	AtpLexObject body;
	AtpSpan		encoding = {NULL, 0};
	AtpSpan		unused;
	AtpLexNode *node;
	JsonbValue	v;

	if (!atp_lex_get_object(c, o, &place, name, &body))
		return false;
	if (body.members == NULL)
		return true;
	if (!atp_lex_get_text(c, body, "description", &unused) || !atp_lex_get_text(c, body, "encoding", &encoding))
		return false;
	if (encoding.ptr == NULL)
		return atp_lex_fail_member(c, body, "encoding", "is lacking.");
	return !atp_lex_get(body, "schema", &v) || atp_lex_compile_member(c, body, "schema", AS_BODY, &node);
}

static bool
check_error(AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place)
{
	AtpLexObject error = {NULL, place};
	AtpSpan		name = {NULL, 0};
	AtpSpan		unused;

	if (!atp_lex_is_object(v))
		return atp_lex_fail(c, place, "is no object.");
	error.members = v->val.binary.data;
	if (!atp_lex_get_text(c, error, "name", &name) || !atp_lex_get_text(c, error, "description", &unused))
		return false;
	return name.ptr != NULL || atp_lex_fail_member(c, error, "name", "is lacking.");
}

/* L-07: checks a query, procedure or subscription. */
bool
atp_lex_check_method(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	AtpJsonPath place;
	AtpLexObject message;
	AtpSpan		unused;
	AtpLexNode *ignored;
	JsonbValue	v;

	if ((atp_lex_get(o, "parameters", &v) && !atp_lex_compile_member(c, o, "parameters", AS_PARAMETERS, &ignored)) ||
		!atp_lex_each_element(c, o, "errors", check_error))
		return false;
	if (node->type != ATP_LEX_SUBSCRIPTION)
		return check_body(c, o, "output") && (node->type == ATP_LEX_QUERY || check_body(c, o, "input"));
	if (!atp_lex_get_object(c, o, &place, "message", &message))
		return false;
	return message.members == NULL ||
		(atp_lex_get_text(c, message, "description", &unused) && atp_lex_compile_member(c, message, "schema", AS_MESSAGE, &ignored));
}

/* A text, boolean or integer. */
static bool
is_scalar(const JsonbValue *v)
{
	int64		unused;

	return v->type == jbvString || v->type == jbvBool || (v->type == jbvNumeric && atp_integer(v->val.numeric, &unused));
}

/* L-08: checks one field of a permission. */
static bool
check_permission_field(AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to)
{
	bool		scalars = atp_lex_is_array(v) || is_scalar(v);

	for (int i = 0; scalars && atp_lex_is_array(v) && i < JsonContainerSize(v->val.binary.data); i++)
		scalars = is_scalar(getIthJsonbValueFromContainer(v->val.binary.data, i));
	return scalars || atp_lex_fail(c, place, "is neither text, integer nor boolean, nor an array of these.");
}

static bool
check_permission(AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place)
{
	AtpLexObject permission = {NULL, place};
	AtpSpan		type = {NULL, 0};
	AtpSpan		resource = {NULL, 0};

	if (!atp_lex_is_object(v))
		return atp_lex_fail(c, place, "is no object.");
	permission.members = v->val.binary.data;
	if (!atp_lex_get_text(c, permission, "type", &type) || !atp_lex_get_text(c, permission, "resource", &resource))
		return false;
	if (type.ptr == NULL || !atp_span_is(type, "permission"))
		return atp_lex_fail_member(c, permission, "type", "is not \"permission\".");
	if (resource.len == 0)
		return atp_lex_fail_member(c, permission, "resource", "is lacking.");
	return atp_lex_each_member(c, permission, NULL, check_permission_field);
}

static bool
check_translation(AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to)
{
	size_t		at;

	if (atp_lex_format_check(ATP_LEX_LANGUAGE, name.ptr, name.len, &at) != ATP_OK)
		return atp_lex_fail(c, place, "is under a name that is no language.");
	return v->type == jbvString || atp_lex_fail(c, place, "is no string.");
}

bool
atp_lex_check_permission_set(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	static const char *const texts[] = {"title", "detail"};
	static const char *const translations[] = {"title:lang", "detail:lang"};
	JsonbValue	v;

	for (int i = 0; i < lengthof(texts); i++)
	{
		AtpJsonPath place;
		AtpLexObject lang;
		AtpSpan		unused;

		if (!atp_lex_get_text(c, o, texts[i], &unused) || !atp_lex_get_object(c, o, &place, translations[i], &lang))
			return false;
		if (lang.members != NULL && !atp_lex_each_member(c, lang, NULL, check_translation))
			return false;
	}
	if (!atp_lex_get(o, "permissions", &v))
		return atp_lex_fail_member(c, o, "permissions", "is lacking.");
	return atp_lex_each_element(c, o, "permissions", check_permission);
}
