/*
 * signature.c
 *		Signature verification for src/core: k256 by libsecp256k1, P-256 by OpenSSL.
 *
 * Parsed keys are cached by the bytes of the key.  A parsed key is a function of these bytes, so a
 * cache entry never becomes stale, even when an account changes its key.  Each cache is direct-mapped:
 * a key has one slot, and the key used last occupies the slot.  A cache lives as long as the process.
 *
 * The Makefile defines ATP_SECP256K1 where libsecp256k1 is installed.
 */
#include "postgres.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/opensslv.h>
#include <openssl/x509.h>
#ifdef ATP_SECP256K1
#include <secp256k1.h>
#endif

#include "common/signature.h"
#include "utils/memutils.h"

#if OPENSSL_VERSION_NUMBER < 0x30000000L
#define EVP_PKEY_set1_encoded_public_key	EVP_PKEY_set1_tls_encodedpoint
#define EVP_PKEY_get1_encoded_public_key	EVP_PKEY_get1_tls_encodedpoint
#endif

/* Slots of a cache, a power of two: 1.6 MB for each curve. */
#define KEY_CACHE	16384

/*
 * The slot of a key, from the low bits of the point's x coordinate.  Coordinates of honest keys are evenly
 * distributed.  An attacker who generates colliding keys, at some cost, makes the cache miss, which costs
 * only time.
 */
static size_t
place_of(const uint8_t key[ATP_MULTIKEY_LEN])
{
	uint32_t	x;

	memcpy(&x, key + ATP_MULTIKEY_LEN - sizeof(x), sizeof(x));
	return x & (KEY_CACHE - 1);
}

#ifdef ATP_SECP256K1

typedef struct K256Key
{
	uint8_t		key[ATP_MULTIKEY_LEN];	/* all zeros: an empty slot */
	secp256k1_pubkey parsed;
} K256Key;

static secp256k1_context *k256_ctx = NULL;
static K256Key *k256_keys = NULL;

/*
 * Replaces libsecp256k1's callback for illegal arguments, which would abort the process.  With this callback
 * the call returns failure.
 */
static void
ignore_argument(const char *message, void *data)
{
}

static void
k256_init(void)
{
	if (k256_ctx == NULL)
		k256_ctx = secp256k1_context_create(SECP256K1_CONTEXT_VERIFY);
	secp256k1_context_set_illegal_callback(k256_ctx, ignore_argument, NULL);
	k256_keys = MemoryContextAllocZero(TopMemoryContext, KEY_CACHE * sizeof(K256Key));
}

/* The parsed key, in the cache; NULL: the key is not a point of its curve. */
static const secp256k1_pubkey *
k256_parse(const uint8_t key[ATP_MULTIKEY_LEN])
{
	K256Key    *slot;

	if (unlikely(k256_keys == NULL))
		k256_init();
	slot = &k256_keys[place_of(key)];
	if (memcmp(slot->key, key, sizeof(slot->key)) != 0)
	{
		memset(slot->key, 0, sizeof(slot->key));
		if (!secp256k1_ec_pubkey_parse(k256_ctx, &slot->parsed, key + 2, ATP_POINT_LEN))
			return NULL;
		memcpy(slot->key, key, sizeof(slot->key));
	}
	return &slot->parsed;
}

static AtpErr
k256_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	secp256k1_ecdsa_signature s;
	const secp256k1_pubkey *parsed = k256_parse(key);

	if (parsed == NULL)
		return ATP_E_KEY_POINT;
	if (secp256k1_ecdsa_signature_parse_compact(k256_ctx, &s, sig) &&
		secp256k1_ecdsa_verify(k256_ctx, &s, digest, parsed))
		return ATP_OK;
	return ATP_E_SIG_WRONG;
}

#endif							/* ATP_SECP256K1 */

/*
 * OpenSSL needs 25 us to construct a P-256 key from a compressed point: mostly for the parameters of the
 * curve, which are equal in all keys, and for decompressing the y coordinate.  So the process has a single
 * EVP_PKEY, into which the point of the account's key is set, and the cache keeps points uncompressed.
 */
typedef struct P256Key
{
	uint8_t		key[ATP_MULTIKEY_LEN];	/* all zeros: an empty slot */
	uint8_t		point[ATP_POINT_LONG_LEN];
} P256Key;

static EVP_PKEY *p256_key = NULL;
static EVP_PKEY_CTX *p256_ctx = NULL;
static P256Key *p256_keys = NULL;

/* A SubjectPublicKeyInfo of P-256 with the curve's generator as the point. */
static const uint8_t p256_info[] = {
	0x30, 0x39, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
	0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x22, 0x00,
	0x03, 0x6b, 0x17, 0xd1, 0xf2, 0xe1, 0x2c, 0x42, 0x47, 0xf8, 0xbc, 0xe6, 0xe5,
	0x63, 0xa4, 0x40, 0xf2, 0x77, 0x03, 0x7d, 0x81, 0x2d, 0xeb, 0x33, 0xa0, 0xf4,
	0xa1, 0x39, 0x45, 0xd8, 0x98, 0xc2, 0x96
};

/*
 * Called after OpenSSL has failed: raise an ERROR if memory ran out.  When the failure came from invalid
 * input, return, and the caller reports the input as invalid.
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

static void
p256_init(void)
{
	const uint8_t *info = p256_info;

	if (p256_key == NULL)
		p256_key = d2i_PUBKEY(NULL, &info, sizeof(p256_info));
	if (p256_key != NULL && p256_ctx == NULL)
		p256_ctx = EVP_PKEY_CTX_new(p256_key, NULL);
	if (p256_ctx == NULL)
	{
		check_memory();
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("OpenSSL does not offer the curve P-256")));
	}
	p256_keys = MemoryContextAllocZero(TopMemoryContext, KEY_CACHE * sizeof(P256Key));
}

/* Set the point of p256_key; false when the point is not on the curve. */
static bool
p256_set(const uint8_t *point, size_t n)
{
	if (unlikely(p256_keys == NULL))
		p256_init();
	if (EVP_PKEY_set1_encoded_public_key(p256_key, point, n) == 1)
		return true;
	check_memory();
	return false;
}

/* Read the point of p256_key, uncompressed. */
static bool
p256_get(uint8_t point[ATP_POINT_LONG_LEN])
{
	unsigned char *got = NULL;
	size_t		n = EVP_PKEY_get1_encoded_public_key(p256_key, &got);
	bool		is_long = n == ATP_POINT_LONG_LEN;

	if (is_long)
		memcpy(point, got, n);
	else
		check_memory();
	OPENSSL_free(got);
	return is_long;
}

/* Write a 32-byte number as a DER INTEGER; returns the end of the output. */
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

/* The slot of the key in the cache, which may have another key. */
static P256Key *
p256_slot(const uint8_t key[ATP_MULTIKEY_LEN])
{
	if (unlikely(p256_keys == NULL))
		p256_init();
	return &p256_keys[place_of(key)];
}

/* Set p256_key to the key; false when the key is not a point of its curve. */
static bool
p256_load(const uint8_t key[ATP_MULTIKEY_LEN])
{
	P256Key    *slot = p256_slot(key);

	if (memcmp(slot->key, key, sizeof(slot->key)) == 0)
		return p256_set(slot->point, sizeof(slot->point));
	memset(slot->key, 0, sizeof(slot->key));
	if (!p256_set(key + 2, ATP_POINT_LEN))
		return false;
	if (p256_get(slot->point))
		memcpy(slot->key, key, sizeof(slot->key));
	return true;
}

static AtpErr
p256_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	uint8_t		der[2 + 2 * (2 + 1 + 32)];
	uint8_t    *end;

	if (!p256_load(key))
		return ATP_E_KEY_POINT;
	end = put_integer(der + 2, sig);
	end = put_integer(end, sig + 32);
	der[0] = 0x30;
	der[1] = (uint8_t) (end - der - 2);
	if (EVP_PKEY_verify_init(p256_ctx) == 1 &&
		EVP_PKEY_verify(p256_ctx, der, end - der, digest, 32) == 1)
		return ATP_OK;

	/*
	 * EVP_PKEY_verify() also reports an internal failure when the signature leads to the point at infinity,
	 * which the owner of a key can arrange.  Such a signature is wrong; it must not raise an ERROR.  So only
	 * the lack of memory does.
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

AtpErr
atp_signature_key(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN])
{
	if (atp_multikey_curve(key) == ATP_P256)
		return memcmp(p256_slot(key)->key, key, ATP_MULTIKEY_LEN) == 0 || p256_load(key) ? ATP_OK : ATP_E_KEY_POINT;
#ifdef ATP_SECP256K1
	return k256_parse(key) != NULL ? ATP_OK : ATP_E_KEY_POINT;
#else
	return ATP_E_KEY_BUILD;
#endif
}

const AtpVerifier atp_signature_verifier = {.verify = atp_signature_verify, .read = atp_signature_key};

bool
atp_signature_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
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
	return p256_set(point, n);
}
