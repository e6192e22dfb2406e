/*
 * dagcbor_value.c
 *		Values of the SQL type dagcbor: see dagcbor_value.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/codec/cbor_write.h"
#include "data/dagcbor_value.h"
#include "data/json_write.h"
#include "data/jsonb_write.h"

/* A guess at the size of a value's DAG-CBOR: three bytes for each packed byte fit most records. */
#define UNPACK_GUESS(n)		(Min((n), 100000) * 3 + 256)

void
atp_dagcbor_require(AtpErr err)
{
	if (err == ATP_OK)
		return;
	if (err == ATP_E_PACKED_EDITION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("value of type %s was packed by a newer version of the extension", "dagcbor"),
				 errhint("Install this version, or a newer one, also on this server.")));
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("stored value of type %s is damaged", "dagcbor"),
			 errdetail("%s", atp_err_text(err))));
}

/* atp_packed_store() or atp_packed_store_record() */
typedef AtpErr (*StoreFn) (AtpBytes cbor, uint8_t *restrict out, size_t *n, size_t *at);

static struct varlena *
make_value(StoreFn store, AtpBytes cbor, AtpErr *err, size_t *at)
{
	struct varlena *v = palloc(VARHDRSZ + ATP_PACKED_ROOM(cbor.len));
	size_t		n;

	*err = store(cbor, (uint8_t *) VARDATA(v), &n, at);
	if (*err != ATP_OK)
	{
		pfree(v);
		return NULL;
	}
	SET_VARSIZE(v, VARHDRSZ + n);
	return v;
}

struct varlena *
atp_dagcbor_make(AtpBytes cbor, AtpErr *err, size_t *at)
{
	return make_value(atp_packed_store, cbor, err, at);
}

struct varlena *
atp_dagcbor_make_record(AtpBytes block, AtpErr *err, size_t *at)
{
	return make_value(atp_packed_store_record, block, err, at);
}

AtpPackedPart
atp_dagcbor_whole(AtpBytes stored)
{
	AtpPackedPart		part;

	atp_dagcbor_require(atp_part_whole(stored, &part));
	return part;
}

struct varlena *
atp_dagcbor_of_part(const AtpPackedPart *part)
{
	size_t		n = atp_part_size(part);
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + n);
	atp_part_store(part, (uint8_t *) VARDATA(v));
	return v;
}

AtpBytes
atp_dagcbor_unpack(const AtpPackedPart *part)
{
	size_t		room = UNPACK_GUESS(part->content.len);
	uint8_t    *out = palloc(room);
	size_t		n;

	atp_dagcbor_require(atp_part_unpack(part, out, room, &n));
	if (n > room)
	{
		room = n;
		out = repalloc(out, room);
		atp_dagcbor_require(atp_part_unpack(part, out, room, &n));
	}
	return (AtpBytes) {out, n};
}

bool
atp_dagcbor_size(AtpBytes stored, size_t *n)
{
	AtpErr		err = atp_packed_unpack(stored, NULL, 0, n);

	if (err == ATP_E_PACKED_EDITION)
		atp_dagcbor_require(err);
	return err == ATP_OK;
}

bool
atp_dagcbor_try_unpack(AtpBytes stored, AtpBytes *cbor)
{
	uint8_t    *out;
	size_t		n;

	if (!atp_dagcbor_size(stored, &n))
		return false;
	out = palloc_extended(n, MCXT_ALLOC_HUGE);
	if (atp_packed_unpack(stored, out, n, &n) != ATP_OK)
		return false;
	*cbor = (AtpBytes) {out, n};
	return true;
}

AtpCborKind
atp_dagcbor_kind(const AtpPackedPart *part)
{
	AtpCborKind kind;

	atp_dagcbor_require(atp_part_kind(part, &kind));
	return kind;
}

/* A link is {"$link": "…"} in jsonb, and bytes are {"$bytes": "…"}: goes to this text. */
static void
go_to_written(AtpPackedPart *part, AtpSpan key)
{
	size_t		begin = key.len + strlen("{\"\": \"");
	AtpErr		err;
	size_t		at;
	StringInfoData json;
	AtpCborWriter text = {NULL, 0, 0};
	struct varlena *value;

	initStringInfo(&json);
	(void) atp_dagcbor_json(&json, part);
	text.cap = json.len + 9;	/* a head of CBOR has at most nine bytes */
	text.buf = palloc(text.cap);
	atp_cbor_put_text(&text, json.data + begin, json.len - begin - strlen("\"}"));
	value = atp_dagcbor_make((AtpBytes) {text.buf, text.len}, &err, &at);
	atp_dagcbor_require(err);
	*part = atp_dagcbor_whole((AtpBytes) {(const uint8_t *) VARDATA(value), VARSIZE(value) - VARHDRSZ});
}

bool
atp_dagcbor_key(AtpPackedPart *part, AtpSpan key)
{
	bool		found;

	atp_dagcbor_require(atp_part_key(part, key, &found));
	if (found)
		return true;
	if (atp_span_is(key, "$link") ? atp_dagcbor_kind(part) != ATP_CBOR_LINK : !atp_span_is(key, "$bytes") || atp_dagcbor_kind(part) != ATP_CBOR_BYTES)
		return false;
	go_to_written(part, key);
	return true;
}

bool
atp_dagcbor_jsonb_value(const AtpPackedPart *part, char buf[ATP_JSONB_VALUE_ROOM], JsonbValue *v)
{
	AtpSpan		text;
	bool		has_nul;
	Jsonb	   *jsonb;

	atp_dagcbor_require(atp_part_text(part, buf, &text, &has_nul));
	if (text.ptr != NULL)
	{
		v->type = jbvString;
		v->val.string.val = unconstify(char *, text.ptr);
		v->val.string.len = (int) text.len;
		return !has_nul;
	}
	jsonb = atp_dagcbor_jsonb(part);
	if (jsonb == NULL)
		return false;
	if (JsonbExtractScalar(&jsonb->root, v))
		return true;
	v->type = jbvBinary;
	v->val.binary.data = &jsonb->root;
	v->val.binary.len = VARSIZE(jsonb) - VARHDRSZ;
	return true;
}

Jsonb *
atp_dagcbor_jsonb(const AtpPackedPart *part)
{
	AtpBytes	cbor = atp_dagcbor_unpack(part);
	AtpErr		err;
	size_t		at;
	Jsonb	   *result = atp_jsonb_from_dagcbor(cbor, &err, &at);

	if (result == NULL && err != ATP_E_JSON_NUL && err != ATP_E_JSON_AMBIGUOUS && err != ATP_E_DATA_FLOAT && err != ATP_E_JSON_SIZE)
		atp_dagcbor_require(err);
	pfree(unconstify(uint8_t *, cbor.ptr));
	return result;
}

bool
atp_dagcbor_json(StringInfo out, const AtpPackedPart *part)
{
	AtpBytes	cbor = atp_dagcbor_unpack(part);
	AtpJsonText said;
	size_t		at;

	atp_dagcbor_require(atp_json_of_dagcbor(out, cbor, &said, &at));
	pfree(unconstify(uint8_t *, cbor.ptr));
	return said.exact;
}

bool
atp_dagcbor_jsonb_text(StringInfo out, AtpBytes cbor)
{
	int			begin = out->len;
	AtpJsonText said;
	size_t		at;

	if (atp_json_of_dagcbor(out, cbor, &said, &at) == ATP_OK && said.exact && !said.has_nul)
		return true;
	out->len = begin;
	out->data[begin] = '\0';
	return false;
}
