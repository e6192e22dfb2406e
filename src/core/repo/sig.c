/*
 * sig.c
 *		Signatures of commits and labels: V-05 to V-08, V-49.  See sig.h.
 */
#include "core/codec/dagcbor.h"
#include "core/repo/sig.h"

/* The order n of each curve's group, and half of it. */
static const struct
{
	uint8_t		n[32];
	uint8_t		half[32];
}			orders[] = {
	[ATP_K256] = {
		{
			0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
			0xba, 0xae, 0xdc, 0xe6, 0xaf, 0x48, 0xa0, 0x3b, 0xbf, 0xd2, 0x5e, 0x8c, 0xd0, 0x36, 0x41, 0x41
		},
		{
			0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0x5d, 0x57, 0x6e, 0x73, 0x57, 0xa4, 0x50, 0x1d, 0xdf, 0xe9, 0x2f, 0x46, 0x68, 0x1b, 0x20, 0xa0
		}
	},
	[ATP_P256] = {
		{
			0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51
		},
		{
			0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xde, 0x73, 0x7d, 0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8
		}
	}
};

AtpErr
atp_sig_cut(const uint8_t *block, size_t n, bool is_label, AtpCborWriter *w, AtpBytes *sig, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	uint64_t	pairs;
	size_t		kept = 0;		/* offset of the member that may be written */
	uint64_t	left_out = 0;
	AtpErr		err;

	*sig = (AtpBytes) {NULL, 0};
	atp_cbor_init(&r, block, n, ATP_CBOR_DEPTH_DEFAULT);

	/* The output begins with the number of members that stay: the first round only counts. */
	for (int round = 0; round < 2; round++)
	{
		r.pos = 0;
		if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
			return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
		if (item.kind != ATP_CBOR_MAP)
			return ATP_E_SIG_MAP;
		if (round == 1)
			atp_cbor_put_map(w, item.u - left_out);
		for (pairs = item.u; pairs > 0; pairs--)
		{
			unsigned	depth = r.depth;
			AtpSpan		key;
			bool		is_sig;

			kept = r.pos;
			if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
				return err;
			key = atp_cbor_span(&item);
			is_sig = atp_span_is(key, "sig");
			if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
				return err;
			if (is_sig && item.kind != ATP_CBOR_BYTES)
				return ATP_E_SIG_MAP;
			if (is_sig)
				*sig = item.str;
			if ((err = atp_cbor_finish(&r, depth, at)) != ATP_OK)
				return err;
			if (is_sig || (is_label && atp_span_is(key, "$type")))
				left_out += round == 0;
			else if (round == 1)
				atp_cbor_put_raw(w, block + kept, r.pos - kept);
		}
		*at = r.pos;
		if (r.pos != n)
			return ATP_E_CBOR_TRAILING;
	}
	*at = 0;
	return sig->ptr != NULL ? ATP_OK : ATP_E_SIG_MAP;
}

static bool
is_zero(const uint8_t n[32])
{
	static const uint8_t zero[32];

	return memcmp(n, zero, sizeof(zero)) == 0;
}

AtpErr
atp_sig_check(AtpCurve curve, AtpBytes sig)
{
	if (sig.len != ATP_SIG_LEN)
		return ATP_E_SIG_LENGTH;
	if (is_zero(sig.ptr) || is_zero(sig.ptr + 32) || memcmp(sig.ptr, orders[curve].n, 32) >= 0)
		return ATP_E_SIG_RANGE;
	return memcmp(sig.ptr + 32, orders[curve].half, 32) <= 0 ? ATP_OK : ATP_E_SIG_HIGH;
}

AtpErr
atp_sig_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t *bytes, size_t n, AtpBytes sig,
			   AtpSha256Fn sha256, void *sha_ctx, AtpVerifyFn verify, void *ctx)
{
	uint8_t		digest[32];
	AtpErr		err = atp_sig_check(atp_multikey_curve(key), sig);

	if (err != ATP_OK)
		return err;
	sha256(sha_ctx, bytes, n, digest);
	return verify(ctx, key, digest, sig.ptr);
}
