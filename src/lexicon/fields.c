/*
 * fields.c
 *		The fields that a Lexicon gives to records: see fields.h.
 *
 * Anybody may have written the document.  Anything that the language does not
 * allow becomes a column of jsonb, or is ignored.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/compat.h"
#include "config/extension.h"
#include "lexicon/document.h"
#include "lexicon/fields.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Characters of a description that are kept for a column's comment. */
#define DESCRIPTION_MAX	1000

#define STRONG_REF	"com.atproto.repo.strongRef"

/* A document; references without an NSID refer to definitions in the same document. */
typedef struct Document
{
	const char *id;
	JsonbContainer *defs;		/* NULL: no document with this id is known, or it has no definitions */
} Document;

typedef struct Walk
{
	List	   *fields;
	List	   *documents;
	int			max;
} Walk;

static void add_property(Walk *walk, const Document *doc, AtpField field, JsonbContainer *schema);

/* ------------------------------------------------------------------------
 * Reading a document
 * ------------------------------------------------------------------------
 */
static JsonbContainer *
get_member(JsonbContainer *object, const char *name, bool array)
{
	JsonbValue	v;

	if (object == NULL || getKeyJsonValueFromContainer(object, name, strlen(name), &v) == NULL || v.type != jbvBinary ||
		JsonContainerIsArray(v.val.binary.data) != array)
		return NULL;
	return v.val.binary.data;
}

/* palloc'd; NULL when the member is no text. */
static char *
member_text(JsonbContainer *object, const char *name)
{
	JsonbValue	v;

	if (object == NULL || getKeyJsonValueFromContainer(object, name, strlen(name), &v) == NULL || v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, v.val.string.len);
}

/* Compares in place: a thousand properties may refer to one definition with a text of a megabyte. */
static bool
member_is(JsonbContainer *object, const char *name, const char *text)
{
	JsonbValue	v;

	return object != NULL && getKeyJsonValueFromContainer(object, name, strlen(name), &v) != NULL && v.type == jbvString &&
		(size_t) v.val.string.len == strlen(text) && memcmp(v.val.string.val, text, strlen(text)) == 0;
}

/* The beginning, palloc'd: the rest is not copied, for the same reason. */
static char *
description_of(JsonbContainer *schema)
{
	JsonbValue	v;

	if (schema == NULL || getKeyJsonValueFromContainer(schema, "description", strlen("description"), &v) == NULL || v.type != jbvString)
		return NULL;
	return pnstrdup(v.val.string.val, pg_mbcliplen(v.val.string.val, v.val.string.len, DESCRIPTION_MAX));
}

static Document *
document_make(const char *id, Jsonb *doc)
{
	Document   *document = palloc(sizeof(Document));

	document->id = id;
	document->defs = doc != NULL && JB_ROOT_IS_OBJECT(doc) ? get_member(&doc->root, "defs", false) : NULL;
	return document;
}

static Document *
document_of(Walk *walk, const char *id)
{
	Document   *document;
	ListCell   *lc;

	foreach(lc, walk->documents)
		if (strcmp(((Document *) lfirst(lc))->id, id) == 0)
			return lfirst(lc);
	document = document_make(pstrdup(id), atp_lexicon_find(id));
	walk->documents = lappend(walk->documents, document);
	return document;
}

/* The definition that a reference leads to; *doc becomes the definition's document.  NULL: not found. */
static JsonbContainer *
resolve_ref(Walk *walk, const Document **doc, JsonbContainer *ref)
{
	char	   *to = member_text(ref, "ref");
	char	   *name = to == NULL ? NULL : strchr(to, '#');
	JsonbContainer *def;

	if (to == NULL)
		return NULL;
	if (name != NULL)
		*name++ = '\0';
	if (*to != '\0')
		*doc = document_of(walk, to);
	def = get_member((*doc)->defs, name == NULL ? "main" : name, false);
	pfree(to);
	return def;
}

/* ------------------------------------------------------------------------
 * Fields
 * ------------------------------------------------------------------------
 */
static Oid
type_of_format(JsonbContainer *schema)
{
	static const char *const types[][2] = {
		{"at-uri", "aturi"}, {"did", "did"}, {"handle", "handle"}, {"nsid", "nsid"},
		{"tid", "tid"}, {"record-key", "recordkey"}, {"cid", "cidlink"}
	};

	if (member_is(schema, "format", "datetime"))
		return TIMESTAMPTZOID;
	for (int i = 0; i < lengthof(types); i++)
		if (member_is(schema, "format", types[i][0]))
			return atp_type(types[i][1]);
	return TEXTOID;
}

/* InvalidOid: the type is no scalar. */
static Oid
scalar_type(JsonbContainer *schema)
{
	if (member_is(schema, "type", "string"))
		return type_of_format(schema);
	if (member_is(schema, "type", "integer"))
		return INT8OID;
	if (member_is(schema, "type", "boolean"))
		return BOOLOID;
	if (member_is(schema, "type", "cid-link"))
		return atp_type("cidlink");
	return InvalidOid;
}

static Oid
array_type(Walk *walk, const Document *doc, JsonbContainer *schema)
{
	JsonbContainer *items = get_member(schema, "items", false);
	Oid			scalar;

	if (member_is(items, "type", "ref"))
		items = resolve_ref(walk, &doc, items);
	scalar = scalar_type(items);
	return OidIsValid(scalar) ? get_array_type(scalar) : InvalidOid;
}

pg_noreturn static void
too_many(const Walk *walk)
{
	ereport(ERROR,
			(errcode(ERRCODE_TOO_MANY_COLUMNS),
			 errmsg("the Lexicon describes more than %d fields", walk->max)));
}

static void
add_field(Walk *walk, AtpField field, Oid type)
{
	AtpField   *added = palloc(sizeof(AtpField));

	if (list_length(walk->fields) >= walk->max)
		too_many(walk);
	*added = field;
	added->type = type;
	walk->fields = lappend(walk->fields, added);
}

/* The field with this name inside the given field. */
static AtpField
field_in(AtpField field, const char *name, const char *description)
{
	if (strlen(name) > ATP_FIELD_NAME_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the Lexicon has a property whose name is longer than %d bytes", ATP_FIELD_NAME_MAX)));
	field.path[field.depth++] = name;
	field.description = description;
	return field;
}

static void
add_properties(Walk *walk, const Document *doc, AtpField field, JsonbContainer *properties, JsonbContainer *required, bool wanted)
{
	JsonbIterator *it = JsonbIteratorInit(properties);
	JsonbIteratorToken token;
	JsonbValue	v;
	JsonbValue	name = {0};

	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		CHECK_FOR_INTERRUPTS();
		if (token == WJB_KEY)
			name = v;
		else if (token == WJB_VALUE &&
				 (required != NULL && findJsonbValueFromContainer(required, JB_FARRAY, &name) != NULL) == wanted)
		{
			JsonbContainer *schema = v.type == jbvBinary && JsonContainerIsObject(v.val.binary.data) ? v.val.binary.data : NULL;

			add_property(walk, doc,
						 field_in(field, pnstrdup(name.val.string.val, name.val.string.len), description_of(schema)), schema);
		}
	}
}

/* False: the type has no properties. */
static bool
add_object(Walk *walk, const Document *doc, AtpField field, JsonbContainer *schema)
{
	JsonbContainer *properties = get_member(schema, "properties", false);
	JsonbContainer *required = get_member(schema, "required", true);

	if (properties == NULL || JsonContainerSize(properties) == 0)
		return false;
	/* Each property makes at least one field.  This check also bounds the look-ups of names in "required". */
	if (JsonContainerSize(properties) > walk->max)
		too_many(walk);
	if (required != NULL && JsonContainerSize(required) > walk->max)
		required = NULL;
	add_properties(walk, doc, field, properties, required, true);
	add_properties(walk, doc, field, properties, required, false);
	return true;
}

static void
add_property(Walk *walk, const Document *doc, AtpField field, JsonbContainer *schema)
{
	Oid			type;

	if (member_is(schema, "type", "ref"))
	{
		if (member_is(schema, "ref", STRONG_REF) || member_is(schema, "ref", STRONG_REF "#main"))
		{
			add_field(walk, field_in(field, "uri", field.description), atp_type("aturi"));
			add_field(walk, field_in(field, "cid", NULL), atp_type("cidlink"));
			return;
		}
		schema = resolve_ref(walk, &doc, schema);
		if (field.description == NULL)
			field.description = description_of(schema);
	}
	if (member_is(schema, "type", "object") && field.depth == 1 && add_object(walk, doc, field, schema))
		return;
	type = member_is(schema, "type", "array") ? array_type(walk, doc, schema) : scalar_type(schema);
	add_field(walk, field, OidIsValid(type) ? type : JSONBOID);
}

List *
atp_lexicon_fields(Jsonb *doc, int max, const char **description)
{
	Walk		walk = {.max = max};
	const Document *document = document_make(member_text(&doc->root, "id"), doc);
	JsonbContainer *record = get_member(document->defs, "main", false);

	if (!member_is(record, "type", "record"))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("Lexicon \"%s\" does not describe records", document->id),
				 errhint("Views are of collections, that is of Lexicons with a \"main\" of type \"record\", such as app.bsky.feed.post.")));
	*description = description_of(record);
	walk.documents = list_make1(unconstify(Document *, document));
	(void) add_object(&walk, document, (AtpField) {0}, get_member(record, "record", false));
	return walk.fields;
}
