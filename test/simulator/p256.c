/*
 * p256.c
 *		ECDSA by hand, on OpenSSL's points and numbers: its own signatures take
 *		random numbers, and then no two runs of the simulator would be equal.
 */
#include "p256.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/obj_mac.h>

typedef struct Curve
{
	EC_GROUP   *group;
	const BIGNUM *order;
	BIGNUM	   *half;			/* of the order */
	EC_POINT   *point;
	BN_CTX	   *ctx;
	BIGNUM	   *d, *e, *k, *r, *s, *x;
} Curve;

static Curve *
curve(void)
{
	static Curve c;

	if (c.group != NULL)
		return &c;
	c.group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	c.ctx = BN_CTX_new();
	if (c.group == NULL || c.ctx == NULL || (c.order = EC_GROUP_get0_order(c.group)) == NULL ||
		(c.point = EC_POINT_new(c.group)) == NULL || (c.half = BN_new()) == NULL || !BN_rshift1(c.half, c.order) ||
		(c.d = BN_new()) == NULL || (c.e = BN_new()) == NULL || (c.k = BN_new()) == NULL ||
		(c.r = BN_new()) == NULL || (c.s = BN_new()) == NULL || (c.x = BN_new()) == NULL)
		die("OpenSSL has no P-256");
	return &c;
}

void
p256_sign(const uint8_t secret[32], const uint8_t digest[DIGEST_LEN], uint8_t sig[64])
{
	Curve	   *c = curve();
	uint8_t		both[64];
	uint8_t		nonce[DIGEST_LEN];

	/* the nonce must be secret, and different for each digest */
	memcpy(both, secret, 32);
	memcpy(both + 32, digest, DIGEST_LEN);
	sha256(NULL, both, sizeof both, nonce);
	if (!BN_bin2bn(secret, 32, c->d) || !BN_bin2bn(digest, DIGEST_LEN, c->e) ||
		!BN_bin2bn(nonce, sizeof nonce, c->k) || !BN_nnmod(c->k, c->k, c->order, c->ctx) ||
		!EC_POINT_mul(c->group, c->point, c->k, NULL, NULL, c->ctx) ||
		!EC_POINT_get_affine_coordinates(c->group, c->point, c->x, NULL, c->ctx) ||
		!BN_nnmod(c->r, c->x, c->order, c->ctx) ||
		/* s = (e + r d) / k */
		!BN_mod_mul(c->s, c->r, c->d, c->order, c->ctx) ||
		!BN_mod_add(c->s, c->s, c->e, c->order, c->ctx) ||
		!BN_mod_inverse(c->k, c->k, c->order, c->ctx) ||
		!BN_mod_mul(c->s, c->s, c->k, c->order, c->ctx) ||
		BN_is_zero(c->r) || BN_is_zero(c->s))
		die("cannot sign with P-256");
	if (BN_cmp(c->s, c->half) > 0 && !BN_sub(c->s, c->order, c->s))
		die("cannot sign with P-256");
	if (BN_bn2binpad(c->r, sig, 32) != 32 || BN_bn2binpad(c->s, sig + 32, 32) != 32)
		die("cannot sign with P-256");
}

void
p256_public(const uint8_t secret[32], uint8_t out[33])
{
	Curve	   *c = curve();

	if (!BN_bin2bn(secret, 32, c->d) || BN_is_zero(c->d) || BN_cmp(c->d, c->order) >= 0 ||
		!EC_POINT_mul(c->group, c->point, c->d, NULL, NULL, c->ctx) ||
		EC_POINT_point2oct(c->group, c->point, POINT_CONVERSION_COMPRESSED, out, 33, c->ctx) != 33)
		die("P-256 has no such key");
}
