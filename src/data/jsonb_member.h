/*
 * jsonb_member.h
 *		Steps through a jsonb value of unknown shape: members of an object, elements of an array.  No shape is
 *		an error.
 */
#ifndef ATP_JSONB_MEMBER_H
#define ATP_JSONB_MEMBER_H

#include "postgres.h"

#include "miscadmin.h"
#include "utils/jsonb.h"

/* The whole value, as the first step.  A scalar root counts as neither object nor array here. */
static inline JsonbValue
atp_jsonb_root(Jsonb *jb)
{
	JsonbValue	v = {.type = JB_ROOT_IS_SCALAR(jb) ? jbvNull : jbvBinary};

	v.val.binary.data = &jb->root;
	return v;
}

/* False: v is no object, or has no member of this name.  *member may be v itself. */
static inline bool
atp_jsonb_member(const JsonbValue *v, const char *name, int len, JsonbValue *member)
{
	return v->type == jbvBinary && JsonContainerIsObject(v->val.binary.data) &&
		getKeyJsonValueFromContainer(v->val.binary.data, name, len, member) != NULL;
}

static inline bool
atp_jsonb_is_array(const JsonbValue *v)
{
	return v->type == jbvBinary && JsonContainerIsArray(v->val.binary.data);
}

/* The next element of an array; *it must come from JsonbIteratorInit() of the array. */
static inline bool
atp_jsonb_next_element(JsonbIterator **it, JsonbValue *element)
{
	JsonbIteratorToken token;

	CHECK_FOR_INTERRUPTS();
	while ((token = JsonbIteratorNext(it, element, true)) != WJB_DONE)
		if (token == WJB_ELEM)
			return true;
	return false;
}

#endif							/* ATP_JSONB_MEMBER_H */
