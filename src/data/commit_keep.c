/*
 * commit_keep.c
 *		What the tables keep of a signed commit: see commit_keep.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "core/codec/cid.h"
#include "core/repo/commit_write.h"
#include "data/commit_keep.h"
#include "data/record_path.h"

static bytea *
bytea_of(AtpBytes bytes)
{
	bytea	   *result = palloc(VARHDRSZ + bytes.len);

	SET_VARSIZE(result, VARHDRSZ + bytes.len);
	memcpy(VARDATA(result), bytes.ptr, bytes.len);
	return result;
}

bytea *
atp_commit_keep(AtpBytes sig, AtpBytes block, bool plain, bytea **kept)
{
	/* the limit bounds the memory for the rows of a batch: an account's commit may have a million bytes of unknown members */
	*kept = plain ? NULL : bytea_of(block.len <= ATP_COMMIT_KEPT_MAX ? block : (AtpBytes) {block.ptr, 0});
	return bytea_of(sig);
}

bytea *
atp_commit_make(const struct varlena *did, uint64 rev, const struct varlena *data, const bytea *sig, const bytea *kept)
{
	uint8_t		made[ATP_COMMIT_PLAIN_MAX];
	AtpCborWriter w = {.buf = made, .cap = sizeof(made)};
	AtpCommit	commit = {.rev = rev};

	if (kept != NULL)
		return VARSIZE_ANY_EXHDR(kept) == 0 ? NULL : bytea_of((AtpBytes) {(const uint8_t *) VARDATA_ANY(kept), VARSIZE_ANY_EXHDR(kept)});
	if (VARSIZE_ANY_EXHDR(sig) != ATP_COMMIT_SIG_LEN || VARSIZE_ANY_EXHDR(data) != ATP_CID_BLESSED_LEN)
		return NULL;
	commit.did = atp_did_span(did);
	commit.data = (AtpBytes) {(const uint8_t *) VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data)};
	commit.sig = (AtpBytes) {(const uint8_t *) VARDATA_ANY(sig), VARSIZE_ANY_EXHDR(sig)};
	atp_commit_put(&w, &commit);
	return bytea_of((AtpBytes) {made, w.len});
}
