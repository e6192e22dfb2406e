/*
 * sign.c
 *		Signatures of commits: those of k256 by libsecp256k1, which makes low S and takes
 *		no random numbers for them: the same commit has the same signature always.
 */
#include "sign.h"

#include <secp256k1.h>
#include "p256.h"
#include "core/repo/commit_write.h"

static const secp256k1_context *
context(void)
{
	static secp256k1_context *made;

	if (made == NULL && (made = secp256k1_context_create(SECP256K1_CONTEXT_NONE)) == NULL)
		die("libsecp256k1 cannot start");
	return made;
}

void
sign_commit(const Account *account, const AtpCommit *commit, uint8_t sig[ATP_COMMIT_SIG_LEN])
{
	uint8_t		buf[512];
	AtpCborWriter w = {.buf = buf, .cap = sizeof buf};
	uint8_t		digest[DIGEST_LEN];
	secp256k1_ecdsa_signature s;

	atp_commit_put(&w, commit);
	sha256(NULL, buf, w.len, digest);
	if (account->curve == ATP_P256)
		p256_sign(account->secret, digest, sig);
	else if (w.len > w.cap ||
		!secp256k1_ecdsa_sign(context(), &s, digest, account->secret, NULL, NULL) ||
		!secp256k1_ecdsa_signature_serialize_compact(context(), sig, &s))
		die("cannot sign a commit of %s", account->did);
}

void
public_key(const Account *account, uint8_t out[PUBLIC_KEY_LEN])
{
	secp256k1_pubkey key;
	size_t		len = PUBLIC_KEY_LEN;

	if (account->curve == ATP_P256)
		p256_public(account->secret, out);
	else if (!secp256k1_ec_pubkey_create(context(), &key, account->secret) ||
		!secp256k1_ec_pubkey_serialize(context(), out, &len, &key, SECP256K1_EC_COMPRESSED))
		die("%s has no public key", account->did);
}
