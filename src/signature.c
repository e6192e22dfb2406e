/*
 * signature.c
 *		The curves for src/core: k256 by libsecp256k1, P-256 by OpenSSL.
 *
 * Keys are parsed once and kept by their bytes, of which they are a function:
 * nothing has to be forgotten when an account changes its key.  A cache has one
 * place for each key, and keeps who came last.  It lives as long as the process.
 *
 * The build says by ATP_SECP256K1 whether libsecp256k1 is there (Makefile).
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
#include <openssl/core_names.h>
#include <openssl/params.h>
#else
#include <openssl/x509.h>
#endif
#ifdef ATP_SECP256K1
#include <secp256k1.h>
#endif

#include "signature.h"
#include "utils/memutils.h"

/* Keys in a cache, powers of two: most accounts have k256, and P-256 takes 2 kB. */
#define K256_CACHE	16384
#define P256_CACHE	1024

/* x is spread evenly, unless somebody pays for keys that are not: that costs time only. */
static size_t
place_of(const uint8_t key[ATP_MULTIKEY_LEN], size_t places)
{
	uint32_t	x;

	memcpy(&x, key + ATP_MULTIKEY_LEN - sizeof(x), sizeof(x));
	return x & (places - 1);
}

#ifdef ATP_SECP256K1

typedef struct K256Key
{
	uint8_t		key[ATP_MULTIKEY_LEN];	/* all zeros: none */
	secp256k1_pubkey parsed;
} K256Key;

static secp256k1_context *k256_ctx = NULL;
static K256Key *k256_keys = NULL;

/* Its own would end the process; without one, the call fails. */
static void
ignore(const char *message, void *data)
{
}

static void
k256_init(void)
{
	if (k256_ctx == NULL)
		k256_ctx = secp256k1_context_create(SECP256K1_CONTEXT_VERIFY);
	secp256k1_context_set_illegal_callback(k256_ctx, ignore, NULL);
	k256_keys = MemoryContextAllocZero(TopMemoryContext, K256_CACHE * sizeof(K256Key));
}

static AtpErr
k256_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	secp256k1_ecdsa_signature s;
	K256Key    *slot;

	if (unlikely(k256_keys == NULL))
		k256_init();
	slot = &k256_keys[place_of(key, K256_CACHE)];
	if (memcmp(slot->key, key, sizeof(slot->key)) != 0)
	{
		memset(slot->key, 0, sizeof(slot->key));
		if (!secp256k1_ec_pubkey_parse(k256_ctx, &slot->parsed, key + 2, ATP_POINT_LEN))
			return ATP_E_KEY_POINT;
		memcpy(slot->key, key, sizeof(slot->key));
	}
	if (secp256k1_ecdsa_signature_parse_compact(k256_ctx, &s, sig) &&
		secp256k1_ecdsa_verify(k256_ctx, &s, digest, &slot->parsed))
		return ATP_OK;
	return ATP_E_SIG_WRONG;
}

#endif							/* ATP_SECP256K1 */

typedef struct P256Key
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	EVP_PKEY_CTX *ctx;			/* ready to verify; NULL: none */
} P256Key;

static P256Key *p256_keys = NULL;

/*
 * OpenSSL has failed: because of what it was given, or because memory ran out?
 * Of the first there is nothing to say here.
 */
static void
check_memory(void)
{
	unsigned long code;
	bool		out_of_memory = false;

	while ((code = ERR_get_error()) != 0)
		out_of_memory = out_of_memory || ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
	if (out_of_memory)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed while verifying a signature.")));
}

/* NULL when it is not a point of the curve. */
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
static EVP_PKEY *
p256_point(const uint8_t *point, size_t n)
{
	/* d2i_PUBKEY() would look for a decoder each time, which takes four times as long */
	static EVP_PKEY_CTX *maker = NULL;
	OSSL_PARAM	params[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, (char *) "P-256", 0),
		OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *) point, n),
		OSSL_PARAM_construct_end()
	};
	EVP_PKEY   *parsed = NULL;

	if (maker == NULL)
		maker = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	if (maker == NULL || EVP_PKEY_fromdata_init(maker) != 1)
	{
		check_memory();
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("OpenSSL does not offer elliptic curves")));
	}
	if (EVP_PKEY_fromdata(maker, &parsed, EVP_PKEY_PUBLIC_KEY, params) != 1)
	{
		check_memory();
		return NULL;
	}
	return parsed;
}
#else
/*
 * A P-256 key as a SubjectPublicKeyInfo, up to the compressed point; a long point
 * adds its length to two of the bytes.
 */
static const uint8_t p256_info[] = {
	0x30, 0x39, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
	0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x22, 0x00
};

static EVP_PKEY *
p256_point(const uint8_t *point, size_t n)
{
	uint8_t		info[sizeof(p256_info) + ATP_POINT_LONG_LEN];
	const uint8_t *p = info;
	EVP_PKEY   *parsed;

	memcpy(info, p256_info, sizeof(p256_info));
	info[1] += (uint8_t) (n - ATP_POINT_LEN);
	info[sizeof(p256_info) - 2] += (uint8_t) (n - ATP_POINT_LEN);
	memcpy(info + sizeof(p256_info), point, n);
	parsed = d2i_PUBKEY(NULL, &p, sizeof(p256_info) + n);
	if (parsed == NULL)
		check_memory();
	return parsed;
}
#endif

static EVP_PKEY_CTX *
p256_parse(const uint8_t key[ATP_MULTIKEY_LEN])
{
	EVP_PKEY   *parsed = p256_point(key + 2, ATP_POINT_LEN);
	EVP_PKEY_CTX *ctx = NULL;

	if (parsed != NULL)
		ctx = EVP_PKEY_CTX_new(parsed, NULL);
	EVP_PKEY_free(parsed);		/* the context keeps it */
	if (ctx != NULL && EVP_PKEY_verify_init(ctx) != 1)
	{
		EVP_PKEY_CTX_free(ctx);
		ctx = NULL;
	}
	if (ctx == NULL)
		check_memory();
	return ctx;
}

/* A number of 32 bytes as an INTEGER of DER; gives the end. */
static uint8_t *
put_integer(uint8_t *out, const uint8_t number[32])
{
	size_t		skip = 0;
	bool		sign;

	while (skip < 31 && number[skip] == 0)
		skip++;
	sign = (number[skip] & 0x80) != 0;
	*out++ = 0x02;
	*out++ = (uint8_t) (32 - skip + sign);
	if (sign)
		*out++ = 0;
	memcpy(out, number + skip, 32 - skip);
	return out + (32 - skip);
}

static AtpErr
p256_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	uint8_t		der[2 + 2 * (2 + 1 + 32)];
	uint8_t    *end;
	P256Key    *slot;

	if (unlikely(p256_keys == NULL))
		p256_keys = MemoryContextAllocZero(TopMemoryContext, P256_CACHE * sizeof(P256Key));
	slot = &p256_keys[place_of(key, P256_CACHE)];
	if (slot->ctx == NULL || memcmp(slot->key, key, sizeof(slot->key)) != 0)
	{
		EVP_PKEY_CTX_free(slot->ctx);
		slot->ctx = NULL;
		slot->ctx = p256_parse(key);
		if (slot->ctx == NULL)
			return ATP_E_KEY_POINT;
		memcpy(slot->key, key, sizeof(slot->key));
	}
	end = put_integer(der + 2, sig);
	end = put_integer(end, sig + 32);
	der[0] = 0x30;
	der[1] = (uint8_t) (end - der - 2);
	if (EVP_PKEY_verify(slot->ctx, der, end - der, digest, 32) == 1)
		return ATP_OK;

	/*
	 * It says that it failed, too, when the signature leads to the point at
	 * infinity, as the owner of a key can make one: that is no fault of ours.
	 */
	check_memory();
	return ATP_E_SIG_WRONG;
}

bool
atp_signature_has_k256(void)
{
#ifdef ATP_SECP256K1
	return true;
#else
	return false;
#endif
}

AtpErr
atp_signature_verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN],
					 const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	if (atp_multikey_curve(key) == ATP_P256)
		return p256_verify(key, digest, sig);
#ifdef ATP_SECP256K1
	return k256_verify(key, digest, sig);
#else
	return ATP_E_KEY_BUILD;
#endif
}

bool
atp_signature_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	EVP_PKEY   *parsed;

	if (curve == ATP_K256)
	{
#ifdef ATP_SECP256K1
		secp256k1_pubkey key;

		if (k256_keys == NULL)
			k256_init();
		return secp256k1_ec_pubkey_parse(k256_ctx, &key, point, n);
#else
		return false;
#endif
	}
	parsed = p256_point(point, n);
	if (parsed == NULL)
		return false;
	EVP_PKEY_free(parsed);
	return true;
}
