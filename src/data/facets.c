/*
 * facets.c
 *		The SQL functions record_hashtags() and record_mentions(): tags and mentions in the facets of a
 *		record's text, and the record's tags.
 *
 * Strangers write records.  Anything that does not match the Lexicon app.bsky.richtext.facet is ignored, and
 * the results are small enough for an index entry.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/lsyscache.h"

#include "data/dagcbor_value.h"
#include "data/jsonb_member.h"
#include "types/glue.h"

PG_FUNCTION_INFO_V1(atp_pg_record_hashtags);
PG_FUNCTION_INFO_V1(atp_pg_record_mentions);
PG_FUNCTION_INFO_V1(atp_pg_record_hashtags_packed);
PG_FUNCTION_INFO_V1(atp_pg_record_mentions_packed);

/*
 * Values of a record that are read, including duplicates; later values are ignored.  No real post has so
 * many, and a record with a hundred thousand must not cost much time.
 */
#define VALUES_MAX	256

/* Bytes of a tag, by the Lexicons of facets and posts. */
#define TAG_MAX		640

typedef struct Found
{
	AtpTry		make;			/* converts a text to the value */
	int			seen;
	int			n;				/* distinct values */
	Datum		values[VALUES_MAX];
} Found;

static void
begin_set(Found *found, AtpTry make)
{
	found->make = make;
	found->seen = found->n = 0;
}

/* Adds the value of a text, if new: equal values are stored as the same bytes. */
static void
add_value(Found *found, const JsonbValue *text)
{
	Datum		value;

	if (text->type != jbvString || !found->make(text->val.string.val, text->val.string.len, &value))
		return;
	found->seen++;
	for (int i = 0; i < found->n; i++)
		if (VARSIZE_ANY(DatumGetPointer(found->values[i])) == VARSIZE_ANY(DatumGetPointer(value)) &&
			memcmp(DatumGetPointer(found->values[i]), DatumGetPointer(value), VARSIZE_ANY(DatumGetPointer(value))) == 0)
		{
			pfree(DatumGetPointer(value));
			return;
		}
	found->values[found->n++] = value;
}

static bool
is_of_type(const JsonbValue *feature, const char *type)
{
	JsonbValue	v;

	return atp_jsonb_member(feature, "$type", 5, &v) && v.type == jbvString &&
		v.val.string.len == strlen(type) && memcmp(v.val.string.val, type, strlen(type)) == 0;
}

/* Adds the member of this name from each feature of this type in all facets. */
static void
add_features(Found *found, JsonbIterator *facets, const char *type, const char *name)
{
	JsonbValue	v;

	if (facets == NULL)
		return;
	while (found->seen < VALUES_MAX && atp_jsonb_next_element(&facets, &v))
	{
		JsonbIterator *features;

		if (!atp_jsonb_member(&v, "features", (int) strlen("features"), &v) || !atp_jsonb_is_array(&v))
			continue;
		features = JsonbIteratorInit(v.val.binary.data);
		while (found->seen < VALUES_MAX && atp_jsonb_next_element(&features, &v))
			if (is_of_type(&v, type) && atp_jsonb_member(&v, name, (int) strlen(name), &v))
				add_value(found, &v);
	}
}

/* Adds the texts of an array. */
static void
add_texts(Found *found, JsonbIterator *texts)
{
	JsonbValue	v;

	if (texts == NULL)
		return;
	while (found->seen < VALUES_MAX && atp_jsonb_next_element(&texts, &v))
		add_value(found, &v);
}

/* Makes the result; all types of values used here have the storage properties of text. */
static Datum
array_of(Oid type, Found *found)
{
	return PointerGetDatum(construct_array(found->values, found->n, type, -1, false, TYPALIGN_INT));
}

/* Length of the sign that an author wrote before a tag: '#', or the full-width one; 0: no sign. */
static size_t
sign_length(const char *s, size_t n)
{
	static const char *const signs[] = {"#", "\xEF\xBC\x83"};

	for (int i = 0; i < lengthof(signs); i++)
		if (n >= strlen(signs[i]) && memcmp(s, signs[i], strlen(signs[i])) == 0)
			return strlen(signs[i]);
	return 0;
}

/*
 * Makes a tag in a form in which tags that people take for equal are equal: in lower case, without the sign.
 */
static bool
make_tag(const char *s, size_t n, Datum *value)
{
	char	   *lower;
	size_t		sign;

	while ((sign = sign_length(s, n)) > 0)
	{
		s += sign;
		n -= sign;
	}
	if (n == 0 || n > TAG_MAX)
		return false;
	lower = str_tolower(s, n, DEFAULT_COLLATION_OID);
	*value = PointerGetDatum(cstring_to_text(lower));
	pfree(lower);
	return true;
}

/*
 * The array under a name of the record, which is the function's argument; NULL: the name is absent, or no array, or
 * in a dagcbor an array that jsonb cannot hold.
 */
typedef JsonbIterator *(*MemberArray) (FunctionCallInfo fcinfo, const char *name);

static JsonbIterator *
array_of_jsonb(FunctionCallInfo fcinfo, const char *name)
{
	JsonbValue	v = atp_jsonb_root(PG_GETARG_JSONB_P(0));

	return atp_jsonb_member(&v, name, (int) strlen(name), &v) && atp_jsonb_is_array(&v) ? JsonbIteratorInit(v.val.binary.data) : NULL;
}

static JsonbIterator *
array_of_packed(FunctionCallInfo fcinfo, const char *name)
{
	AtpPackedPart part = atp_dagcbor_whole(atp_arg_bytes(fcinfo, 0));
	char		buf[ATP_JSONB_VALUE_ROOM];
	JsonbValue	v;

	return atp_dagcbor_key(&part, (AtpSpan) {name, strlen(name)}) && atp_dagcbor_jsonb_value(&part, buf, &v) && atp_jsonb_is_array(&v) ?
		JsonbIteratorInit(v.val.binary.data) : NULL;
}

static Datum
hashtags_of(FunctionCallInfo fcinfo, MemberArray array)
{
	Found		found;

	begin_set(&found, make_tag);
	add_features(&found, array(fcinfo, "facets"), "app.bsky.richtext.facet#tag", "tag");
	add_texts(&found, array(fcinfo, "tags"));
	return array_of(TEXTOID, &found);
}

static Datum
mentions_of(FunctionCallInfo fcinfo, MemberArray array)
{
	Found		found;

	begin_set(&found, atp_try_did);
	add_features(&found, array(fcinfo, "facets"), "app.bsky.richtext.facet#mention", "did");
	return array_of(get_element_type(get_func_rettype(fcinfo->flinfo->fn_oid)), &found);
}

/* SQL: record_hashtags(value) */
Datum
atp_pg_record_hashtags(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(hashtags_of(fcinfo, array_of_jsonb));
}

/* SQL: record_hashtags(value), value of type dagcbor */
Datum
atp_pg_record_hashtags_packed(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(hashtags_of(fcinfo, array_of_packed));
}

/* SQL: record_mentions(value) */
Datum
atp_pg_record_mentions(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(mentions_of(fcinfo, array_of_jsonb));
}

/* SQL: record_mentions(value), value of type dagcbor */
Datum
atp_pg_record_mentions_packed(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(mentions_of(fcinfo, array_of_packed));
}
