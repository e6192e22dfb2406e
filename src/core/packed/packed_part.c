/*
 * packed_part.c
 *		Reads parts of stored values without unpacking.
 *
 * A part of a packed value is a code and its content.  A part of a plain value is the DAG-CBOR of the part, in which
 * the strict reader finds keys and members.
 */
#include "core/codec/field.h"
#include "core/packed/packed.h"
#include "core/packed/packed_text.h"
#include "core/packed/packed_walk.h"
#include "core/syntax/utf8.h"

_Static_assert(ATP_FORM_MAX <= ATP_PART_TEXT_MAX, "the buffer has room for the text of each form");

static inline bool
is_plain(const AtpPackedPart *part)
{
	return part->edition == ATP_PACKED_PLAIN;
}

AtpErr
atp_part_whole(AtpBytes stored, AtpPackedPart *part)
{
	AtpBytes	rest;
	AtpPackedValue value = {0, {NULL, 0}};

	if (stored.len < 2)
		return ATP_E_PACKED;
	if (stored.ptr[0] > ATP_PACKED_EDITION)
		return ATP_E_PACKED_EDITION;
	rest = (AtpBytes) {stored.ptr + 1, stored.len - 1};
	if (stored.ptr[0] == ATP_PACKED_PLAIN)
		value.content = rest;
	else if (!atp_packed_next(&rest, &value) || rest.len > 0)
		return ATP_E_PACKED;
	*part = (AtpPackedPart) {stored.ptr[0], value.code, value.content};
	return ATP_OK;
}

/* --- plain values --- */

/* The first item.  Plain values are few, so that a new reader for each step costs little. */
static AtpErr
plain_head(const AtpPackedPart *part, AtpCborReader *r, AtpCborItem *head)
{
	size_t		at;

	atp_cbor_init(r, part->content.ptr, part->content.len, ATP_CBOR_DEPTH_MAX);
	return atp_cbor_next(r, head, &at) == ATP_OK ? ATP_OK : ATP_E_PACKED;
}

/* The part becomes the value after whose first item r stands. */
static AtpErr
plain_enter(AtpPackedPart *part, AtpCborReader *r, const AtpCborItem *value, unsigned depth)
{
	size_t		at;

	if (atp_cbor_finish(r, depth, &at) != ATP_OK)
		return ATP_E_PACKED;
	part->content = (AtpBytes) {part->content.ptr + value->at, r->pos - value->at};
	return ATP_OK;
}

static AtpErr
plain_key(AtpPackedPart *part, AtpSpan wanted, bool *found)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpFields	fields;
	AtpSpan		key;
	size_t		at;
	AtpErr		err;

	if ((err = plain_head(part, &r, &item)) != ATP_OK || item.kind != ATP_CBOR_MAP)
		return err;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, &at)) == ATP_OK)
	{
		if (key.len != wanted.len || memcmp(key.ptr, wanted.ptr, key.len) != 0)
			continue;
		*found = true;
		return plain_enter(part, &r, &item, fields.depth);
	}
	return err == ATP_E_CBOR_END ? ATP_OK : ATP_E_PACKED;
}

static AtpErr
plain_member(AtpPackedPart *part, uint64_t number, bool *found)
{
	AtpCborReader r;
	AtpCborItem item;
	unsigned	depth;
	size_t		at;
	AtpErr		err;

	if ((err = plain_head(part, &r, &item)) != ATP_OK)
		return err;
	depth = r.depth;
	for (uint64_t i = 0; i <= number; i++)
		if (atp_cbor_finish(&r, depth, &at) != ATP_OK || atp_cbor_next(&r, &item, &at) != ATP_OK)
			return ATP_E_PACKED;
	*found = true;
	return plain_enter(part, &r, &item, depth);
}

/* --- packed values --- */

/* The part becomes the next value of rest. */
static AtpErr
enter_next(AtpPackedPart *part, AtpBytes *rest, bool *found)
{
	AtpPackedValue value;

	if (!atp_packed_next(rest, &value))
		return ATP_E_PACKED;
	part->code = value.code;
	part->content = value.content;
	*found = true;
	return ATP_OK;
}

static bool
skip_values(AtpBytes *rest, uint64_t values)
{
	AtpPackedValue value;

	while (values-- > 0)
		if (!atp_packed_next(rest, &value))
			return false;
	return true;
}

static AtpErr
shape_key(AtpPackedPart *part, AtpSpan key, bool *found)
{
	AtpBytes	rest = atp_packed_body(part->content);
	uint16_t	number = atp_packed_find_key(key, ATP_PACKED_EDITION);
	const char *place;
	AtpSpan		keys;

	if (!atp_packed_next_shape(&rest, &keys))
		return ATP_E_PACKED;
	if (number == ATP_PACKED_NONE || (place = memchr(keys.ptr, number, keys.len)) == NULL)
		return ATP_OK;
	return skip_values(&rest, (uint64_t) (place - keys.ptr)) ? enter_next(part, &rest, found) : ATP_E_PACKED;
}

static AtpErr
map_key(AtpPackedPart *part, AtpSpan wanted, bool *found)
{
	AtpBytes	rest = atp_packed_body(part->content);
	uint64_t	pairs;

	if (!atp_packed_next_count(&rest, &pairs))
		return ATP_E_PACKED;
	while (pairs-- > 0)
	{
		uint16_t	number;
		AtpSpan		key;

		if (!atp_packed_next_key(&rest, &key, &number))
			return ATP_E_PACKED;
		if (key.len == wanted.len && memcmp(key.ptr, wanted.ptr, key.len) == 0)
			return enter_next(part, &rest, found);
		if (!skip_values(&rest, 1))
			return ATP_E_PACKED;
	}
	return ATP_OK;
}

static void
reference_key(AtpPackedPart *part, AtpSpan key, bool *found)
{
	AtpPackedValue value;

	if (atp_span_is(key, "cid"))
		value = atp_packed_ref_cid(part->content);
	else if (atp_span_is(key, "uri"))
		value = atp_packed_ref_uri(part->content);
	else
		return;
	part->code = value.code;
	part->content = value.content;
	*found = true;
}

AtpErr
atp_part_key(AtpPackedPart *part, AtpSpan key, bool *found)
{
	*found = false;
	if (is_plain(part))
		return plain_key(part, key, found);
	switch (part->code)
	{
		case ATP_CODE_SHAPE:
			return shape_key(part, key, found);
		case ATP_CODE_MAP:
			return map_key(part, key, found);
		case ATP_CODE_REF:
			reference_key(part, key, found);
	}
	return ATP_OK;
}

AtpErr
atp_part_member(AtpPackedPart *part, int64_t number, bool *found)
{
	AtpCborKind kind;
	uint64_t	count;
	uint64_t	wanted;
	AtpBytes	rest;
	AtpErr		err;

	*found = false;
	if ((err = atp_part_kind(part, &kind)) != ATP_OK || kind != ATP_CBOR_ARRAY)
		return err;
	if ((err = atp_part_count(part, &count)) != ATP_OK)
		return err;
	wanted = number < 0 ? count + (uint64_t) number : (uint64_t) number;	/* wraps if number lies before the first member */
	if (wanted >= count)
		return ATP_OK;
	if (is_plain(part))
		return plain_member(part, wanted, found);
	rest = atp_packed_body(part->content);
	if (!atp_packed_next_count(&rest, &count) || !skip_values(&rest, wanted))
		return ATP_E_PACKED;
	return enter_next(part, &rest, found);
}

static AtpErr
kind_of_code(uint8_t code, AtpCborKind *kind)
{
	static const uint8_t kinds[] = {
		[ATP_CODE_REF] = ATP_CBOR_MAP,
		[ATP_CODE_LINK] = ATP_CBOR_LINK,
		[ATP_CODE_LINK_RAW] = ATP_CBOR_LINK,
		[ATP_CODE_LINK_ANY] = ATP_CBOR_LINK,
		[ATP_CODE_NULL] = ATP_CBOR_NULL,
		[ATP_CODE_FALSE] = ATP_CBOR_FALSE,
		[ATP_CODE_TRUE] = ATP_CBOR_TRUE,
		[ATP_CODE_FLOAT] = ATP_CBOR_FLOAT,
		[ATP_CODE_UINT] = ATP_CBOR_UINT,
		[ATP_CODE_NINT] = ATP_CBOR_NINT,
		[ATP_CODE_UINT_LONG] = ATP_CBOR_UINT,
		[ATP_CODE_NINT_LONG] = ATP_CBOR_NINT,
		[ATP_CODE_BYTES] = ATP_CBOR_BYTES,
		[ATP_CODE_ARRAY] = ATP_CBOR_ARRAY,
		[ATP_CODE_MAP] = ATP_CBOR_MAP,
		[ATP_CODE_SHAPE] = ATP_CBOR_MAP,
	};

	if (atp_code_is_text(code))
		*kind = ATP_CBOR_TEXT;
	else if (code >= ATP_CODE_SMALL)
		*kind = ATP_CBOR_UINT;
	else if (code < sizeof(kinds))
		*kind = kinds[code];
	else
		return ATP_E_PACKED;
	return ATP_OK;
}

AtpErr
atp_part_kind(const AtpPackedPart *part, AtpCborKind *kind)
{
	AtpCborReader r;
	AtpCborItem head;
	AtpErr		err;

	if (!is_plain(part))
		return kind_of_code(part->code, kind);
	if ((err = plain_head(part, &r, &head)) == ATP_OK)
		*kind = head.kind;
	return err;
}

AtpErr
atp_part_count(const AtpPackedPart *part, uint64_t *count)
{
	AtpCborReader r;
	AtpCborItem head;
	AtpBytes	rest;
	AtpSpan		keys;
	AtpErr		err;

	*count = 0;
	if (is_plain(part))
	{
		if ((err = plain_head(part, &r, &head)) == ATP_OK && (head.kind == ATP_CBOR_ARRAY || head.kind == ATP_CBOR_MAP))
			*count = head.u;
		return err;
	}
	if (part->code == ATP_CODE_REF)
		*count = 2;
	if (part->code != ATP_CODE_ARRAY && part->code != ATP_CODE_MAP && part->code != ATP_CODE_SHAPE)
		return ATP_OK;
	rest = atp_packed_body(part->content);
	if (part->code != ATP_CODE_SHAPE)
		return atp_packed_next_count(&rest, count) ? ATP_OK : ATP_E_PACKED;
	if (!atp_packed_next_shape(&rest, &keys))
		return ATP_E_PACKED;
	*count = keys.len;
	return ATP_OK;
}

static AtpErr
packed_text(const AtpPackedPart *part, char *buf, AtpSpan *text, bool *has_nul)
{
	const AtpPackedValue value = {part->code, part->content};
	const uint8_t *bytes;

	if (!atp_code_is_text(part->code))
		return ATP_OK;
	if (!atp_packed_get_text(&value, buf, text))
		return ATP_E_PACKED;
	bytes = (const uint8_t *) text->ptr;
	return atp_is_short_plain(bytes, text->len) || atp_utf8_valid(bytes, text->len, has_nul) == text->len ? ATP_OK : ATP_E_PACKED;
}

AtpErr
atp_part_text(const AtpPackedPart *part, char buf[ATP_PART_TEXT_MAX], AtpSpan *text, bool *has_nul)
{
	AtpCborReader r;
	AtpCborItem head;
	AtpErr		err;

	*text = (AtpSpan) {NULL, 0};
	*has_nul = false;
	if (!is_plain(part))
		return packed_text(part, buf, text, has_nul);
	if ((err = plain_head(part, &r, &head)) == ATP_OK && head.kind == ATP_CBOR_TEXT)
	{
		*text = atp_cbor_span(&head);
		*has_nul = head.has_nul;
	}
	return err;
}

void
atp_part_store(const AtpPackedPart *part, uint8_t *restrict out)
{
	*out++ = part->edition;
	if (!is_plain(part))
		*out++ = part->code;
	memcpy(out, part->content.ptr, part->content.len);
}
