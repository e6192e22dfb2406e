/*
 * links.c
 *		Finds the links of a record, given as jsonb or as DAG-CBOR: see links.h.
 */
#include "postgres.h"

#include "data/jsonb_member.h"
#include "data/links.h"
#include "miscadmin.h"

static AtpSpan
span_of(const JsonbValue *string)
{
	return (AtpSpan) {string->val.string.val, string->val.string.len};
}

/* The "$type" of an element of an array; ptr NULL: no type. */
static AtpSpan
type_of(const JsonbValue *element)
{
	JsonbValue	type;

	if (atp_jsonb_member(element, "$type", 5, &type) && type.type == jbvString)
		return span_of(&type);
	return (AtpSpan) {NULL, 0};
}

void
atp_link_walk_jsonb(AtpLinkWalk *walk, JsonbContainer *container)
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
		/* A scalar root is stored as an array with one element. */
		else if (!JsonContainerIsScalar(container))
			atp_link_path_element(&walk->path, type_of(&v));
		if (v.type == jbvBinary)
			atp_link_walk_jsonb(walk, v.val.binary.data);
		else if (v.type == jbvString && !(token == WJB_VALUE && atp_link_is_name_of_model(name)))
			atp_link_walk_text(walk, span_of(&v));
		walk->path.len = len;
	}
}

/* Types on the stack: enough for nearly every record. */
#define STACK_TYPES	64

AtpErr
atp_link_walk_dagcbor(AtpLinkWalk *walk, const uint8_t *buf, size_t n, size_t *at)
{
	AtpLinkType stack[STACK_TYPES];
	AtpLinkType *types = stack;
	size_t		count;
	AtpErr		err = atp_link_types(buf, n, types, STACK_TYPES, walk->tick, &count, at);

	if (err != ATP_OK)
		return err;
	if (count > STACK_TYPES)
	{
		types = palloc_extended(sizeof(AtpLinkType) * count, MCXT_ALLOC_HUGE);
		(void) atp_link_types(buf, n, types, count, walk->tick, &count, at);
	}
	atp_link_walk_items(walk, buf, n, types);
	if (types != stack)
		pfree(types);
	return ATP_OK;
}
