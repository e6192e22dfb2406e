/*
 * lexicon_field.c
 *		record_field(): the value under some names in a record, as a value of
 *		the requested type.  No contents of a record raise an error: a value
 *		that cannot be converted is NULL, also as an element of an array.
 */
#include "postgres.h"

#include "access/tupmacs.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "data/dagcbor_value.h"
#include "data/jsonb_member.h"
#include "fmgr.h"
#include "lexicon/integer.h"
#include "types/glue.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_record_field);
PG_FUNCTION_INFO_V1(atp_record_field_packed);

typedef bool (*Convert) (const JsonbValue *v, AtpTry try, Datum *value);

/* The conversion to the requested type; kept between calls. */
typedef struct WantedType
{
	Convert		convert;
	AtpTry		try;			/* conversion of texts */
	Oid			element;		/* element type if the requested type is an array, else InvalidOid */
	int16		len;			/* length, passing and alignment of the element type */
	bool		byval;
	char		align;
} WantedType;

static bool
try_text(const char *s, size_t n, Datum *value)
{
	*value = PointerGetDatum(atp_varlena(s, n));
	return true;
}

static bool
of_text(const JsonbValue *v, AtpTry try, Datum *value)
{
	return v->type == jbvString && try(v->val.string.val, v->val.string.len, value);
}

/* A CID is a text, or a link: {"$link": …}. */
static bool
of_cid(const JsonbValue *v, AtpTry try, Datum *value)
{
	JsonbValue	link;

	if (atp_jsonb_member(v, "$link", 5, &link) && JsonContainerSize(v->val.binary.data) == 1)
		return of_text(&link, try, value);
	return of_text(v, try, value);
}

static bool
of_boolean(const JsonbValue *v, AtpTry try, Datum *value)
{
	if (v->type == jbvBool)
		*value = BoolGetDatum(v->val.boolean);
	return v->type == jbvBool;
}

static bool
of_integer(const JsonbValue *v, AtpTry try, Datum *value)
{
	int64		n;

	if (v->type != jbvNumeric || !atp_integer(v->val.numeric, &n))
		return false;
	*value = Int64GetDatum(n);
	return true;
}

static bool
of_anything(const JsonbValue *v, AtpTry try, Datum *value)
{
	JsonbValue	copy = *v;

	if (v->type == jbvNull)
		return false;
	*value = JsonbPGetDatum(JsonbValueToJsonb(&copy));
	return true;
}

static const struct
{
	Oid			oid;			/* OID of a type of PostgreSQL */
	const char *name;			/* name of a type of this extension */
	Convert		convert;
	AtpTry		try;
}			kinds[] = {
	{TEXTOID, NULL, of_text, try_text},
	{TIMESTAMPTZOID, NULL, of_text, atp_try_datetime},
	{BOOLOID, NULL, of_boolean},
	{INT8OID, NULL, of_integer},
	{JSONBOID, NULL, of_anything},
	{InvalidOid, "did", of_text, atp_try_did},
	{InvalidOid, "handle", of_text, atp_try_handle},
	{InvalidOid, "nsid", of_text, atp_try_nsid},
	{InvalidOid, "tid", of_text, atp_try_tid},
	{InvalidOid, "recordkey", of_text, atp_try_recordkey},
	{InvalidOid, "aturi", of_text, atp_try_aturi},
	{InvalidOid, "noshuri", of_text, atp_try_noshuri},
	{InvalidOid, "cidlink", of_cid, atp_try_cidlink},
};

static void
learn_type(WantedType *wanted, Oid type)
{
	Oid			single;

	wanted->element = get_element_type(type);
	single = OidIsValid(wanted->element) ? wanted->element : type;
	for (int i = 0; i < lengthof(kinds) && wanted->convert == NULL; i++)
		if (single == (OidIsValid(kinds[i].oid) ? kinds[i].oid : atp_type(kinds[i].name)))
		{
			wanted->convert = kinds[i].convert;
			wanted->try = kinds[i].try;
		}
	if (wanted->convert == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("fields of records cannot be had as type %s", format_type_be(type)),
				 errhint("Types are text, bigint, boolean, timestamptz, jsonb, those of this extension, and arrays of them.")));
	if (OidIsValid(wanted->element))
		get_typlenbyvalalign(wanted->element, &wanted->len, &wanted->byval, &wanted->align);
}

static WantedType *
wanted_type(FunctionCallInfo fcinfo)
{
	WantedType *wanted = fcinfo->flinfo->fn_extra;

	if (wanted == NULL)
	{
		wanted = MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(WantedType));
		learn_type(wanted, get_fn_expr_argtype(fcinfo->flinfo, 2));
		fcinfo->flinfo->fn_extra = wanted;
	}
	return wanted;
}

/* Follows the names into the record; false: no value is there. */
static bool
find_value(Jsonb *record, ArrayType *path, JsonbValue *v)
{
	const char *name = ARR_DATA_PTR(path);
	int			n = ArrayGetNItems(ARR_NDIM(path), ARR_DIMS(path));

	if (ARR_HASNULL(path) || n == 0)
		return false;
	*v = atp_jsonb_root(record);
	for (int i = 0; i < n; i++)
	{
		if (!atp_jsonb_member(v, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name), v))
			return false;
		name = att_addlength_pointer(name, -1, name);
		name = (const char *) att_align_nominal(name, TYPALIGN_INT);
	}
	return true;
}

/* As find_value(), in a dagcbor; false also where jsonb cannot hold the value. */
static bool
find_packed_value(AtpBytes record, ArrayType *path, char buf[ATP_JSONB_VALUE_ROOM], JsonbValue *v)
{
	const char *name = ARR_DATA_PTR(path);
	int			n = ArrayGetNItems(ARR_NDIM(path), ARR_DIMS(path));
	AtpPackedPart part;

	if (ARR_HASNULL(path) || n == 0)
		return false;
	part = atp_dagcbor_whole(record);
	for (int i = 0; i < n; i++)
	{
		if (!atp_dagcbor_key(&part, (AtpSpan) {VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name)}))
			return false;
		name = att_addlength_pointer(name, -1, name);
		name = (const char *) att_align_nominal(name, TYPALIGN_INT);
	}
	return atp_dagcbor_jsonb_value(&part, buf, v);
}

/* Converts each element; NULL for an element that cannot be converted. */
static bool
of_array(const JsonbValue *v, const WantedType *wanted, Datum *value)
{
	JsonbIterator *it;
	JsonbValue	element;
	Datum	   *values;
	bool	   *nulls;
	int			n = 0,
				lbound = 1;

	if (!atp_jsonb_is_array(v))
		return false;
	values = palloc(sizeof(Datum) * (JsonContainerSize(v->val.binary.data) + 1));
	nulls = palloc(sizeof(bool) * (JsonContainerSize(v->val.binary.data) + 1));
	it = JsonbIteratorInit(v->val.binary.data);
	for (; atp_jsonb_next_element(&it, &element); n++)
		nulls[n] = !wanted->convert(&element, wanted->try, &values[n]);
	*value = n == 0 ? PointerGetDatum(construct_empty_array(wanted->element)) :
		PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lbound, wanted->element, wanted->len, wanted->byval, wanted->align));
	return true;
}

static bool
convert_value(const JsonbValue *v, const WantedType *wanted, Datum *value)
{
	return OidIsValid(wanted->element) ? of_array(v, wanted, value) : wanted->convert(v, wanted->try, value);
}

/* SQL: atproto.record_field(value, path, type) */
Datum
atp_record_field(PG_FUNCTION_ARGS)
{
	WantedType *wanted = wanted_type(fcinfo);
	JsonbValue	v;
	Datum		value;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || !find_value(PG_GETARG_JSONB_P(0), PG_GETARG_ARRAYTYPE_P(1), &v) || !convert_value(&v, wanted, &value))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}

/* SQL: atproto.record_field(value, path, type), value of type dagcbor */
Datum
atp_record_field_packed(PG_FUNCTION_ARGS)
{
	WantedType *wanted = wanted_type(fcinfo);
	char		buf[ATP_JSONB_VALUE_ROOM];
	JsonbValue	v;
	Datum		value;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || !find_packed_value(atp_arg_bytes(fcinfo, 0), PG_GETARG_ARRAYTYPE_P(1), buf, &v) ||
		!convert_value(&v, wanted, &value))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value);
}
