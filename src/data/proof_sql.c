/*
 * proof_sql.c
 *		SQL: atproto.verify_record_proof(): what a CAR file proves of one record of a repository (O-05).
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/sha256.h"
#include "common/signature.h"
#include "core/repo/record_proof.h"
#include "data/block_index.h"
#include "data/error.h"
#include "data/record_path.h"
#include "data/record_value.h"
#include "data/signed.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_pg_verify_record_proof);

enum
{
	ANSWER, WHY, REV, CID, VALUE, NCOLUMNS
};

/* A file can have millions of blocks, and each is hashed. */
static void
interruptible_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	CHECK_FOR_INTERRUPTS();
	atp_sha256(ctx, data, len, out);
}

/* Room in the index for the blocks that can be checked. */
static void
make_index(AtpCarIndex *index, const uint8_t *buf, size_t len)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		n = 0;
	size_t		at;

	memset(index, 0, sizeof(AtpCarIndex));
	if (atp_car_open(&car, buf, len, &at) == ATP_OK)
		while (atp_car_next(&car, &block, &at) == ATP_OK)
		{
			CHECK_FOR_INTERRUPTS();
			n += atp_car_can_verify(&block);
		}
	atp_block_index_clear(index, CurrentMemoryContext, n);
}

/* SQL: atproto.verify_record_proof(car, did, collection, rkey, key) */
Datum
atp_pg_verify_record_proof(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[NCOLUMNS] = {0};
	bool		nulls[NCOLUMNS] = {false, true, true, true, true};
	AtpRecordProof   *proof = palloc(sizeof(AtpRecordProof));
	const char *why = NULL;

	atp_require_utf8();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	proof->answer = ATP_PROOF_NONE;
	for (int i = 0; i < PG_NARGS(); i++)
		if (PG_ARGISNULL(i))
			why = "An argument is null.";
	if (why == NULL && VARSIZE_ANY_EXHDR(PG_GETARG_BYTEA_PP(0)) == 0)
		why = "The CAR file is empty.";
	if (why == NULL)
	{
		bytea	   *car = PG_GETARG_BYTEA_PP(0);
		const uint8_t *buf = (const uint8_t *) VARDATA_ANY(car);
		uint8_t		key[ATP_MULTIKEY_LEN];
		AtpRecordProofClaim claim = {
			.did = atp_did_span(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(1))),
			.path = atp_record_path(PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(2)), PG_DETOAST_DATUM_PACKED(PG_GETARG_DATUM(3))),
			.key = key, .sha256 = interruptible_sha256, .verify = atp_signature_verify
		};
		AtpCarIndex index;

		atp_key_of_text(PG_GETARG_TEXT_PP(4), key);
		make_index(&index, buf, VARSIZE_ANY_EXHDR(car));
		atp_read_record_proof(buf, VARSIZE_ANY_EXHDR(car), &claim, &index, palloc(ATP_PROOF_ROOM), proof);
		/* no answer about the proof, but about this server */
		atp_require_curve(proof->answer == ATP_PROOF_NONE ? proof->why : ATP_OK);
		why = atp_err_text(proof->why);
	}
	values[ANSWER] = CStringGetTextDatum(proof->answer == ATP_PROOF_THERE ? "there" : proof->answer == ATP_PROOF_ABSENT ? "absent" : "no proof");
	if (proof->answer == ATP_PROOF_NONE)
	{
		nulls[WHY] = false;
		values[WHY] = CStringGetTextDatum(why);
	}
	else
	{
		nulls[REV] = false;
		values[REV] = AtpTidGetDatum(proof->rev);
	}
	if (proof->answer == ATP_PROOF_THERE)
	{
		nulls[CID] = false;
		values[CID] = PointerGetDatum(atp_cidlink_make(proof->cid.ptr, proof->cid.len));
		values[VALUE] = atp_record_value(proof->block, &nulls[VALUE]);
	}
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
