/*
 * compile.c
 *		Compiles a Lexicon document: checks the document, and builds the nodes
 *		that judge.c walks.  Fields that the language does not define are
 *		allowed everywhere, as in records.  Methods and permissions are checked
 *		in compile_methods.c.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "lexicon/compile.h"
#include "lexicon/compile_private.h"
#include "lexicon/violation.h"
#include "lexicon/integer.h"
#include "miscadmin.h"

/* Levels of nested types; documents of the network have fewer than ten. */
#define DEPTH_MAX	64

static bool compile_type(AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place, unsigned as, AtpLexNode **node);

/* The order of keys in jsonb: by length, then bytes. */
static int
key_order(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return a.len == 0 ? 0 : memcmp(a.ptr, b.ptr, a.len);
}

/* Compares elements that begin with a name, an AtpSpan. */
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

/* L-05: "const" and "default" exclude each other. */
static bool
check_default(AtpLexCompiler *c, AtpLexObject o, bool has_const, bool has_default)
{
	if (has_const && has_default)
		return atp_lex_fail_member(c, o, "default", "stands beside \"const\".");
	return true;
}

static bool
compile_nothing(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	return true;
}

static bool
compile_boolean(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	bool		constant = false;
	bool		unused;
	bool		found[2];

	if (!atp_lex_get_bool(c, o, "const", &constant, &found[0]) || !atp_lex_get_bool(c, o, "default", &unused, &found[1]) ||
		!check_default(c, o, found[0], found[1]))
		return false;
	node->minimum = found[0] ? constant : 0;
	node->maximum = found[0] ? constant : 1;
	return true;
}

static bool
compile_integers(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node)
{
	JsonbValue	v;
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {"enum", 4}));

	if (!atp_lex_get(o, "enum", &v))
		return true;
	if (!atp_lex_is_array(&v))
		return atp_lex_fail(c, &place, "is no array.");
	node->n = JsonContainerSize(v.val.binary.data);
	node->integers = palloc(sizeof(int64) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
	{
		AtpJsonPath element = atp_element(&place, i);
		JsonbValue *number = getIthJsonbValueFromContainer(v.val.binary.data, i);

		if (number->type != jbvNumeric || !atp_integer(number->val.numeric, &node->integers[i]))
			return atp_lex_fail(c, &element, "is no integer.");
		pfree(number);
	}
	qsort(node->integers, node->n, sizeof(int64), compare_integers);
	return true;
}

static bool
compile_integer(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	int64		constant;
	int64		unused;
	bool		found[2];

	if (!atp_lex_get_integer(c, o, "minimum", &node->minimum, &found[0]) || !atp_lex_get_integer(c, o, "maximum", &node->maximum, &found[0]) ||
		!compile_integers(c, o, node) ||
		!atp_lex_get_integer(c, o, "const", &constant, &found[0]) || !atp_lex_get_integer(c, o, "default", &unused, &found[1]) ||
		!check_default(c, o, found[0], found[1]))
		return false;
	if (node->minimum > node->maximum)
		return atp_lex_fail_member(c, o, "minimum", "is greater than the maximum.");
	if (found[0])
	{
		/* The constant must also obey the other constraints: with a contradiction no integer is valid. */
		node->minimum = Max(node->minimum, constant);
		node->maximum = Min(node->maximum, constant);
	}
	return true;
}

static bool
compile_string(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	AtpSpan		format = {NULL, 0};
	AtpSpan		constant = {NULL, 0};
	AtpSpan		standard = {NULL, 0};
	AtpSpan    *known = NULL;
	int			unused;

	if (!atp_lex_get_text(c, o, "format", &format) ||
		!atp_lex_get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum) ||
		!atp_lex_get_range(c, o, "minGraphemes", &node->min_graphemes, "maxGraphemes", &node->max_graphemes) ||
		!atp_lex_get_texts(c, o, "enum", &node->texts, &node->n) ||
		!atp_lex_get_texts(c, o, "knownValues", &known, &unused) ||
		!atp_lex_get_text(c, o, "const", &constant) || !atp_lex_get_text(c, o, "default", &standard) ||
		!check_default(c, o, constant.ptr != NULL, standard.ptr != NULL))
		return false;
	if (format.ptr != NULL)
	{
		node->format = atp_lex_format_named(format);
		if (node->format == ATP_LEX_FORMATS)
			return atp_lex_fail_member(c, o, "format", "is no format of strings.");
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
compile_bytes(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	return atp_lex_get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum);
}

static bool
compile_blob(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	bool		found;

	if (!atp_lex_get_texts(c, o, "accept", &node->texts, &node->n) || !atp_lex_get_integer(c, o, "maxSize", &node->maximum, &found))
		return false;
	if (node->n > ATP_LEX_ACCEPT_MAX)
		return atp_lex_fail_member(c, o, "accept", "has more than " CppAsString2(ATP_LEX_ACCEPT_MAX) " patterns.");
	return node->maximum >= 0 || atp_lex_fail_member(c, o, "maxSize", "is negative.");
}

bool
atp_lex_compile_member(AtpLexCompiler *c, AtpLexObject o, const char *name, unsigned as, AtpLexNode **node)
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {name, strlen(name)}));
	JsonbValue	v;

	if (!atp_lex_get(o, name, &v))
		return atp_lex_fail(c, &place, "is lacking.");
	return compile_type(c, &v, &place, as, node);
}

static bool
compile_array(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	return atp_lex_get_range(c, o, "minLength", &node->minimum, "maxLength", &node->maximum) &&
		atp_lex_compile_member(c, o, "items", as & AS_PARAMETER ? AS_ITEM : AS_FIELD, &node->child);
}

static bool
compile_property(AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to)
{
	AtpLexNode *object = to;
	AtpLexProperty *property = &object->properties[object->n];

	*property = (AtpLexProperty) {atp_lex_copy_span(name), NULL, false, false};
	object->n++;
	return compile_type(c, v, place, object->type == ATP_LEX_PARAMS ? AS_PARAMETER : AS_FIELD, &property->node);
}

/* L-04 */
static bool
compile_object(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	AtpJsonPath place;
	AtpLexObject properties;
	AtpSpan    *names = NULL;
	int			n = 0;

	if (!atp_lex_get_object(c, o, &place, "properties", &properties))
		return false;
	if (properties.members == NULL)
		return atp_lex_fail(c, &place, "is lacking.");
	node->properties = palloc(sizeof(AtpLexProperty) * Max(JsonContainerSize(properties.members), 1));
	if (!atp_lex_each_member(c, properties, node, compile_property) || !atp_lex_get_texts(c, o, "required", &names, &n))
		return false;
	for (int i = 0; i < n; i++)
	{
		AtpLexProperty *property = atp_lexicon_property(node, names[i]);

		if (property == NULL)
			return atp_lex_fail_member(c, o, "required", "names a property that there is not.");
		property->required = true;
	}
	/* Lists each required property once, even if "required" repeats names. */
	node->required = palloc(sizeof(int) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
		if (node->properties[i].required)
			node->required[node->nrequired++] = i;
	n = 0;
	if (!atp_lex_get_texts(c, o, "nullable", &names, &n))
		return false;
	for (int i = 0; i < n; i++)
	{
		AtpLexProperty *property = atp_lexicon_property(node, names[i]);

		if (property == NULL)
			return atp_lex_fail_member(c, o, "nullable", "names a property that there is not.");
		property->nullable = true;
	}
	return true;
}

/* L-06: "#name", "NSID" or "NSID#name" */
static bool
compile_reference(AtpLexCompiler *c, AtpSpan text, const AtpJsonPath *place, AtpLexRef *ref)
{
	const char *hash = text.len > 0 ? memchr(text.ptr, '#', text.len) : NULL;
	size_t		id = hash != NULL ? (size_t) (hash - text.ptr) : text.len;
	JsonbValue	v;
	size_t		at;

	ref->target = NULL;
	ref->id = id > 0 ? (AtpSpan) {text.ptr, id} : c->id;
	ref->name = hash != NULL ? (AtpSpan) {hash + 1, text.len - id - 1} : (AtpSpan) {"main", 4};
	if ((id > 0 && atp_nsid_check(text.ptr, id, &at) != ATP_OK) || ref->name.len == 0 || text.len == 0)
		return atp_lex_fail(c, place, "is no reference.");
	if (key_order(ref->id, c->id) == 0 &&
		getKeyJsonValueFromContainer(c->defs, ref->name.ptr, ref->name.len, &v) == NULL)
		return atp_lex_fail(c, place, "refers to a definition that there is not.");
	return true;
}

static bool
compile_ref(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {"ref", 3}));
	AtpSpan		text = {NULL, 0};

	if (!atp_lex_get_text(c, o, "ref", &text))
		return false;
	if (text.ptr == NULL)
		return atp_lex_fail(c, &place, "is lacking.");
	node->n = 1;
	node->refs = palloc(sizeof(AtpLexRef));
	return compile_reference(c, text, &place, node->refs);
}

static bool
compile_union(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	AtpJsonPath place = atp_member(o.place, ((AtpSpan) {"refs", 4}));
	AtpSpan    *texts = NULL;
	bool		found;

	if (!atp_lex_get_texts(c, o, "refs", &texts, &node->n) || !atp_lex_get_bool(c, o, "closed", &node->closed, &found))
		return false;
	if (texts == NULL)
		return atp_lex_fail(c, &place, "is lacking.");
	if (node->closed && node->n == 0)
		return atp_lex_fail(c, &place, "is empty, and the union closed.");
	node->refs = palloc(sizeof(AtpLexRef) * Max(node->n, 1));
	for (int i = 0; i < node->n; i++)
	{
		AtpJsonPath element = atp_element(&place, i);

		if (!compile_reference(c, texts[i], &element, &node->refs[i]))
			return false;
	}
	qsort(node->refs, node->n, sizeof(AtpLexRef), compare_refs);
	return true;
}

/* L-03, K-07 */
static bool
compile_record(AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as)
{
	size_t		at;

	if (!atp_lex_get_text(c, o, "key", &node->key))
		return false;
	if (node->key.ptr == NULL)
		return atp_lex_fail_member(c, o, "key", "is lacking.");
	if (atp_rkey_type_check(node->key.ptr, node->key.len, &at) != ATP_OK)
		return atp_lex_fail_member(c, o, "key", "is no kind of record keys.");
	return atp_lex_compile_member(c, o, "record", AS_RECORD, &node->child);
}

/* L-02: the types, in the order of AtpLexType, and the places where each is allowed. */
static const struct
{
	const char *name;
	unsigned	as;
	bool		(*compile) (AtpLexCompiler *c, AtpLexObject o, AtpLexNode *node, unsigned as);
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
	[ATP_LEX_QUERY] = {"query", AS_MAIN, atp_lex_check_method},
	[ATP_LEX_PROCEDURE] = {"procedure", AS_MAIN, atp_lex_check_method},
	[ATP_LEX_SUBSCRIPTION] = {"subscription", AS_MAIN, atp_lex_check_method},
	[ATP_LEX_PERMISSION_SET] = {"permission-set", AS_MAIN, atp_lex_check_permission_set},
	[ATP_LEX_SPACE] = {"space", AS_MAIN, compile_nothing},
};

/* S-04: a definition of a type that this version does not know.  A value for which a Lexicon refers to this definition is not judged (judge_value()). */
static AtpLexNode *
take_unknown(AtpLexCompiler *c, AtpLexObject o)
{
	AtpLexNode *node = palloc0(sizeof(AtpLexNode));

	if (c->unknown == NULL)
	{
		(void) atp_lex_fail_member(c, o, "type", "is no type that this version knows.");
		c->unknown = c->fault;
		c->fault = NULL;
	}
	node->type = ATP_LEX_OTHER;
	return node;
}

static bool
compile_type(AtpLexCompiler *c, const JsonbValue *v, const AtpJsonPath *place, unsigned as, AtpLexNode **node)
{
	AtpLexObject o = {NULL, place};
	AtpSpan		name = {NULL, 0};
	AtpSpan		unused;
	int			type = 0;
	bool		compiled;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	if (!atp_lex_is_object(v))
		return atp_lex_fail(c, place, "is no object.");
	o.members = v->val.binary.data;
	if (!atp_lex_get_text(c, o, "type", &name))
		return false;
	while (name.ptr != NULL && type < ATP_LEX_TYPES && !atp_span_is(name, types[type].name))
		type++;
	if (type == ATP_LEX_TYPES && (as & AS_DEF))
	{
		*node = take_unknown(c, o);
		return true;
	}
	if (!atp_lex_get_text(c, o, "description", &unused))
		return false;
	if (name.ptr == NULL)
		return atp_lex_fail_member(c, o, "type", "is lacking.");
	if (type == ATP_LEX_TYPES)
		return atp_lex_fail_member(c, o, "type", "is no type.");
	if ((types[type].as & as) == 0)
		return atp_lex_fail_member(c, o, "type", "is no type for this place.");
	if (c->depth >= DEPTH_MAX)
		return atp_lex_fail(c, place, "is too deep.");
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
compile_def(AtpLexCompiler *c, AtpSpan name, const JsonbValue *v, const AtpJsonPath *place, void *to)
{
	AtpLexDoc  *doc = to;
	AtpLexDef  *def = &doc->defs[doc->n++];

	def->name = atp_lex_copy_span(name);
	if (!compile_type(c, v, place, atp_span_is(name, "main") ? AS_DEF | AS_MAIN : AS_DEF, &def->node))
		return false;
	if (def->node->type == ATP_LEX_TOKEN)
	{
		char	   *token = palloc(c->id.len + 1 + name.len);

		memcpy(token, c->id.ptr, c->id.len);
		token[c->id.len] = '#';
		memcpy(token + c->id.len + 1, name.ptr, name.len);
		/* A token is named like a reference to it: the definition "main" has only the NSID. */
		def->node->name = (AtpSpan) {token, atp_span_is(name, "main") ? c->id.len : c->id.len + 1 + name.len};
	}
	return true;
}

/* L-01 */
static bool
compile_document(AtpLexCompiler *c, AtpLexObject o, AtpLexDoc *doc)
{
	AtpJsonPath place;
	AtpLexObject defs;
	AtpSpan		unused;
	int64		version = 0;
	bool		found;
	size_t		at;

	if (!atp_lex_get_integer(c, o, "lexicon", &version, &found))
		return false;
	if (version != 1)
		return atp_lex_fail_member(c, o, "lexicon", "is not 1, the version of the language.");
	if (!atp_lex_get_text(c, o, "id", &c->id))
		return false;
	if (c->id.ptr == NULL || atp_nsid_check(c->id.ptr, c->id.len, &at) != ATP_OK)
		return atp_lex_fail_member(c, o, "id", "is no NSID.");
	if (!atp_lex_get_text(c, o, "description", &unused) || !atp_lex_get_object(c, o, &place, "defs", &defs))
		return false;
	if (defs.members == NULL || JsonContainerSize(defs.members) == 0)
		return atp_lex_fail(c, &place, "is lacking.");
	c->defs = defs.members;
	doc->id = c->id;
	doc->defs = palloc(sizeof(AtpLexDef) * JsonContainerSize(defs.members));
	return atp_lex_each_member(c, defs, doc, compile_def);
}

AtpLexDoc *
atp_lexicon_compile(Jsonb *doc, char **fault)
{
	AtpLexCompiler c = {NULL};
	AtpLexDoc  *compiled = palloc0(sizeof(AtpLexDoc));
	AtpLexObject o = {&doc->root, NULL};

	*fault = NULL;
	if (!JB_ROOT_IS_OBJECT(doc))
		*fault = atp_violation(NULL, "is no object.");
	else if (VARSIZE(doc) > ATP_LEX_DOC_MAX)
		*fault = atp_violation(NULL, "has more than %d bytes.", ATP_LEX_DOC_MAX);
	else if (!compile_document(&c, o, compiled))
		*fault = c.fault;
	compiled->unknown = c.unknown;
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

/* L-30: "$type" names a type like a reference, with "#main" omitted. */
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
