/*
 * links_sql.c
 *		The SQL function record_links(): the links of a record, and where they stand.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "core/link.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_record_links);

typedef struct Walk
{
	ReturnSetInfo *result;
	AtpLinkPath path;
	char		buf[ATP_URI_MAX];
} Walk;

static AtpSpan
span_of(const JsonbValue *string)
{
	return (AtpSpan) {string->val.string.val, string->val.string.len};
}

static bool
is_object(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data);
}

/* The "$type" of an element of an array; ptr NULL: it has none. */
static AtpSpan
type_of(const JsonbValue *element)
{
	JsonbValue	type;

	if (is_object(element) &&
		getKeyJsonValueFromContainer(element->val.binary.data, "$type", 5, &type) != NULL && type.type == jbvString)
		return span_of(&type);
	return (AtpSpan) {NULL, 0};
}

static void
put_link(Walk *walk, AtpSpan text)
{
	Datum		values[2];
	bool		nulls[2] = {false, false};
	AtpSpan		target;

	if (walk->path.len > ATP_LINK_PATH_MAX || !atp_link_target(text, walk->buf, &target))
		return;
	values[0] = PointerGetDatum(atp_varlena(walk->path.text, walk->path.len));
	values[1] = PointerGetDatum(atp_aturi_make(target.ptr, target.len));
	tuplestore_putvalues(walk->result->setResult, walk->result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[0]));
	pfree(DatumGetPointer(values[1]));
}

static void
walk_container(Walk *walk, JsonbContainer *container)
{
	JsonbIterator *it = JsonbIteratorInit(container);
	AtpSpan		name = {NULL, 0};
	JsonbValue	v;
	JsonbIteratorToken token;

	check_stack_depth();
	CHECK_FOR_INTERRUPTS();
	while ((token = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		size_t		len = walk->path.len;

		if (token == WJB_KEY)
			name = span_of(&v);
		if (token != WJB_VALUE && token != WJB_ELEM)
			continue;
		if (token == WJB_VALUE)
			atp_link_path_name(&walk->path, name);
		/* a scalar by itself is stored as an array of one */
		else if (!JsonContainerIsScalar(container))
			atp_link_path_element(&walk->path, type_of(&v));
		if (v.type == jbvBinary)
			walk_container(walk, v.val.binary.data);
		else if (v.type == jbvString && !(token == WJB_VALUE && atp_link_is_name_of_model(name)))
			put_link(walk, span_of(&v));
		walk->path.len = len;
	}
}

Datum
atp_pg_record_links(PG_FUNCTION_ARGS)
{
	Walk	   *walk = palloc(sizeof(Walk));

	InitMaterializedSRF(fcinfo, 0);
	walk->result = (ReturnSetInfo *) fcinfo->resultinfo;
	walk->path.len = 0;
	walk_container(walk, &PG_GETARG_JSONB_P(0)->root);
	return (Datum) 0;
}
