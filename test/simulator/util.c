/*
 * util.c
 *		An end with a message, memory, SHA-256.
 */
#include "util.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void
die(const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fputs("simulate: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

void *
xrealloc(void *p, size_t n)
{
	void	   *q = realloc(p, n);

	if (q == NULL && n > 0)
		die("out of memory (%zu bytes)", n);
	return q;
}

void *
xcalloc(size_t n, size_t size)
{
	void	   *p = calloc(n, size);

	if (p == NULL)
		die("out of memory (%zu bytes)", n * size);
	return p;
}

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
