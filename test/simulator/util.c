/*
 * util.c
 *		Copies of strings, SHA-256.
 */
#include "util.h"

#include <openssl/evp.h>

char *
xstrndup(const char *s, size_t n)
{
	char	   *copy = xrealloc(NULL, n + 1);

	memcpy(copy, s, n);
	copy[n] = '\0';
	return copy;
}

/* The algorithm is looked up once: that takes longer than most blocks do. */
void
sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[DIGEST_LEN])
{
	static EVP_MD *md;
	static EVP_MD_CTX *md_ctx;

	(void) ctx;
	if (md == NULL && ((md = EVP_MD_fetch(NULL, "SHA256", NULL)) == NULL ||
					   (md_ctx = EVP_MD_CTX_new()) == NULL))
		die("OpenSSL has no SHA-256");
	if (EVP_DigestInit_ex(md_ctx, md, NULL) != 1 ||
		EVP_DigestUpdate(md_ctx, data, len) != 1 ||
		EVP_DigestFinal_ex(md_ctx, out, NULL) != 1)
		die("SHA-256 failed");
}
