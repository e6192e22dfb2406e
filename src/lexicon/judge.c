/*
 * judge.c
 *		Checks a record against its collection's Lexicon: rules L-20 to L-33.
 *
 * The walk follows the Lexicon: members that the Lexicon does not name are allowed, and are not looked at.  A
 * Lexicon may refer to itself, but each cycle enters a member of the record, so that the record's depth
 * bounds the walk.
 */
#include "postgres.h"

#include "core/syntax/base64.h"
#include "core/codec/cid.h"
#include "core/lexicon/grapheme.h"
#include "core/syntax/recordkey.h"
#include "lexicon/violation.h"
#include "lexicon/integer.h"
#include "lexicon/judge.h"
#include "miscadmin.h"

typedef struct Judge
{
	AtpLexicons *lexicons;
	AtpLexVerdict verdict;
	char	   *why;
} Judge;

static bool judge_value(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place);

/* The judge_ functions below return false to end the walk, with verdict and why set by these macros. */
#define invalid(j, place, ...) \
	((j)->verdict = ATP_LEX_INVALID, (j)->why = atp_violation((place), __VA_ARGS__), false)
#define unjudged(j, ...) \
	((j)->verdict = ATP_LEX_UNJUDGED, (j)->why = psprintf(__VA_ARGS__), false)

static AtpSpan
span_of(const JsonbValue *string)
{
	return (AtpSpan) {string->val.string.val, string->val.string.len};
}

static inline JsonbValue *
get_member(JsonbContainer *object, AtpSpan name, JsonbValue *v)
{
	return getKeyJsonValueFromContainer(object, name.ptr, (int) name.len, v);
}

#define get_named(object, name, v)	get_member(object, (AtpSpan) {name, sizeof(name) - 1}, v)

/* The text of an object with exactly this member: the form of links and byte strings (B-25). */
static bool
get_only_text(const JsonbValue *v, AtpSpan name, JsonbValue *text)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data) && JsonContainerSize(v->val.binary.data) == 1 &&
		get_member(v->val.binary.data, name, text) != NULL && text->type == jbvString;
}

static const AtpSpan link_name = {"$link", 5};
static const AtpSpan bytes_name = {"$bytes", 6};

static bool
is_link(const JsonbValue *v)
{
	JsonbValue	text;
	uint8		cid[ATP_CID_MAX];
	size_t		len;
	size_t		at;

	return get_only_text(v, link_name, &text) &&
		atp_cid_parse(text.val.string.val, text.val.string.len, cid, &len, &at) == ATP_OK;
}

/* Is the value an object, and neither a link nor a byte string? */
static bool
is_map(const JsonbValue *v)
{
	JsonbValue	text;

	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data) &&
		!get_only_text(v, link_name, &text) && !get_only_text(v, bytes_name, &text);
}

static bool
has_type(JsonbContainer *object, const char *type)
{
	JsonbValue	v;

	return get_named(object, "$type", &v) != NULL && v.type == jbvString && atp_span_is(span_of(&v), type);
}

/* L-22 */
static bool
judge_integer(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	int64		value;

	if (v->type != jbvNumeric || !atp_integer(v->val.numeric, &value))
		return invalid(j, place, "is no integer of 64 bits.");
	if (value < node->minimum)
		return invalid(j, place, "is less than " INT64_FORMAT ".", node->minimum);
	if (value > node->maximum)
		return invalid(j, place, "is greater than " INT64_FORMAT ".", node->maximum);
	return node->integers == NULL || atp_lexicon_has_integer(node, value) ||
		invalid(j, place, "is none of the integers that are allowed.");
}

/*
 * L-12: a text has at most as many graphemes as bytes, so that the graphemes of most texts need not be
 * counted.
 */
static bool
judge_graphemes(Judge *j, const AtpLexNode *node, AtpSpan s, const AtpJsonPath *place)
{
	if (s.len > node->max_graphemes && atp_graphemes(s.ptr, s.len, node->max_graphemes) > node->max_graphemes)
		return invalid(j, place, "has more than " INT64_FORMAT " graphemes.", node->max_graphemes);
	if (node->min_graphemes > 0 && atp_graphemes(s.ptr, s.len, node->min_graphemes) < node->min_graphemes)
		return invalid(j, place, "has less than " INT64_FORMAT " graphemes.", node->min_graphemes);
	return true;
}

static bool
is_same(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

/* L-23 */
static bool
judge_string(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	AtpSpan		s;
	AtpErr		err;
	size_t		at;

	if (v->type != jbvString)
		return invalid(j, place, "is no string.");
	s = span_of(v);
	if ((int64) s.len < node->minimum)
		return invalid(j, place, "has less than " INT64_FORMAT " bytes.", node->minimum);
	if ((int64) s.len > node->maximum)
		return invalid(j, place, "has more than " INT64_FORMAT " bytes.", node->maximum);
	if (!judge_graphemes(j, node, s, place))
		return false;
	if (node->texts != NULL && !atp_lexicon_has_text(node, s))
		return invalid(j, place, "is none of the texts that are allowed.");
	err = atp_lex_format_check(node->format, s.ptr, s.len, &at);
	if (err != ATP_OK)
		return invalid(j, place, "is no %s: %s", atp_lex_format_name(node->format), atp_err_text(err));
	return true;
}

/* L-24 */
static bool
judge_bytes(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	JsonbValue	text;
	size_t		len;
	bool		exact;

	if (!get_only_text(v, bytes_name, &text) ||
		!atp_base64_decode(text.val.string.val, text.val.string.len, NULL, &len, &exact))
		return invalid(j, place, "is no byte string.");
	if ((int64) len < node->minimum)
		return invalid(j, place, "has less than " INT64_FORMAT " bytes.", node->minimum);
	if ((int64) len > node->maximum)
		return invalid(j, place, "has more than " INT64_FORMAT " bytes.", node->maximum);
	return true;
}

/* L-26: the old form without "$type" is not accepted, nor a member beside the four. */
static bool
judge_blob(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	JsonbContainer *blob;
	JsonbValue	mime;
	JsonbValue	field;
	int64		size;

	if (!is_map(v) || !has_type(v->val.binary.data, "blob"))
		return invalid(j, place, "is no blob.");
	blob = v->val.binary.data;
	if (get_named(blob, "ref", &field) == NULL || !is_link(&field))
		return invalid(j, place, "is no blob, whose \"ref\" is a link.");
	if (get_named(blob, "mimeType", &mime) == NULL || mime.type != jbvString || mime.val.string.len == 0)
		return invalid(j, place, "is no blob, whose \"mimeType\" is a text.");
	if (get_named(blob, "size", &field) == NULL || field.type != jbvNumeric ||
		!atp_integer(field.val.numeric, &size) || size <= 0)
		return invalid(j, place, "is no blob, whose \"size\" is a positive integer.");
	if (JsonContainerSize(blob) != 4)
		return invalid(j, place, "is a blob with a further member.");
	if (size > node->maximum)
		return invalid(j, place, "is a blob of more than " INT64_FORMAT " bytes.", node->maximum);
	for (int i = 0; i < node->n; i++)
		if (atp_lex_accepts(node->texts[i], span_of(&mime)))
			return true;
	return node->texts == NULL || invalid(j, place, "is a blob of a type that is not accepted.");
}

/* L-27 */
static bool
judge_array(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	AtpJsonPath element = atp_element(place, 0);
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	int64		n;

	if (v->type != jbvBinary || !JsonContainerIsArray(v->val.binary.data))
		return invalid(j, place, "is no array.");
	n = JsonContainerSize(v->val.binary.data);
	if (n < node->minimum)
		return invalid(j, place, "has less than " INT64_FORMAT " elements.", node->minimum);
	if (n > node->maximum)
		return invalid(j, place, "has more than " INT64_FORMAT " elements.", node->maximum);
	it = JsonbIteratorInit(v->val.binary.data);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token != WJB_ELEM)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (!judge_value(j, node->child, &value, &element))
			return false;
		element.element++;
	}
	return true;
}

/*
 * L-28: checks the members that the Lexicon describes.  Iterates over the record's members, not over the
 * Lexicon's: a Lexicon may have many properties, and a record many objects with few of them.
 */
static bool
judge_members(Judge *j, const AtpLexNode *node, JsonbContainer *object, const AtpJsonPath *place)
{
	AtpJsonPath member = atp_member(place, ((AtpSpan) {NULL, 0}));
	const AtpLexProperty *property = NULL;
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;

	for (int i = 0; i < node->nrequired; i++)
	{
		member.name = node->properties[node->required[i]].name;
		if (get_member(object, member.name, &value) == NULL)
			return invalid(j, &member, "is required.");
	}
	it = JsonbIteratorInit(object);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY)
			property = atp_lexicon_property(node, span_of(&value));
		if (token != WJB_VALUE || property == NULL || (value.type == jbvNull && property->nullable))
			continue;
		member.name = property->name;
		if (!judge_value(j, property->node, &value, &member))
			return false;
	}
	return true;
}

/* L-28 */
static bool
judge_object(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	if (!is_map(v))
		return invalid(j, place, "is no object.");
	return judge_members(j, node, v->val.binary.data, place);
}

/* Finds a definition; NULL: not found, the verdict is ATP_LEX_UNJUDGED. */
static const AtpLexNode *
find_def(Judge *j, AtpSpan id, AtpSpan name)
{
	AtpLexicon	lexicon = atp_lexicons_get(j->lexicons, id);
	const AtpLexNode *def = NULL;

	if (lexicon.doc != NULL)
		def = atp_lexicon_def(lexicon.doc, name);
	else if (lexicon.fault != NULL)
		(void) unjudged(j, "Lexicon \"%.*s\" is none: %s", (int) id.len, id.ptr, lexicon.fault);
	else
		(void) unjudged(j, "Lexicon \"%.*s\" is not known", (int) id.len, id.ptr);
	if (lexicon.doc != NULL && def == NULL)
		(void) unjudged(j, "Lexicon \"%.*s\" has no definition \"%.*s\"", (int) id.len, id.ptr, (int) name.len, name.ptr);
	return def;
}

static const AtpLexNode *
follow_ref(Judge *j, AtpLexRef *ref)
{
	if (ref->target == NULL)
		ref->target = find_def(j, ref->id, ref->name);
	return ref->target;
}

/* L-31 */
static bool
judge_union(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	JsonbValue	type;
	AtpSpan		name;
	AtpLexRef  *ref;

	if (!is_map(v))
		return invalid(j, place, "is no object.");
	if (get_named(v->val.binary.data, "$type", &type) == NULL || type.type != jbvString || type.val.string.len == 0)
		return invalid(j, place, "has no \"$type\".");
	name = span_of(&type);
	ref = atp_lexicon_named(node, name);
	if (ref != NULL)
	{
		const AtpLexNode *def = follow_ref(j, ref);

		return def != NULL && judge_value(j, def, v, place);
	}
	if (node->closed)
		return invalid(j, place, "has a \"$type\" that is none of those that are allowed.");
	if (name.len > 5 && memcmp(name.ptr + name.len - 5, "#main", 5) == 0)
		return invalid(j, place, "has a \"$type\" that ends in \"#main\".");
	return true;
}

static bool
judge_value(Judge *j, const AtpLexNode *node, const JsonbValue *v, const AtpJsonPath *place)
{
	const AtpLexNode *def;

	switch (node->type)
	{
		case ATP_LEX_NULL:
			return v->type == jbvNull || invalid(j, place, "is not null.");
		case ATP_LEX_BOOLEAN:	/* L-21 */
			if (v->type != jbvBool)
				return invalid(j, place, "is no boolean.");
			return (v->val.boolean >= node->minimum && v->val.boolean <= node->maximum) ||
				invalid(j, place, "is not %s.", node->minimum == 1 ? "true" : "false");
		case ATP_LEX_INTEGER:
			return judge_integer(j, node, v, place);
		case ATP_LEX_STRING:
			return judge_string(j, node, v, place);
		case ATP_LEX_BYTES:
			return judge_bytes(j, node, v, place);
		case ATP_LEX_CID_LINK:	/* L-25 */
			return is_link(v) || invalid(j, place, "is no link.");
		case ATP_LEX_BLOB:
			return judge_blob(j, node, v, place);
		case ATP_LEX_ARRAY:
			check_stack_depth();
			return judge_array(j, node, v, place);
		case ATP_LEX_OBJECT:
			check_stack_depth();
			return judge_object(j, node, v, place);
		case ATP_LEX_TOKEN:		/* L-29 */
			return (v->type == jbvString && is_same(span_of(v), node->name)) ||
				invalid(j, place, "is not \"%.*s\".", (int) node->name.len, node->name.ptr);
		case ATP_LEX_REF:
			def = follow_ref(j, node->refs);
			return def != NULL && judge_value(j, def, v, place);
		case ATP_LEX_UNION:
			return judge_union(j, node, v, place);
		case ATP_LEX_UNKNOWN:	/* L-32 */
			return (is_map(v) && !has_type(v->val.binary.data, "blob")) || invalid(j, place, "is no object of its own.");
		case ATP_LEX_RECORD:
			return judge_value(j, node->child, v, place);
		default:
			return unjudged(j, "a Lexicon refers to a definition that describes no value");
	}
}

/* L-20, L-33 */
static bool
judge_record(Judge *j, Jsonb *record, AtpSpan collection, AtpSpan rkey)
{
	static const AtpSpan main_name = {"main", 4};
	static const AtpSpan type_name = {"$type", 5};
	const AtpJsonPath type_place = atp_member(NULL, type_name);
	const AtpLexNode *def = find_def(j, collection, main_name);
	JsonbValue	type;

	if (def == NULL)
		return false;
	if (def->type != ATP_LEX_RECORD)
		return unjudged(j, "Lexicon \"%.*s\" describes no records", (int) collection.len, collection.ptr);
	if (!JB_ROOT_IS_OBJECT(record))
		return invalid(j, NULL, "is no object.");
	if (get_member(&record->root, type_name, &type) == NULL || type.type != jbvString || !is_same(span_of(&type), collection))
		return invalid(j, &type_place, "is not \"%.*s\".", (int) collection.len, collection.ptr);
	if (rkey.ptr != NULL && !atp_rkey_matches(rkey.ptr, rkey.len, def->key.ptr, def->key.len))
		return invalid(j, NULL, "has a key that is not of the kind \"%.*s\".", (int) def->key.len, def->key.ptr);
	return judge_members(j, def->child, &record->root, NULL);
}

AtpLexVerdict
atp_lexicon_judge(AtpLexicons *lexicons, Jsonb *record, AtpSpan collection, AtpSpan rkey, char **why)
{
	Judge		j = {lexicons, ATP_LEX_VALID, NULL};

	(void) judge_record(&j, record, collection, rkey);
	*why = j.why;
	return j.verdict;
}
