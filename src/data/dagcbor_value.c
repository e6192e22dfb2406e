/*
 * dagcbor_value.c
 *		Values of the SQL type dagcbor: see dagcbor_value.h.
 */
#include "postgres.h"

#include "common/compat.h"
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
	bool		exact;
	size_t		at;

	atp_dagcbor_require(atp_json_of_dagcbor(out, cbor, &exact, &at));
	pfree(unconstify(uint8_t *, cbor.ptr));
	return exact;
}
