/*
 * packed_uri.c
 *		at:// URIs of three parts in the packed form.
 *
 * The code URI has the usual parts: did:plc, a collection with a number of one byte, and a TID.  The code URI_PARTS has a length, flags
 * for the literal parts, and the parts.  A literal part is a length (one byte) and the text; the last part has no length.
 */
#include "core/packed/packed_form.h"
#include "core/packed/packed_table.h"
#include "core/syntax/tid.h"

#define SCHEME				"at://"
#define DID_PLC				"did:plc:"
#define DID_PLC_CHARS		(sizeof(DID_PLC) - 1 + ATP_PLC_CHARS)
#define PART_MAX			127 /* bytes of a literal part */
#define AUTHORITY_TEXT		0x01
#define COLLECTION_TEXT		0x02
#define KEY_TEXT			0x04
#define ALL_TEXT			(AUTHORITY_TEXT | COLLECTION_TEXT | KEY_TEXT)

_Static_assert(1 + 2 + 1 + 3 * (PART_MAX + 1) <= ATP_FORM_MAX, "a URI fits");

/* The text up to the next slash, or to the end.  False: the part is empty, or too long. */
static bool
next_part(AtpSpan *rest, bool is_last, AtpSpan *part)
{
	const char *slash = is_last || rest->len == 0 ? NULL : memchr(rest->ptr, '/', rest->len);

	if (slash == NULL && !is_last)
		return false;
	*part = (AtpSpan) {rest->ptr, slash != NULL ? (size_t) (slash - rest->ptr) : rest->len};
	if (slash != NULL)
		*rest = (AtpSpan) {slash + 1, rest->len - part->len - 1};
	return part->len > 0 && part->len <= PART_MAX;
}

/* The number in one byte of a collection that is a text with a number; or ATP_PACKED_NONE. */
static uint16_t
find_collection(AtpSpan text, uint8_t edition)
{
	uint16_t	number = atp_packed_find_text(text, edition);

	if (number < ATP_PACKED_ONE_BYTE)
		return number;
	return number < ATP_PACKED_COLLECTIONS || number == ATP_PACKED_NONE ? ATP_PACKED_NONE :
		(uint16_t) (number - (ATP_PACKED_COLLECTIONS - ATP_PACKED_ONE_BYTE));
}

/* The collection of a number in one byte. */
static AtpSpan
collection_text(uint8_t number)
{
	return atp_packed_text(number < ATP_PACKED_ONE_BYTE ? number :
						   (uint16_t) (number + (ATP_PACKED_COLLECTIONS - ATP_PACKED_ONE_BYTE)));
}

/* The three parts, as texts and as bytes. */
typedef struct Uri
{
	unsigned	flags;
	AtpSpan		authority;
	AtpSpan		collection;
	AtpSpan		key;
	uint8_t		plc[ATP_PLC_BYTES];
	uint16_t	number;			/* of the collection */
	uint64_t	tid;
} Uri;

static bool
split_uri(AtpSpan text, uint8_t edition, Uri *uri)
{
	AtpSpan		rest = {text.ptr + sizeof(SCHEME) - 1, text.len - (sizeof(SCHEME) - 1)};
	size_t		at;

	if (!next_part(&rest, false, &uri->authority) || !next_part(&rest, false, &uri->collection) ||
		!next_part(&rest, true, &uri->key))
		return false;
	uri->flags = 0;
	if (uri->authority.len != DID_PLC_CHARS || !atp_span_begins(uri->authority, DID_PLC) ||
		!atp_plc_pack(uri->authority.ptr + sizeof(DID_PLC) - 1, uri->plc))
		uri->flags |= AUTHORITY_TEXT;
	uri->number = find_collection(uri->collection, edition);
	if (uri->number == ATP_PACKED_NONE)
		uri->flags |= COLLECTION_TEXT;
	if (atp_tid_parse(uri->key.ptr, uri->key.len, &uri->tid, &at) != ATP_OK)
		uri->flags |= KEY_TEXT;
	return uri->flags != ALL_TEXT;
}

static uint8_t *
put_part(uint8_t *out, AtpSpan text, bool with_length)
{
	if (with_length)
		*out++ = (uint8_t) text.len;
	memcpy(out, text.ptr, text.len);
	return out + text.len;
}

static uint8_t *
put_parts(uint8_t *out, const Uri *uri)
{
	if (uri->flags & AUTHORITY_TEXT)
		out = put_part(out, uri->authority, true);
	else
	{
		memcpy(out, uri->plc, ATP_PLC_BYTES);
		out += ATP_PLC_BYTES;
	}
	if (uri->flags & COLLECTION_TEXT)
		out = put_part(out, uri->collection, true);
	else
		*out++ = (uint8_t) uri->number;
	if (uri->flags & KEY_TEXT)
		return put_part(out, uri->key, false);
	atp_put_be64(out, uri->tid);
	return out + 8;
}

size_t
atp_form_put_uri(AtpSpan text, uint8_t edition, uint8_t out[ATP_FORM_MAX])
{
	uint8_t		parts[ATP_FORM_MAX];
	size_t		n;
	size_t		head;
	Uri			uri;

	if (!atp_span_begins(text, SCHEME) || !split_uri(text, edition, &uri))
		return 0;
	n = (size_t) (put_parts(parts, &uri) - parts);
	if (uri.flags == 0)
	{
		out[0] = ATP_CODE_URI;
		head = 1;
	}
	else
	{
		out[0] = ATP_CODE_URI_PARTS;
		head = 1 + atp_varint_write(n + 1, out + 1);
		out[head++] = (uint8_t) uri.flags;
	}
	memcpy(out + head, parts, n);
	return head + n;
}

/* Takes a literal part with a length. */
static bool
take_part(AtpBytes *rest, AtpBytes *text)
{
	AtpBytes	length;

	return atp_packed_take(rest, 1, &length) && length.ptr[0] <= PART_MAX && atp_packed_take(rest, length.ptr[0], text);
}

static char *
append_bytes(char *out, const void *bytes, size_t n)
{
	memcpy(out, bytes, n);
	return out + n;
}

static char *
put_authority(char *out, AtpBytes *rest, unsigned flags)
{
	AtpBytes	bytes;

	if (flags & AUTHORITY_TEXT)
		return take_part(rest, &bytes) ? append_bytes(out, bytes.ptr, bytes.len) : NULL;
	if (!atp_packed_take(rest, ATP_PLC_BYTES, &bytes))
		return NULL;
	out = append_bytes(out, DID_PLC, sizeof(DID_PLC) - 1);
	atp_plc_unpack(bytes.ptr, out);
	return out + ATP_PLC_CHARS;
}

static char *
put_collection(char *out, AtpBytes *rest, unsigned flags)
{
	AtpBytes	bytes;
	AtpSpan		text;

	if (flags & COLLECTION_TEXT)
		return take_part(rest, &bytes) ? append_bytes(out, bytes.ptr, bytes.len) : NULL;
	if (!atp_packed_take(rest, 1, &bytes))
		return NULL;
	text = collection_text(bytes.ptr[0]);
	return text.ptr != NULL ? append_bytes(out, text.ptr, text.len) : NULL;
}

static char *
put_uri_key(char *out, AtpBytes rest, unsigned flags)
{
	if (flags & KEY_TEXT)
		return rest.len <= PART_MAX ? append_bytes(out, rest.ptr, rest.len) : NULL;
	if (rest.len != 8)
		return NULL;
	atp_tid_format(atp_get_be64(rest.ptr), out);
	return out + ATP_TID_TEXT;
}

size_t
atp_form_uri_text(const AtpPackedValue *value, char *out)
{
	AtpBytes	rest = value->content;
	AtpBytes	flags = {(const uint8_t *) "", 1};
	char	   *end = append_bytes(out, SCHEME, sizeof(SCHEME) - 1);

	if (value->code == ATP_CODE_URI_PARTS)
	{
		rest = atp_packed_body(rest);
		if (!atp_packed_take(&rest, 1, &flags))
			return 0;
	}
	if ((end = put_authority(end, &rest, flags.ptr[0])) == NULL)
		return 0;
	*end++ = '/';
	if ((end = put_collection(end, &rest, flags.ptr[0])) == NULL)
		return 0;
	*end++ = '/';
	end = put_uri_key(end, rest, flags.ptr[0]);
	return end != NULL ? (size_t) (end - out) : 0;
}
