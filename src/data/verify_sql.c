/*
 * verify_sql.c
 *		SQL functions that verify what accounts have signed: atproto.verify_commit,
 *		atproto.verify_label, atproto.invert.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "core/car.h"
#include "core/commit.h"
#include "core/commit_check.h"
#include "core/sig.h"
#include "data/block_index.h"
#include "data/error.h"
#include "data/jsonb_read.h"
#include "sha256.h"
#include "signature.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_verify_commit);
PG_FUNCTION_INFO_V1(atp_pg_verify_label);
PG_FUNCTION_INFO_V1(atp_pg_invert);

static void
parse_key(const text *in, uint8_t key[ATP_MULTIKEY_LEN])
{
	size_t		at;
	AtpErr		err = atp_multikey_parse(VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), key, &at);

	if (err != ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid key at byte %zu", atp_byte_number(at)),
				 errdetail("%s", atp_err_text(err))));
}

/* False says that the signature is not the key's; what else is wrong is an error. */
static bool
verify(const uint8_t key[ATP_MULTIKEY_LEN], const AtpCborWriter *w, AtpBytes sig)
{
	AtpErr		err = atp_sig_verify(key, w->buf, w->len, sig, atp_sha256, NULL, atp_signature_verify, NULL);

	if (err == ATP_E_KEY_BUILD)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("signatures by secp256k1 are not supported by this build"),
				 errhint("Build the extension where libsecp256k1 and its header are installed.")));
	if (err == ATP_E_KEY_POINT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid key"),
				 errdetail("%s", atp_err_text(err))));
	return err == ATP_OK;
}

/* What is signed of a map in DAG-CBOR, in memory of its own. */
static AtpErr
cut(AtpBytes map, bool is_label, AtpCborWriter *w, AtpBytes *sig, size_t *at)
{
	*w = (AtpCborWriter) {.buf = palloc(Max(map.len, 1)), .cap = map.len};
	return atp_sig_cut(map.ptr, map.len, is_label, w, sig, at);
}

/* The block that a CAR file's first root names, its hash checked. */
static AtpBytes
root_block(const bytea *file)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;

	err = atp_car_open(&car, (const uint8_t *) VARDATA_ANY(file), VARSIZE_ANY_EXHDR(file), &at);
	if (err == ATP_OK && car.root.ptr == NULL)
		err = ATP_E_CAR_NO_ROOT;
	while (err == ATP_OK && (err = atp_car_next(&car, &block, &at)) == ATP_OK)
	{
		CHECK_FOR_INTERRUPTS();
		if (block.cid.len != car.root.len || memcmp(block.cid.ptr, car.root.ptr, car.root.len) != 0)
			continue;
		if ((err = atp_car_verify(&block, atp_sha256, NULL)) == ATP_OK)
			return block.data;
	}
	if (err == ATP_E_CAR_END)
	{
		err = ATP_E_COMMIT_MISSING;
		at = car.root.ptr - car.buf;
	}
	atp_data_error("invalid CAR file", err, at);
}

/* The commit of a CAR file; *block is what it is read from. */
static void
read_commit(const bytea *file, AtpCommit *commit, AtpBytes *block)
{
	size_t		at;
	AtpErr		err;

	*block = root_block(file);
	if ((err = atp_commit_parse(block->ptr, block->len, commit, &at)) != ATP_OK)
		atp_data_error("invalid CAR file", err, block->ptr - (const uint8_t *) VARDATA_ANY(file) + at);
}

Datum
atp_pg_verify_commit(PG_FUNCTION_ARGS)
{
	bytea	   *file = PG_GETARG_BYTEA_PP(0);
	uint8_t		key[ATP_MULTIKEY_LEN];
	AtpBytes	block;
	AtpBytes	sig;
	AtpCommit	commit;
	AtpCborWriter w;
	size_t		at;

	parse_key(PG_GETARG_TEXT_PP(1), key);
	read_commit(file, &commit, &block);
	if (cut(block, false, &w, &sig, &at) != ATP_OK)
		elog(ERROR, "a commit that was read cannot be cut");
	PG_RETURN_BOOL(verify(key, &w, sig));
}

static AtpBytes
dagcbor_of(Jsonb *jb, const char *what)
{
	bytea	   *bytes;
	AtpErr		err = atp_dagcbor_of_jsonb(jb, &bytes);

	if (err != ATP_OK)
		atp_data_error(what, err, ATP_NO_OFFSET);
	return (AtpBytes) {(const uint8_t *) VARDATA(bytes), VARSIZE(bytes) - VARHDRSZ};
}

Datum
atp_pg_verify_label(PG_FUNCTION_ARGS)
{
	AtpBytes	label;
	uint8_t		key[ATP_MULTIKEY_LEN];
	AtpBytes	sig;
	AtpCborWriter w;
	size_t		at;
	AtpErr		err;

	atp_require_utf8();
	parse_key(PG_GETARG_TEXT_PP(1), key);
	label = dagcbor_of(PG_GETARG_JSONB_P(0), "invalid label");
	if ((err = cut(label, true, &w, &sig, &at)) != ATP_OK)
		atp_data_error("invalid label", err, ATP_NO_OFFSET);
	PG_RETURN_BOOL(verify(key, &w, sig));
}

/* For core, which serves no interrupts: a file can have millions of blocks and keys, and each is hashed. */
static void
interruptible_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	CHECK_FOR_INTERRUPTS();
	atp_sha256(ctx, data, len, out);
}

Datum
atp_pg_invert(PG_FUNCTION_ARGS)
{
	bytea	   *file = PG_GETARG_BYTEA_PP(0);
	AtpReposMessage *msg = palloc0(sizeof(AtpReposMessage));
	AtpInversion *inversion = palloc(sizeof(AtpInversion));
	AtpCarIndex index;
	AtpCommit	commit;
	AtpBytes	block;
	AtpBytes	ops;
	size_t		room;
	size_t		at;
	AtpErr		err;

	atp_require_utf8();
	ops = dagcbor_of(PG_GETARG_JSONB_P(1), "invalid operations");
	if ((err = atp_repos_parse_ops(ops.ptr, ops.len, msg, &at)) != ATP_OK)
		atp_data_error("invalid operations", err, ATP_NO_OFFSET);

	/* the message that such a commit comes in */
	read_commit(file, &commit, &block);
	msg->kind = ATP_REPOS_SYNC;
	msg->did = commit.did;
	msg->rev = commit.rev;
	msg->blocks = (AtpBytes) {(const uint8_t *) VARDATA_ANY(file), VARSIZE_ANY_EXHDR(file)};

	atp_block_index_init(&index, msg->blocks.ptr, msg->blocks.len);
	room = atp_invert_room(msg->blocks.len, msg->nops);
	atp_invert_begin(inversion, palloc_extended(room, MCXT_ALLOC_HUGE), room, interruptible_sha256, NULL);
	if ((err = atp_commit_invert(msg, &index, inversion, interruptible_sha256, NULL, &at)) != ATP_OK)
		atp_data_error("invalid commit", err, at);
	if (!inversion->known)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_cidlink_make(inversion->root, sizeof(inversion->root)));
}
