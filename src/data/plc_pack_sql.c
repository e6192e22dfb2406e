/*
 * plc_pack_sql.c
 *		SQL functions on packed operations of the did:plc directory (M-20): atproto.plc_texts(), atproto.plc_unpack(),
 *		and atproto.plc_json() for the unpacked.
 *
 * The functions are pure: the caller looks up the texts in plc_text.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"

#include "core/plc/plc_pack.h"
#include "data/jsonb_write.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_plc_texts);
PG_FUNCTION_INFO_V1(atp_pg_plc_unpack);
PG_FUNCTION_INFO_V1(atp_pg_plc_json);

static AtpBytes
packed_bytes(const struct varlena *value)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

/* SQL: atproto.plc_texts(packed) */
Datum
atp_pg_plc_texts(PG_FUNCTION_ARGS)
{
	AtpBytes	packed = packed_bytes(PG_GETARG_BYTEA_PP(0));
	Datum	   *ids = palloc(Max(packed.len, 1) * sizeof(Datum));
	size_t		pos = 0;
	uint32_t	id;
	int			n = 0;

	while (atp_plc_packed_id(packed, &pos, &id))
		ids[n++] = Int32GetDatum((int32) id);
	PG_RETURN_ARRAYTYPE_P(construct_array(ids, n, INT4OID, sizeof(int32), true, TYPALIGN_INT));
}

/* The texts in the order in which the packed operation names their ids. */
typedef struct GivenTexts
{
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			next;
} GivenTexts;

static AtpSpan
next_text(void *ctx, uint32_t id)
{
	GivenTexts *given = ctx;
	int			i = given->next++;

	if (i >= given->n || given->nulls[i])
		return (AtpSpan) {NULL, 0};
	return (AtpSpan) {VARDATA_ANY(DatumGetPointer(given->values[i])), VARSIZE_ANY_EXHDR(DatumGetPointer(given->values[i]))};
}

/* SQL: atproto.plc_unpack(packed, prev, texts) */
Datum
atp_pg_plc_unpack(PG_FUNCTION_ARGS)
{
	GivenTexts	given = {.n = 0};
	const AtpPlcTexts texts = {.text = next_text, .ctx = &given};
	const uint8_t *prev = NULL;
	bytea	   *out = palloc(VARHDRSZ + ATP_PLC_OP_MAX);
	size_t		n;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	if (!PG_ARGISNULL(1) && VARSIZE_ANY_EXHDR(PG_GETARG_VARLENA_PP(1)) == ATP_CID_BLESSED_LEN)
		prev = packed_bytes(PG_GETARG_VARLENA_PP(1)).ptr;
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), TEXTOID, -1, false, TYPALIGN_INT, &given.values, &given.nulls, &given.n);
	if (!atp_plc_op_unpack(packed_bytes(PG_GETARG_BYTEA_PP(0)), prev, &texts, (uint8_t *) VARDATA(out), ATP_PLC_OP_MAX, &n))
		PG_RETURN_NULL();
	SET_VARSIZE(out, VARHDRSZ + n);
	PG_RETURN_BYTEA_P(out);
}

/* SQL: atproto.plc_json(operation), NULL for bytes that are no DAG-CBOR: a user may have spoilt a row */
Datum
atp_pg_plc_json(PG_FUNCTION_ARGS)
{
	AtpErr		err;
	size_t		at;
	Jsonb	   *json = atp_jsonb_from_plain(packed_bytes(PG_GETARG_BYTEA_PP(0)), &err, &at);

	if (json == NULL)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(json);
}
