/*
 * packed_unpack.c
 *		Unpacks stored values and parts of stored values.
 */
#include "core/codec/cbor_write.h"
#include "core/codec/cid.h"
#include "core/packed/packed.h"
#include "core/packed/packed_text.h"
#include "core/packed/packed_walk.h"

static bool unpack_value(AtpCborWriter *w, const AtpPackedValue *value, unsigned depth);

static bool
unpack_next(AtpCborWriter *w, AtpBytes *rest, unsigned depth)
{
	AtpPackedValue value;

	return atp_packed_next(rest, &value) && unpack_value(w, &value, depth);
}

static bool
unpack_text(AtpCborWriter *w, const AtpPackedValue *value)
{
	char		buf[ATP_FORM_MAX];
	AtpSpan		text;

	if (!atp_packed_get_text(value, buf, &text))
		return false;
	atp_cbor_put_text(w, text.ptr, text.len);
	return true;
}

static bool
unpack_integer(AtpCborWriter *w, AtpBytes content, bool is_negative)
{
	uint64_t	number;

	if (!atp_packed_number(&content, &number))
		return false;
	if (is_negative)
		atp_cbor_put_nint(w, number);
	else
		atp_cbor_put_uint(w, number);
	return true;
}

static void
unpack_link(AtpCborWriter *w, AtpBytes digest, uint8_t codec)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN] = {1, codec, ATP_CID_SHA2_256, ATP_PACKED_DIGEST};

	memcpy(cid + sizeof(cid) - ATP_PACKED_DIGEST, digest.ptr, ATP_PACKED_DIGEST);
	atp_cbor_put_link(w, cid, sizeof(cid));
}

static void
unpack_float(AtpCborWriter *w, AtpBytes bits)
{
	static const uint8_t head = 0xfb;

	atp_cbor_put_raw(w, &head, 1);
	atp_cbor_put_raw(w, bits.ptr, bits.len);
}

/* --- containers --- */

static bool
unpack_array(AtpCborWriter *w, AtpBytes rest, unsigned depth)
{
	uint64_t	members;

	if (!atp_packed_next_count(&rest, &members))
		return false;
	atp_cbor_put_array(w, members);
	for (uint64_t i = 0; i < members; i++)
		if (!unpack_next(w, &rest, depth))
			return false;
	return rest.len == 0;
}

static bool
unpack_map(AtpCborWriter *w, AtpBytes rest, unsigned depth)
{
	uint64_t	pairs;
	uint16_t	number;
	AtpSpan		key;

	if (!atp_packed_next_count(&rest, &pairs))
		return false;
	atp_cbor_put_map(w, pairs);
	for (uint64_t i = 0; i < pairs; i++)
	{
		if (!atp_packed_next_key(&rest, &key, &number))
			return false;
		atp_cbor_put_text(w, key.ptr, key.len);
		if (!unpack_next(w, &rest, depth))
			return false;
	}
	return rest.len == 0;
}

static bool
unpack_shape(AtpCborWriter *w, AtpBytes rest, unsigned depth)
{
	AtpSpan		keys;

	if (!atp_packed_next_shape(&rest, &keys))
		return false;
	atp_cbor_put_map(w, keys.len);
	for (size_t i = 0; i < keys.len; i++)
	{
		AtpSpan		key = atp_packed_key((uint8_t) keys.ptr[i]);

		atp_cbor_put_text(w, key.ptr, key.len);
		if (!unpack_next(w, &rest, depth))
			return false;
	}
	return rest.len == 0;
}

static bool
unpack_reference(AtpCborWriter *w, AtpBytes content)
{
	const AtpPackedValue cid = atp_packed_ref_cid(content);
	const AtpPackedValue uri = atp_packed_ref_uri(content);

	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "cid");
	if (!unpack_text(w, &cid))
		return false;
	atp_cbor_put_key(w, "uri");
	return unpack_text(w, &uri);
}

static bool
unpack_value(AtpCborWriter *w, const AtpPackedValue *value, unsigned depth)
{
	AtpBytes	content = value->content;

	if (atp_code_is_text(value->code))
		return unpack_text(w, value);
	if (value->code >= ATP_CODE_SMALL)
	{
		atp_cbor_put_uint(w, value->code - ATP_CODE_SMALL);
		return true;
	}
	if (atp_code_is_container(value->code) && depth == ATP_CBOR_DEPTH_MAX)
		return false;
	switch (value->code)
	{
		case ATP_CODE_REF:
			return unpack_reference(w, content);
		case ATP_CODE_LINK:
			unpack_link(w, content, ATP_CID_CODEC_DAG_CBOR);
			return true;
		case ATP_CODE_LINK_RAW:
			unpack_link(w, content, ATP_CID_CODEC_RAW);
			return true;
		case ATP_CODE_LINK_ANY:
			content = atp_packed_body(content);
			atp_cbor_put_link(w, content.ptr, content.len);
			return true;
		case ATP_CODE_NULL:
			atp_cbor_put_null(w);
			return true;
		case ATP_CODE_FALSE:
		case ATP_CODE_TRUE:
			atp_cbor_put_bool(w, value->code == ATP_CODE_TRUE);
			return true;
		case ATP_CODE_FLOAT:
			unpack_float(w, content);
			return true;
		case ATP_CODE_UINT:
		case ATP_CODE_NINT:
			return unpack_integer(w, content, value->code == ATP_CODE_NINT);
		case ATP_CODE_UINT_LONG:
			atp_cbor_put_uint(w, atp_get_be64(content.ptr));
			return true;
		case ATP_CODE_NINT_LONG:
			atp_cbor_put_nint(w, atp_get_be64(content.ptr));
			return true;
		case ATP_CODE_BYTES:
			content = atp_packed_body(content);
			atp_cbor_put_bytes(w, content.ptr, content.len);
			return true;
		case ATP_CODE_ARRAY:
			return unpack_array(w, atp_packed_body(content), depth + 1);
		case ATP_CODE_MAP:
			return unpack_map(w, atp_packed_body(content), depth + 1);
		case ATP_CODE_SHAPE:
			return unpack_shape(w, atp_packed_body(content), depth + 1);
	}
	return false;
}

AtpErr
atp_part_unpack(const AtpPackedPart *part, uint8_t *restrict out, size_t room, size_t *n)
{
	AtpCborWriter w = {.buf = out, .cap = room};
	const AtpPackedValue value = {part->code, part->content};

	if (part->edition == ATP_PACKED_PLAIN)
		atp_cbor_put_raw(&w, part->content.ptr, part->content.len);
	else if (!unpack_value(&w, &value, 0))
		return ATP_E_PACKED;
	*n = w.len;
	return ATP_OK;
}

AtpErr
atp_packed_unpack(AtpBytes stored, uint8_t *restrict out, size_t room, size_t *n)
{
	AtpPackedPart		part;
	AtpErr		err = atp_part_whole(stored, &part);

	return err != ATP_OK ? err : atp_part_unpack(&part, out, room, n);
}
