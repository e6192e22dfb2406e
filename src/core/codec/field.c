/*
 * field.c
 *		Checks of single fields, shared by the messages of several streams.
 */
#include "core/syntax/did.h"
#include "core/codec/field.h"

AtpErr
atp_field_text(const AtpCborItem *item, AtpSpan *out)
{
	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_MSG_TYPE;
	if (memchr(item->str.ptr, 0, item->str.len) != NULL)
		return ATP_E_MSG_NUL;
	*out = atp_cbor_span(item);
	return ATP_OK;
}

AtpErr
atp_field_did(const AtpCborItem *item, AtpSpan *out)
{
	AtpSpan		did = atp_cbor_span(item);
	size_t		at;

	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_MSG_TYPE;
	if (atp_did_check(did.ptr, did.len, &at) != ATP_OK)
		return ATP_E_MSG_DID;
	*out = did;
	return ATP_OK;
}

AtpErr
atp_field_seq(const AtpCborItem *item, int64_t *seq)
{
	if (item->kind == ATP_CBOR_NINT)
		return ATP_E_SEQ_RANGE;
	if (item->kind != ATP_CBOR_UINT)
		return ATP_E_SEQ_MISSING;
	if (item->u < 1 || item->u >= (uint64_t) ATP_SEQ_LIMIT)
		return ATP_E_SEQ_RANGE;
	*seq = (int64_t) item->u;
	return ATP_OK;
}
