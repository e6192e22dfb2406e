/*
 * compile.c
 *		Lexicon documents: what one may say, and what it says.
 *
 * Fields that the language does not know are allowed everywhere, as in records.
 */
#include "postgres.h"

#include "compat.h"
#include "core/nsid.h"
#include "core/recordkey.h"
#include "lexicon/compile.h"
#include "lexicon/fault.h"
#include "lexicon/integer.h"
#include "miscadmin.h"

/* Types in types; a document of the network has less than ten. */
#define DEPTH_MAX	64

typedef struct Compiler
{
	char	   *fault;
	AtpSpan		id;
	JsonbContainer *defs;
	int			depth;
} Compiler;

/* A value of the document that has members, and its place. */
typedef struct Object
{
	JsonbContainer *members;
	const AtpPlace *place;
} Object;

/* Where types stand. */
#define AS_DEF			0x01
#define AS_MAIN			0x02
#define AS_FIELD		0x04
#define AS_PARAMETER	0x08
#define AS_ITEM			0x10	/* of an array that is a parameter */
#define AS_RECORD		0x20
#define AS_PARAMETERS	0x40
#define AS_BODY			0x80
#define AS_MESSAGE		0x100

static bool compile_type(Compiler *c, const JsonbValue *v, const AtpPlace *place, unsigned as, AtpLexNode **node);

static bool
fail(Compiler *c, const AtpPlace *place, const char *what)
{
	c->fault = atp_fault(place, "%s", what);
	return false;
}

static bool
fail_member(Compiler *c, Object o, const char *name, const char *what)
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));

	return fail(c, &place, what);
}

static AtpSpan
copy_text(const JsonbValue *v)
{
	char	   *copy = palloc(v->val.string.len + 1);

	memcpy(copy, v->val.string.val, v->val.string.len);
	return (AtpSpan) {copy, v->val.string.len};
}

static bool
is_object(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data);
}

static bool
is_array(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data);
}

static bool
get(Object o, const char *name, JsonbValue *v)
{
	return getKeyJsonValueFromContainer(o.members, name, strlen(name), v) != NULL;
}

/* Members that may be absent: the value is then left as it is. */

static bool
get_text(Compiler *c, Object o, const char *name, AtpSpan *text)
{
	JsonbValue	v;

	if (!get(o, name, &v))
		return true;
	if (v.type != jbvString)
		return fail_member(c, o, name, "is no string.");
	*text = copy_text(&v);
	return true;
}

static bool
get_bool(Compiler *c, Object o, const char *name, bool *value, bool *found)
{
	JsonbValue	v;

	*found = get(o, name, &v);
	if (!*found)
		return true;
	if (v.type != jbvBool)
		return fail_member(c, o, name, "is no boolean.");
	*value = v.val.boolean;
	return true;
}

static bool
get_integer(Compiler *c, Object o, const char *name, int64 *value, bool *found)
{
	JsonbValue	v;

	*found = get(o, name, &v);
	if (!*found)
		return true;
	if (v.type != jbvNumeric || !atp_integer(v.val.numeric, value))
		return fail_member(c, o, name, "is no integer.");
	return true;
}

/* L-05: what is about a number of things. */
static bool
get_range(Compiler *c, Object o, const char *low, int64 *minimum, const char *high, int64 *maximum)
{
	bool		found[2];

	if (!get_integer(c, o, low, minimum, &found[0]) || !get_integer(c, o, high, maximum, &found[1]))
		return false;
	if (found[0] && *minimum < 0)
		return fail_member(c, o, low, "is negative.");
	if (found[1] && *maximum < 0)
		return fail_member(c, o, high, "is negative.");
	if (*minimum > *maximum)
		return fail_member(c, o, low, "is greater than the maximum.");
	return true;
}

static bool
get_texts(Compiler *c, Object o, const char *name, AtpSpan **texts, int *n)
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbValue	v;

	if (!get(o, name, &v))
		return true;
	if (!is_array(&v))
		return fail(c, &place, "is no array.");
	*n = JsonContainerSize(v.val.binary.data);
	*texts = palloc(sizeof(AtpSpan) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		AtpPlace	element = atp_element(&place, i);
		JsonbValue *text = getIthJsonbValueFromContainer(v.val.binary.data, i);

		if (text->type != jbvString)
			return fail(c, &element, "is no string.");
		(*texts)[i] = copy_text(text);
		pfree(text);
	}
	return true;
}

static bool
get_object(Compiler *c, Object o, AtpPlace *place, const char *name, Object *member)
{
	JsonbValue	v;

	*member = (Object) {NULL, place};
	*place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	if (!get(o, name, &v))
		return true;
	if (!is_object(&v))
		return fail(c, place, "is no object.");
	member->members = v.val.binary.data;
	return true;
}

/* Call for each member; a fault ends it. */
static bool
each_member(Compiler *c, Object o, void *to, bool (*each) (Compiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to))
{
	JsonbIterator *it = JsonbIteratorInit(o.members);
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {"", 0}));
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

/* Likewise for the elements of an array that may be absent. */
static bool
each_element(Compiler *c, Object o, const char *name, bool (*each) (Compiler *c, const JsonbValue *v, const AtpPlace *place))
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	v;
	AtpPlace	element = atp_element(&place, 0);

	if (!get(o, name, &v))
		return true;
	if (!is_array(&v))
		return fail(c, &place, "is no array.");
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

/* jsonb's order of keys */
static int
key_order(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return a.len == 0 ? 0 : memcmp(a.ptr, b.ptr, a.len);
}

/* Whatever begins with a name. */
static int
compare_names(const void *a, const void *b)
{
	return key_order(*(const AtpSpan *) a, *(const AtpSpan *) b);
}

static int
compare_refs(const void *a, const void *b)
{
	const AtpLexRef *x = a;
	const AtpLexRef *y = b;
	int			order = key_order(x->id, y->id);

	return order != 0 ? order : key_order(x->name, y->name);
}

static int
compare_integers(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return (x > y) - (x < y);
}

/* What a value is that the document leaves no choice about. */
static bool
check_default(Compiler *c, Object o, bool has_const, bool has_default)
{
	if (has_const && has_default)
		return fail_member(c, o, "default", "stands beside \"const\".");
	return true;
}

static bool
compile_nothing(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	return true;
}

static bool
compile_boolean(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	bool		constant;
	bool		unused;
	bool		found[2];

	if (!get_bool(c, o, "const", &constant, &found[0]) || !get_bool(c, o, "default", &unused, &found[1]) ||
		!check_default(c, o, found[0], found[1]))
		return false;
	node->minimum = found[0] ? constant : 0;
	node->maximum = found[0] ? constant : 1;
	return true;
}

static bool
compile_integers(Compiler *c, Object o, AtpLexNode *node)
{
	JsonbValue	v;
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {"enum", 4}));

	if (!get(o, "enum", &v))
		return true;
	if (!is_array(&v))
		return fail(c, &place, "is no array.");
	node->n = JsonContainerSize(v.val.binary.data);
	node->integers = palloc(sizeof(int64) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
	{
		AtpPlace	element = atp_element(&place, i);
		JsonbValue *number = getIthJsonbValueFromContainer(v.val.binary.data, i);

		if (number->type != jbvNumeric || !atp_integer(number->val.numeric, &node->integers[i]))
			return fail(c, &element, "is no integer.");
		pfree(number);
	}
	qsort(node->integers, node->n, sizeof(int64), compare_integers);
	return true;
}

static bool
compile_integer(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	int64		constant;
	int64		unused;
	bool		found[2];

	if (!get_integer(c, o, "minimum", &node->minimum, &found[0]) || !get_integer(c, o, "maximum", &node->maximum, &found[0]) ||
		!compile_integers(c, o, node) ||
		!get_integer(c, o, "const", &constant, &found[0]) || !get_integer(c, o, "default", &unused, &found[1]) ||
		!check_default(c, o, found[0], found[1]))
		return false;
	if (node->minimum > node->maximum)
		return fail_member(c, o, "minimum", "is greater than the maximum.");
	if (found[0])
	{
		/* it has to keep what else is asked for, too */
		node->minimum = Max(node->minimum, constant);
		node->maximum = Min(node->maximum, constant);
	}
	return true;
}

static bool
compile_string(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	AtpSpan		format = {NULL, 0};
	AtpSpan		constant = {NULL, 0};
	AtpSpan		standard = {NULL, 0};
	AtpSpan    *known = NULL;
	int			unused;

	if (!get_text(c, o, "format", &format) ||
		!get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum) ||
		!get_range(c, o, "minGraphemes", &node->min_graphemes, "maxGraphemes", &node->max_graphemes) ||
		!get_texts(c, o, "enum", &node->texts, &node->n) ||
		!get_texts(c, o, "knownValues", &known, &unused) ||
		!get_text(c, o, "const", &constant) || !get_text(c, o, "default", &standard) ||
		!check_default(c, o, constant.ptr != NULL, standard.ptr != NULL))
		return false;
	if (format.ptr != NULL)
	{
		node->format = atp_lex_format_named(format);
		if (node->format == ATP_LEX_FORMATS)
			return fail_member(c, o, "format", "is no format of strings.");
	}
	if (constant.ptr != NULL)
	{
		node->n = 1;
		node->texts = palloc(sizeof(AtpSpan));
		node->texts[0] = constant;
	}
	if (node->texts != NULL)
		qsort(node->texts, node->n, sizeof(AtpSpan), compare_names);
	return true;
}

static bool
compile_bytes(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	return get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum);
}

static bool
compile_blob(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	bool		found;

	if (!get_texts(c, o, "accept", &node->texts, &node->n) || !get_integer(c, o, "maxSize", &node->maximum, &found))
		return false;
	if (node->n > ATP_LEX_ACCEPT_MAX)
		return fail_member(c, o, "accept", "has more than " CppAsString2(ATP_LEX_ACCEPT_MAX) " patterns.");
	return node->maximum >= 0 || fail_member(c, o, "maxSize", "is negative.");
}

static bool
compile_member(Compiler *c, Object o, const char *name, unsigned as, AtpLexNode **node)
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbValue	v;

	if (!get(o, name, &v))
		return fail(c, &place, "is lacking.");
	return compile_type(c, &v, &place, as, node);
}

static bool
compile_array(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	return get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum) &&
		compile_member(c, o, "items", as & AS_PARAMETER ? AS_ITEM : AS_FIELD, &node->child);
}

static bool
compile_property(Compiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to)
{
	AtpLexNode *object = to;
	AtpLexProperty *property = &object->properties[object->n];
	char	   *copy = palloc(name.len + 1);

	memcpy(copy, name.ptr, name.len);
	*property = (AtpLexProperty) {{copy, name.len}, NULL, false, false};
	object->n++;
	return compile_type(c, v, place, object->type == ATP_LEX_PARAMS ? AS_PARAMETER : AS_FIELD, &property->node);
}

/* L-04 */
static bool
compile_object(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	AtpPlace	place;
	Object		properties;
	AtpSpan    *names = NULL;
	int			n = 0;

	if (!get_object(c, o, &place, "properties", &properties))
		return false;
	if (properties.members == NULL)
		return fail(c, &place, "is lacking.");
	node->properties = palloc(sizeof(AtpLexProperty) * Max(JsonContainerSize(properties.members), 1));
	if (!each_member(c, properties, node, compile_property) || !get_texts(c, o, "required", &names, &n))
		return false;
	for (int i = 0; i < n; i++)
	{
		AtpLexProperty *property = atp_lexicon_property(node, names[i]);

		if (property == NULL)
			return fail_member(c, o, "required", "names a property that there is not.");
		property->required = true;
	}
	/* each once, however often it was named */
	node->required = palloc(sizeof(int) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
		if (node->properties[i].required)
			node->required[node->nrequired++] = i;
	n = 0;
	if (!get_texts(c, o, "nullable", &names, &n))
		return false;
	for (int i = 0; i < n; i++)
	{
		AtpLexProperty *property = atp_lexicon_property(node, names[i]);

		if (property == NULL)
			return fail_member(c, o, "nullable", "names a property that there is not.");
		property->nullable = true;
	}
	return true;
}

/* L-06: "#name", "NSID" or "NSID#name" */
static bool
compile_reference(Compiler *c, AtpSpan text, const AtpPlace *place, AtpLexRef *ref)
{
	const char *hash = text.len > 0 ? memchr(text.ptr, '#', text.len) : NULL;
	size_t		id = hash != NULL ? (size_t) (hash - text.ptr) : text.len;
	JsonbValue	v;
	size_t		at;

	ref->target = NULL;
	ref->id = id > 0 ? (AtpSpan) {text.ptr, id} : c->id;
	ref->name = hash != NULL ? (AtpSpan) {hash + 1, text.len - id - 1} : (AtpSpan) {"main", 4};
	if ((id > 0 && atp_nsid_check(text.ptr, id, &at) != ATP_OK) || ref->name.len == 0 || text.len == 0)
		return fail(c, place, "is no reference.");
	if (key_order(ref->id, c->id) == 0 &&
		getKeyJsonValueFromContainer(c->defs, ref->name.ptr, ref->name.len, &v) == NULL)
		return fail(c, place, "refers to a definition that there is not.");
	return true;
}

static bool
compile_ref(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {"ref", 3}));
	AtpSpan		text = {NULL, 0};

	if (!get_text(c, o, "ref", &text))
		return false;
	if (text.ptr == NULL)
		return fail(c, &place, "is lacking.");
	node->n = 1;
	node->refs = palloc(sizeof(AtpLexRef));
	return compile_reference(c, text, &place, node->refs);
}

static bool
compile_union(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	AtpPlace	place = atp_member(o.place, ((AtpSpan) {"refs", 4}));
	AtpSpan    *texts = NULL;
	bool		found;

	if (!get_texts(c, o, "refs", &texts, &node->n) || !get_bool(c, o, "closed", &node->closed, &found))
		return false;
	if (texts == NULL)
		return fail(c, &place, "is lacking.");
	if (node->closed && node->n == 0)
		return fail(c, &place, "is empty, and the union closed.");
	node->refs = palloc(sizeof(AtpLexRef) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
	{
		AtpPlace	element = atp_element(&place, i);

		if (!compile_reference(c, texts[i], &element, &node->refs[i]))
			return false;
	}
	qsort(node->refs, node->n, sizeof(AtpLexRef), compare_refs);
	return true;
}

/* L-03, K-07 */
static bool
compile_record(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	size_t		at;

	if (!get_text(c, o, "key", &node->key))
		return false;
	if (node->key.ptr == NULL)
		return fail_member(c, o, "key", "is lacking.");
	if (atp_rkey_type_check(node->key.ptr, node->key.len, &at) != ATP_OK)
		return fail_member(c, o, "key", "is no kind of record keys.");
	return compile_member(c, o, "record", AS_RECORD, &node->child);
}

/* "input" and "output" */
static bool
check_body(Compiler *c, Object o, const char *name)
{
	AtpPlace	place;
	Object		body;
	AtpSpan		encoding = {NULL, 0};
	AtpSpan		unused;
	AtpLexNode *node;
	JsonbValue	v;

	if (!get_object(c, o, &place, name, &body))
		return false;
	if (body.members == NULL)
		return true;
	if (!get_text(c, body, "description", &unused) || !get_text(c, body, "encoding", &encoding))
		return false;
	if (encoding.ptr == NULL)
		return fail_member(c, body, "encoding", "is lacking.");
	return !get(body, "schema", &v) || compile_member(c, body, "schema", AS_BODY, &node);
}

static bool
check_error(Compiler *c, const JsonbValue *v, const AtpPlace *place)
{
	Object		error = {NULL, place};
	AtpSpan		name = {NULL, 0};
	AtpSpan		unused;

	if (!is_object(v))
		return fail(c, place, "is no object.");
	error.members = v->val.binary.data;
	if (!get_text(c, error, "name", &name) || !get_text(c, error, "description", &unused))
		return false;
	return name.ptr != NULL || fail_member(c, error, "name", "is lacking.");
}

/* L-07: queries, procedures and subscriptions; none of them describes a record. */
static bool
check_method(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	AtpPlace	place;
	Object		message;
	AtpSpan		unused;
	AtpLexNode *ignored;
	JsonbValue	v;

	if ((get(o, "parameters", &v) && !compile_member(c, o, "parameters", AS_PARAMETERS, &ignored)) ||
		!each_element(c, o, "errors", check_error))
		return false;
	if (node->type != ATP_LEX_SUBSCRIPTION)
		return check_body(c, o, "output") && (node->type == ATP_LEX_QUERY || check_body(c, o, "input"));
	if (!get_object(c, o, &place, "message", &message))
		return false;
	return message.members == NULL ||
		(get_text(c, message, "description", &unused) && compile_member(c, message, "schema", AS_MESSAGE, &ignored));
}

/* No fraction, and nothing with members. */
static bool
is_scalar(const JsonbValue *v)
{
	int64		unused;

	return v->type == jbvString || v->type == jbvBool || (v->type == jbvNumeric && atp_integer(v->val.numeric, &unused));
}

/* L-08: what a permission is about. */
static bool
check_permission_field(Compiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to)
{
	bool		scalars = is_array(v) || is_scalar(v);

	for (int i = 0; scalars && is_array(v) && i < JsonContainerSize(v->val.binary.data); i++)
		scalars = is_scalar(getIthJsonbValueFromContainer(v->val.binary.data, i));
	return scalars || fail(c, place, "is neither text, integer nor boolean, nor an array of these.");
}

static bool
check_permission(Compiler *c, const JsonbValue *v, const AtpPlace *place)
{
	Object		permission = {NULL, place};
	AtpSpan		type = {NULL, 0};
	AtpSpan		resource = {NULL, 0};

	if (!is_object(v))
		return fail(c, place, "is no object.");
	permission.members = v->val.binary.data;
	if (!get_text(c, permission, "type", &type) || !get_text(c, permission, "resource", &resource))
		return false;
	if (type.ptr == NULL || !atp_span_is(type, "permission"))
		return fail_member(c, permission, "type", "is not \"permission\".");
	if (resource.len == 0)
		return fail_member(c, permission, "resource", "is lacking.");
	return each_member(c, permission, NULL, check_permission_field);
}

static bool
check_translation(Compiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to)
{
	size_t		at;

	if (atp_lex_format_check(ATP_LEX_LANGUAGE, name.ptr, name.len, &at) != ATP_OK)
		return fail(c, place, "is under a name that is no language.");
	return v->type == jbvString || fail(c, place, "is no string.");
}

static bool
check_permission_set(Compiler *c, Object o, AtpLexNode *node, unsigned as)
{
	static const char *const texts[] = {"title", "detail"};
	static const char *const translations[] = {"title:lang", "detail:lang"};
	JsonbValue	v;

	for (int i = 0; i < lengthof(texts); i++)
	{
		AtpPlace	place;
		Object		lang;
		AtpSpan		unused;

		if (!get_text(c, o, texts[i], &unused) || !get_object(c, o, &place, translations[i], &lang))
			return false;
		if (lang.members != NULL && !each_member(c, lang, NULL, check_translation))
			return false;
	}
	if (!get(o, "permissions", &v))
		return fail_member(c, o, "permissions", "is lacking.");
	return each_element(c, o, "permissions", check_permission);
}

/* L-02: the types, in the order of AtpLexType, and where each may stand. */
static const struct
{
	const char *name;
	unsigned	as;
	bool		(*compile) (Compiler *c, Object o, AtpLexNode *node, unsigned as);
}			types[ATP_LEX_TYPES] = {
	[ATP_LEX_NULL] = {"null", AS_DEF | AS_FIELD, compile_nothing},
	[ATP_LEX_BOOLEAN] = {"boolean", AS_DEF | AS_FIELD | AS_PARAMETER | AS_ITEM, compile_boolean},
	[ATP_LEX_INTEGER] = {"integer", AS_DEF | AS_FIELD | AS_PARAMETER | AS_ITEM, compile_integer},
	[ATP_LEX_STRING] = {"string", AS_DEF | AS_FIELD | AS_PARAMETER | AS_ITEM, compile_string},
	[ATP_LEX_BYTES] = {"bytes", AS_DEF | AS_FIELD, compile_bytes},
	[ATP_LEX_CID_LINK] = {"cid-link", AS_DEF | AS_FIELD, compile_nothing},
	[ATP_LEX_BLOB] = {"blob", AS_DEF | AS_FIELD, compile_blob},
	[ATP_LEX_ARRAY] = {"array", AS_DEF | AS_FIELD | AS_PARAMETER, compile_array},
	[ATP_LEX_OBJECT] = {"object", AS_DEF | AS_FIELD | AS_RECORD | AS_BODY, compile_object},
	[ATP_LEX_TOKEN] = {"token", AS_DEF, compile_nothing},
	[ATP_LEX_REF] = {"ref", AS_FIELD | AS_BODY, compile_ref},
	[ATP_LEX_UNION] = {"union", AS_FIELD | AS_BODY | AS_MESSAGE, compile_union},
	[ATP_LEX_UNKNOWN] = {"unknown", AS_FIELD | AS_PARAMETER | AS_ITEM, compile_nothing},
	[ATP_LEX_PARAMS] = {"params", AS_PARAMETERS, compile_object},
	[ATP_LEX_RECORD] = {"record", AS_MAIN, compile_record},
	[ATP_LEX_QUERY] = {"query", AS_MAIN, check_method},
	[ATP_LEX_PROCEDURE] = {"procedure", AS_MAIN, check_method},
	[ATP_LEX_SUBSCRIPTION] = {"subscription", AS_MAIN, check_method},
	[ATP_LEX_PERMISSION_SET] = {"permission-set", AS_MAIN, check_permission_set},
};

static bool
compile_type(Compiler *c, const JsonbValue *v, const AtpPlace *place, unsigned as, AtpLexNode **node)
{
	Object		o = {NULL, place};
	AtpSpan		name = {NULL, 0};
	AtpSpan		unused;
	int			type = 0;
	bool		compiled;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (!is_object(v))
		return fail(c, place, "is no object.");
	o.members = v->val.binary.data;
	if (!get_text(c, o, "type", &name) || !get_text(c, o, "description", &unused))
		return false;
	if (name.ptr == NULL)
		return fail_member(c, o, "type", "is lacking.");
	while (type < ATP_LEX_TYPES && !atp_span_is(name, types[type].name))
		type++;
	if (type == ATP_LEX_TYPES)
		return fail_member(c, o, "type", "is no type.");
	if ((types[type].as & as) == 0)
		return fail_member(c, o, "type", "is no type for this place.");
	if (c->depth >= DEPTH_MAX)
		return fail(c, place, "is too deep.");
	*node = palloc0(sizeof(AtpLexNode));
	(*node)->type = (AtpLexType) type;
	(*node)->minimum = PG_INT64_MIN;
	(*node)->maximum = PG_INT64_MAX;
	(*node)->max_graphemes = PG_INT64_MAX;
	c->depth++;
	compiled = types[type].compile(c, o, *node, as);
	c->depth--;
	return compiled;
}

static bool
compile_def(Compiler *c, AtpSpan name, const JsonbValue *v, const AtpPlace *place, void *to)
{
	AtpLexDoc  *doc = to;
	AtpLexDef  *def = &doc->defs[doc->n++];
	char	   *copy = palloc(name.len + 1);

	memcpy(copy, name.ptr, name.len);
	def->name = (AtpSpan) {copy, name.len};
	if (!compile_type(c, v, place, atp_span_is(name, "main") ? AS_DEF | AS_MAIN : AS_DEF, &def->node))
		return false;
	if (def->node->type == ATP_LEX_TOKEN)
	{
		char	   *token = palloc(c->id.len + 1 + name.len);

		memcpy(token, c->id.ptr, c->id.len);
		token[c->id.len] = '#';
		memcpy(token + c->id.len + 1, name.ptr, name.len);
		/* as a reference to it is written */
		def->node->name = (AtpSpan) {token, atp_span_is(name, "main") ? c->id.len : c->id.len + 1 + name.len};
	}
	return true;
}

/* L-01 */
static bool
compile_document(Compiler *c, Object o, AtpLexDoc *doc)
{
	AtpPlace	place;
	Object		defs;
	AtpSpan		unused;
	int64		version = 0;
	bool		found;
	size_t		at;

	if (!get_integer(c, o, "lexicon", &version, &found))
		return false;
	if (version != 1)
		return fail_member(c, o, "lexicon", "is not 1, the version of the language.");
	if (!get_text(c, o, "id", &c->id))
		return false;
	if (c->id.ptr == NULL || atp_nsid_check(c->id.ptr, c->id.len, &at) != ATP_OK)
		return fail_member(c, o, "id", "is no NSID.");
	if (!get_text(c, o, "description", &unused) || !get_object(c, o, &place, "defs", &defs))
		return false;
	if (defs.members == NULL || JsonContainerSize(defs.members) == 0)
		return fail(c, &place, "is lacking.");
	c->defs = defs.members;
	doc->id = c->id;
	doc->defs = palloc(sizeof(AtpLexDef) * JsonContainerSize(defs.members));
	return each_member(c, defs, doc, compile_def);
}

AtpLexDoc *
atp_lexicon_compile(Jsonb *doc, char **fault)
{
	Compiler	c = {NULL};
	AtpLexDoc  *compiled = palloc0(sizeof(AtpLexDoc));
	Object		o = {&doc->root, NULL};

	*fault = NULL;
	if (!JB_ROOT_IS_OBJECT(doc))
		*fault = atp_fault(NULL, "is no object.");
	else if (VARSIZE(doc) > ATP_LEX_DOC_MAX)
		*fault = atp_fault(NULL, "has more than %d bytes.", ATP_LEX_DOC_MAX);
	else if (!compile_document(&c, o, compiled))
		*fault = c.fault;
	return *fault == NULL ? compiled : NULL;
}

const AtpLexNode *
atp_lexicon_def(const AtpLexDoc *doc, AtpSpan name)
{
	const AtpLexDef *def = bsearch(&name, doc->defs, doc->n, sizeof(AtpLexDef), compare_names);

	return def == NULL ? NULL : def->node;
}

AtpLexProperty *
atp_lexicon_property(const AtpLexNode *object, AtpSpan name)
{
	return bsearch(&name, object->properties, object->n, sizeof(AtpLexProperty), compare_names);
}

/* L-30: a type is named as a reference to it is written, with "#main" left out */
AtpLexRef *
atp_lexicon_named(const AtpLexNode *node, AtpSpan type)
{
	const char *hash = memchr(type.ptr, '#', type.len);
	AtpLexRef	ref = {type, {"main", 4}};

	if (hash != NULL)
	{
		ref.id.len = hash - type.ptr;
		ref.name = (AtpSpan) {hash + 1, type.len - ref.id.len - 1};
		if (atp_span_is(ref.name, "main"))
			return NULL;
	}
	return bsearch(&ref, node->refs, node->n, sizeof(AtpLexRef), compare_refs);
}

bool
atp_lexicon_has_text(const AtpLexNode *node, AtpSpan text)
{
	return bsearch(&text, node->texts, node->n, sizeof(AtpSpan), compare_names) != NULL;
}

bool
atp_lexicon_has_integer(const AtpLexNode *node, int64 value)
{
	return bsearch(&value, node->integers, node->n, sizeof(int64), compare_integers) != NULL;
}
