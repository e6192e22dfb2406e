/*
 * jsonb_member.h
 *		What stands in a jsonb value that may be anything: members of an object, elements
 *		of an array, one step at a time.
 */
#ifndef ATP_JSONB_MEMBER_H
#define ATP_JSONB_MEMBER_H

#include "postgres.h"

#include "miscadmin.h"
#include "utils/jsonb.h"

/* A whole value to begin with.  A scalar by itself is neither object nor array here. */
static inline JsonbValue
atp_jsonb_root(Jsonb *jb)
{
	JsonbValue	v = {.type = JB_ROOT_IS_SCALAR(jb) ? jbvNull : jbvBinary};

	v.val.binary.data = &jb->root;
	return v;
}

/* False: v is no object, or has none of this name.  *member may be v itself. */
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

/* The elements of what is an array, one after the other; *it: JsonbIteratorInit() of it. */
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
