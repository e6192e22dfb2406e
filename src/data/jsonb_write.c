/*
 * jsonb_write.c
 *		Converts DAG-CBOR to jsonb: allocates memory for jsonb_image.c, and
 *		asserts that its constants are the server's.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "data/jsonb_image.h"
#include "data/jsonb_write.h"

StaticAssertDecl(ATP_JE_STRING == JENTRY_ISSTRING &&
				 ATP_JE_NUMERIC == JENTRY_ISNUMERIC &&
				 ATP_JE_FALSE == JENTRY_ISBOOL_FALSE &&
				 ATP_JE_TRUE == JENTRY_ISBOOL_TRUE &&
				 ATP_JE_NULL == JENTRY_ISNULL &&
				 ATP_JE_CONTAINER == JENTRY_ISCONTAINER &&
				 ATP_JE_TYPE_MASK == JENTRY_TYPEMASK &&
				 ATP_JE_LEN_MASK == JENTRY_OFFLENMASK &&
				 ATP_JE_HAS_OFF == JENTRY_HAS_OFF &&
				 ATP_JB_STRIDE == JB_OFFSET_STRIDE,
				 "jsonb entries are as jsonb_image.h has them");
StaticAssertDecl(ATP_JB_SCALAR == JB_FSCALAR &&
				 ATP_JB_OBJECT == JB_FOBJECT &&
				 ATP_JB_ARRAY == JB_FARRAY,
				 "jsonb container headers are as jsonb_image.h has them");

/* Tokens on the stack: enough for nearly every record. */
#define STACK_TOKENS	512

static void
check_for_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

/* atp_jsonb_scan(), atp_jsonb_scan_record() or atp_jsonb_scan_plain() */
typedef AtpErr (*ScanFn) (const uint8_t *buf, size_t len, AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
						  size_t *n, size_t *room, size_t *at);

static Jsonb *
convert_image(ScanFn scan, AtpBytes bytes, AtpErr *err, size_t *at)
{
	AtpJsonbToken stack[STACK_TOKENS];
	AtpJsonbToken *token = stack;
	size_t		n;
	size_t		room;
	Jsonb	   *result = NULL;

	*err = scan(bytes.ptr, bytes.len, token, STACK_TOKENS, check_for_interrupts, &n, &room, at);
	if (*err == ATP_E_JSON_TOKENS)
	{
		token = palloc_extended(n * sizeof(AtpJsonbToken), MCXT_ALLOC_HUGE);
		*err = scan(bytes.ptr, bytes.len, token, n, check_for_interrupts, &n, &room, at);
	}
	if (*err == ATP_OK)
	{
		result = palloc(room);
		atp_jsonb_build(token, (uint8_t *) result);
	}
	if (token != stack)
		pfree(token);
	return result;
}

Jsonb *
atp_jsonb_from_dagcbor(AtpBytes value, AtpErr *err, size_t *at)
{
	return convert_image(atp_jsonb_scan, value, err, at);
}

Jsonb *
atp_jsonb_from_record(AtpBytes block, AtpErr *err, size_t *at)
{
	return convert_image(atp_jsonb_scan_record, block, err, at);
}

Jsonb *
atp_jsonb_from_plain(AtpBytes value, AtpErr *err, size_t *at)
{
	return convert_image(atp_jsonb_scan_plain, value, err, at);
}
