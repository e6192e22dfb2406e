/*
 * json_write.c
 *		Writes DAG-CBOR as the text of JSON: see json_write.h.
 *
 * jsonb cannot hold U+0000, so this file writes the text without a jsonb.  Floats are written by the server's shortest
 * form, which no setting changes: the casts of the type dagcbor are IMMUTABLE.
 */
#include "postgres.h"

#include "common/shortest_dec.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/syntax/base64.h"
#include "data/json_write.h"

typedef struct JsonOutput
{
	StringInfo	out;
	AtpCborReader reader;
	AtpJsonText said;
	size_t		at;				/* offset of an error */
} JsonOutput;

/* JSON's escapes, by the characters that have a short form. */
static const char *
short_escape(char c)
{
	switch (c)
	{
		case '"':
			return "\\\"";
		case '\\':
			return "\\\\";
		case '\b':
			return "\\b";
		case '\f':
			return "\\f";
		case '\n':
			return "\\n";
		case '\r':
			return "\\r";
		case '\t':
			return "\\t";
		default:
			return NULL;
	}
}

static void
append_quoted(StringInfo out, AtpSpan s)
{
	size_t		done = 0;

	appendStringInfoChar(out, '"');
	for (size_t i = 0; i < s.len; i++)
	{
		const char *escape = short_escape(s.ptr[i]);

		if (escape == NULL && (unsigned char) s.ptr[i] >= ' ')
			continue;
		appendBinaryStringInfo(out, s.ptr + done, (int) (i - done));
		if (escape != NULL)
			appendStringInfoString(out, escape);
		else
			appendStringInfo(out, "\\u%04x", (unsigned) s.ptr[i]);
		done = i + 1;
	}
	appendBinaryStringInfo(out, s.ptr + done, (int) (s.len - done));
	appendStringInfoChar(out, '"');
}

/* J-03: base64 without padding, as jsonb_image.c writes bytes. */
static void
append_bytes(StringInfo out, AtpBytes bytes)
{
	size_t		n = ATP_BASE64URL_LEN(bytes.len);
	char	   *text;

	appendStringInfoString(out, "{\"$bytes\": \"");
	enlargeStringInfo(out, (int) Min(n, MaxAllocSize));
	text = out->data + out->len;
	(void) atp_base64url_encode(bytes.ptr, bytes.len, text);
	for (size_t i = 0; i < n; i++)
		text[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
	out->len += (int) n;
	appendStringInfoString(out, "\"}");
}

static void
append_link(StringInfo out, AtpBytes cid)
{
	char		text[ATP_CID_TEXT_MAX];
	size_t		n = atp_cid_format(cid.ptr, cid.len, text);

	appendStringInfo(out, "{\"$link\": \"%.*s\"}", (int) n, text);
}

static void
append_float(StringInfo out, double d)
{
	char		text[DOUBLE_SHORTEST_DECIMAL_LEN];

	appendBinaryStringInfo(out, text, double_to_shortest_decimal_bufn(d, text));
}

/* -1 - u, which may be below the range of int64. */
static void
append_negative(StringInfo out, uint64 u)
{
	if (u == PG_UINT64_MAX)
		appendStringInfoString(out, "-18446744073709551616");
	else
		appendStringInfo(out, "-" UINT64_FORMAT, u + 1);
}

static AtpErr append_item(JsonOutput *w, const AtpCborItem *item);

static AtpErr
append_next(JsonOutput *w)
{
	AtpCborItem item;
	AtpErr		err = atp_cbor_next(&w->reader, &item, &w->at);

	if (err != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
	if (item.is_key && (atp_span_is(atp_cbor_span(&item), "$link") || atp_span_is(atp_cbor_span(&item), "$bytes")))
		w->said.exact = false;
	w->said.has_nul |= item.has_nul;
	return append_item(w, &item);
}

/* The members of an array; of a map, whose members are twice as many, keys and values in turn. */
static AtpErr
append_members(JsonOutput *w, uint64 n, bool is_map)
{
	AtpErr		err = ATP_OK;

	CHECK_FOR_INTERRUPTS();
	appendStringInfoChar(w->out, is_map ? '{' : '[');
	for (uint64 i = 0; err == ATP_OK && i < n; i++)
	{
		if (i > 0)
			appendStringInfoString(w->out, ", ");
		err = append_next(w);
		if (err == ATP_OK && is_map)
		{
			appendStringInfoString(w->out, ": ");
			err = append_next(w);
		}
	}
	appendStringInfoChar(w->out, is_map ? '}' : ']');
	return err;
}

/* The reader bounds the depth of the recursion (B-10). */
static AtpErr
append_item(JsonOutput *w, const AtpCborItem *item)
{
	switch (item->kind)
	{
		case ATP_CBOR_UINT:
			w->said.exact &= item->u <= PG_INT64_MAX;
			appendStringInfo(w->out, UINT64_FORMAT, item->u);
			break;
		case ATP_CBOR_NINT:
			w->said.exact &= item->u <= PG_INT64_MAX;
			append_negative(w->out, item->u);
			break;
		case ATP_CBOR_BYTES:
			append_bytes(w->out, item->str);
			break;
		case ATP_CBOR_TEXT:
			append_quoted(w->out, atp_cbor_span(item));
			break;
		case ATP_CBOR_ARRAY:
			return append_members(w, item->u, false);
		case ATP_CBOR_MAP:
			return append_members(w, item->u, true);
		case ATP_CBOR_LINK:
			append_link(w->out, item->str);
			break;
		case ATP_CBOR_NULL:
			appendStringInfoString(w->out, "null");
			break;
		case ATP_CBOR_FALSE:
			appendStringInfoString(w->out, "false");
			break;
		case ATP_CBOR_TRUE:
			appendStringInfoString(w->out, "true");
			break;
		case ATP_CBOR_FLOAT:
			w->said.exact = false;
			append_float(w->out, item->d);
			break;
	}
	return ATP_OK;
}

AtpErr
atp_json_of_dagcbor(StringInfo out, AtpBytes value, AtpJsonText *said, size_t *at)
{
	JsonOutput	w = {.out = out, .said.exact = true};
	AtpErr		err;

	atp_cbor_init(&w.reader, value.ptr, value.len, ATP_CBOR_DEPTH_DEFAULT);
	err = append_next(&w);
	if (err == ATP_OK && w.reader.pos != value.len)
	{
		err = ATP_E_CBOR_TRAILING;
		w.at = w.reader.pos;
	}
	*said = w.said;
	*at = w.at;
	return err;
}
