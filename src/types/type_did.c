/*
 * type_did.c
 *		The type did: decentralized identifiers, rules I-20 to I-24.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "common/hashfn.h"
#include "utils/sortsupport.h"

#include "types/text_type.h"

#include "core/syntax/did.h"

static const char *const typmods[] = {"blessed", NULL};

enum
{
	DID_BLESSED
};

struct varlena *
atp_did_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_did_store(s, n, (uint8_t *) VARDATA(v)));
	return v;
}

size_t
atp_did_copy(const struct varlena *did, char text[ATP_DID_MAX])
{
	const uint8_t *stored = (const uint8_t *) VARDATA_ANY(did);
	size_t		n = VARSIZE_ANY_EXHDR(did);

	if (!atp_did_fits(stored, n))
		atp_damaged_error("did");
	return atp_did_text(stored, n, text);
}

int
atp_compare_dids(const struct varlena *a, const struct varlena *b)
{
	return atp_did_cmp((const uint8_t *) VARDATA_ANY(a), VARSIZE_ANY_EXHDR(a),
					   (const uint8_t *) VARDATA_ANY(b), VARSIZE_ANY_EXHDR(b));
}

int
atp_compare_did_refs(const void *a, const void *b)
{
	return atp_compare_dids(*(const struct varlena *const *) a, *(const struct varlena *const *) b);
}

/*
 * Computes what compute_partition_hash_value() computes with did_hash_extended(), which is
 * hashvarlenaextended(): slices must agree with hash partitions.
 */
uint32
atp_did_slice(const struct varlena *did, uint32 slices)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did),
										   HASH_PARTITION_SEED);

	return hash_combine64(0, hash) % slices;
}

/* Checks the type modifier (I-23). */
static AtpErr
check_typmod(const char *s, size_t n, int32 typmod, size_t *at)
{
	*at = strlen("did:");
	return typmod == DID_BLESSED && !atp_did_is_blessed(s, n) ? ATP_E_DID_NOT_BLESSED : ATP_OK;
}

static const AtpTextType type = {
	.name = "did",
	.check = atp_did_check,
	.make = atp_did_make,
	.fits = atp_did_fits,
	.typmods = typmods,
	.check_typmod = check_typmod,
	.text = atp_did_text,
	.text_growth = ATP_DID_PLC_TEXT,
};

ATP_TEXT_TYPE_DEFINE(did, &type, in)
ATP_TEXT_TYPE_DEFINE(did, &type, recv)
ATP_TEXT_TYPE_DEFINE(did, &type, out)
ATP_TEXT_TYPE_DEFINE(did, &type, send)
ATP_TEXT_TYPE_DEFINE(did, &type, typmod_in)
ATP_TEXT_TYPE_DEFINE(did, &type, typmod_out)
ATP_TEXT_TYPE_DEFINE(did, &type, cast)

PG_FUNCTION_INFO_V1(atp_pg_did_sortsupport);
Datum
atp_pg_did_sortsupport(PG_FUNCTION_ARGS)
{
	atp_sortsupport((SortSupport) PG_GETARG_POINTER(0), atp_did_cmp,
					atp_did_abbrev);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(atp_pg_did_method);
Datum
atp_pg_did_method(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_text_type_checked_arg(fcinfo, 0, &type);

	ATP_RETURN_SPAN_TEXT(atp_did_method(text.ptr, text.len));
}

PG_FUNCTION_INFO_V1(atp_pg_did_identifier);
Datum
atp_pg_did_identifier(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_text_type_checked_arg(fcinfo, 0, &type);
	AtpSpan		method = atp_did_method(text.ptr, text.len);
	const char *identifier = method.ptr + method.len + 1;

	PG_RETURN_POINTER(atp_varlena(identifier, text.ptr + text.len - identifier));
}

PG_FUNCTION_INFO_V1(atp_pg_did_is_blessed);
Datum
atp_pg_did_is_blessed(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_text_type_arg(fcinfo, 0, &type);

	PG_RETURN_BOOL(atp_did_is_blessed(text.ptr, text.len));
}

PG_FUNCTION_INFO_V1(atp_pg_did_slice);
Datum
atp_pg_did_slice(PG_FUNCTION_ARGS)
{
	struct varlena *did = PG_GETARG_VARLENA_PP(0);
	int32		slices = PG_GETARG_INT32(1);

	if (slices < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of slices must be positive, not %d", slices),
				 errhint("Of 16 slices the numbers are 0 to 15: did_slice(did, 16) = 3 is the slice 3/16.")));
	PG_RETURN_INT32((int32) atp_did_slice(did, (uint32) slices));
}

PG_FUNCTION_INFO_V1(atp_pg_did_normalize);
Datum
atp_pg_did_normalize(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_text_type_checked_arg(fcinfo, 0, &type);
	char	   *normal = palloc(text.len);
	size_t		n = atp_did_normalize(text.ptr, text.len, normal);

	PG_RETURN_POINTER(atp_did_make(normal, n));
}
