/*
 * verify_sql.c
 *		SQL functions that verify signed data: atproto.verify_commit, atproto.verify_label, atproto.invert.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "core/repo/car.h"
#include "core/repo/commit.h"
#include "core/wire/commit_check.h"
#include "data/block_index.h"
#include "data/error.h"
#include "data/jsonb_read.h"
#include "data/signed.h"
#include "common/sha256.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_verify_commit);
PG_FUNCTION_INFO_V1(atp_pg_verify_label);
PG_FUNCTION_INFO_V1(atp_pg_invert);

/* The block of a CAR file's first root, with a verified hash. */
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

/* Parses the commit of a CAR file; *block is the commit's block. */
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
	AtpCommit	commit;

	atp_key_of_text(PG_GETARG_TEXT_PP(1), key);
	read_commit(file, &commit, &block);
	PG_RETURN_BOOL(atp_is_signed(key, block, false));
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

	atp_require_utf8();
	atp_key_of_text(PG_GETARG_TEXT_PP(1), key);
	label = dagcbor_of(PG_GETARG_JSONB_P(0), "invalid label");
	PG_RETURN_BOOL(atp_is_signed(key, label, true));
}

/*
 * src/core does not check for interrupts.  A file can have millions of blocks and keys, and each is hashed:
 * so the hash function checks.
 */
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

	/* The #sync message in which such a commit would arrive. */
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
