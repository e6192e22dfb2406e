/*
 * signed.c
 *		Parses keys and verifies signatures of blocks, with errors for users:
 *		see signed.h.
 */
#include "postgres.h"

#include "core/repo/sig.h"
#include "data/error.h"
#include "data/signed.h"
#include "common/sha256.h"
#include "common/signature.h"

void
atp_key_of_text(const text *in, uint8_t key[ATP_MULTIKEY_LEN])
{
	size_t		at;
	AtpErr		err = atp_multikey_parse(VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in), key, &at);

	if (err != ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid key at byte %zu", atp_byte_number(at)),
				 errdetail("%s", atp_err_text(err))));
}

void
atp_require_curve(AtpErr err)
{
	if (err == ATP_E_KEY_BUILD)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("signatures by secp256k1 are not supported by this build"),
				 errhint("Build the extension where libsecp256k1 and its header are installed.")));
}

bool
atp_is_signed(const uint8_t key[ATP_MULTIKEY_LEN], AtpBytes map, bool is_label)
{
	AtpCborWriter w = {.buf = palloc(Max(map.len, 1)), .cap = map.len};
	AtpBytes	sig;
	size_t		at;
	AtpErr		err = atp_sig_cut(map.ptr, map.len, is_label, &w, &sig, &at);

	if (err != ATP_OK)
		atp_data_error(is_label ? "invalid label" : "invalid commit", err, ATP_NO_OFFSET);
	err = atp_sig_verify(key, w.buf, w.len, sig, atp_sha256, NULL, atp_signature_verify, NULL);
	atp_require_curve(err);
	if (err == ATP_E_KEY_POINT)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid key"),
				 errdetail("%s", atp_err_text(err))));
	pfree(w.buf);
	return err == ATP_OK;
}
