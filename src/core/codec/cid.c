/*
 * cid.c
 *		Content identifiers, rules B-40 to B-44 and D11: parser, formatter and
 *		checks of forms.
 *
 * A CIDv1 is version, codec, hash function and digest length, each an unsigned
 * varint, and the digest.  Its only text is 'b' and base32 (RFC 4648, lower
 * case, no padding).
 */
#include "core/codec/cid.h"
#include "core/codec/varint.h"

#define SHA2_256_LEN	32

/*
 * Does the CID begin with "01 codec 12 20", with a one-byte codec?  Nearly all
 * do: these skip the varint reader.
 */
static inline bool
is_usual_head(const uint8_t *b, size_t n)
{
	return n >= ATP_CID_BLESSED_LEN && b[0] == 1 && b[1] < 0x80 &&
		b[2] == ATP_CID_SHA2_256 && b[3] == SHA2_256_LEN;
}

AtpErr
atp_cid_prefix(const uint8_t *bytes, size_t n, AtpCid *cid, size_t *len, size_t *at)
{
	size_t		pos = 0;
	uint64_t	version;
	uint64_t	digest_len;
	AtpErr		err;

	if (is_usual_head(bytes, n))
	{
		cid->codec = bytes[1];
		cid->hash = ATP_CID_SHA2_256;
		cid->digest = (AtpBytes) {bytes + 4, SHA2_256_LEN};
		*len = ATP_CID_BLESSED_LEN;
		return ATP_OK;
	}
	*at = 0;
	if (n >= 2 && bytes[0] == ATP_CID_SHA2_256 && bytes[1] == SHA2_256_LEN)
		return ATP_E_CID_V0;
	if ((err = atp_varint_read(bytes, n, &pos, &version)) != ATP_OK)
		return err;
	if (version != 1)
		return ATP_E_CID_VERSION;
	*at = pos;
	if ((err = atp_varint_read(bytes, n, &pos, &cid->codec)) != ATP_OK)
		return err;
	*at = pos;
	if ((err = atp_varint_read(bytes, n, &pos, &cid->hash)) != ATP_OK)
		return err;
	*at = pos;
	if ((err = atp_varint_read(bytes, n, &pos, &digest_len)) != ATP_OK)
		return err;
	if (cid->hash == ATP_CID_SHA2_256 && digest_len != SHA2_256_LEN)
		return ATP_E_CID_DIGEST;
	if (digest_len > ATP_CID_MAX - pos)
		return ATP_E_TOO_LONG;
	if (digest_len > n - pos)
		return ATP_E_CID_TRUNCATED;
	cid->digest = (AtpBytes) {bytes + pos, digest_len};
	*len = pos + digest_len;
	return ATP_OK;
}

/* B-41: version 0 and wrong lengths are refused; any codec and hash function is accepted. */
AtpErr
atp_cid_check(const uint8_t *bytes, size_t n, AtpCid *cid, size_t *at)
{
	size_t		len;
	AtpErr		err = atp_cid_prefix(bytes, n, cid, &len, at);

	if (err == ATP_OK && len != n)
	{
		*at = len;
		err = ATP_E_CID_TRAILING;
	}
	return err;
}

bool
atp_cid_is_blessed(const uint8_t *bytes, size_t n)
{
	return n == ATP_CID_BLESSED_LEN && is_usual_head(bytes, n) &&
		(bytes[1] == ATP_CID_CODEC_DAG_CBOR || bytes[1] == ATP_CID_CODEC_RAW);
}

bool
atp_cid_is_raw(AtpBytes bytes)
{
	AtpCid		cid;
	size_t		at;

	return atp_cid_check(bytes.ptr, bytes.len, &cid, &at) == ATP_OK && cid.codec == ATP_CID_CODEC_RAW;
}

/* Value of a base32 digit, or -1. */
static inline int
base32_value(char c)
{
	if (c >= 'a' && c <= 'z')
		return c - 'a';
	if (c >= '2' && c <= '7')
		return c - '2' + 26;
	return -1;
}

AtpErr
atp_cid_parse(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, size_t *at)
{
	uint32_t	bits = 0;
	unsigned	nbits = 0;
	size_t		len = 0;
	AtpCid		cid;
	AtpErr		err;

	*at = 0;
	if (n == 0)
		return ATP_E_EMPTY;
	if (n >= 2 && s[0] == 'Q' && s[1] == 'm')
		return ATP_E_CID_V0;
	if (s[0] != 'b')
		return ATP_E_CID_BASE;
	if (n > ATP_CID_TEXT_MAX)
	{
		*at = ATP_CID_TEXT_MAX;
		return ATP_E_TOO_LONG;
	}
	for (size_t i = 1; i < n; i++)
	{
		int			value = base32_value(s[i]);

		if (value < 0)
		{
			*at = i;
			return ATP_E_CHAR;
		}
		bits = bits << 5 | (uint32_t) value;
		nbits += 5;
		if (nbits >= 8)
		{
			nbits -= 8;
			out[len++] = (uint8_t) (bits >> nbits);
		}
	}

	/*
	 * 5 or more bits left over: a character too many.  Unused bits must be
	 * zero, so that a CID has one text.
	 */
	if (nbits >= 5 || (bits & ((1u << nbits) - 1)) != 0)
	{
		*at = n - 1;
		return ATP_E_CID_BITS;
	}
	err = atp_cid_check(out, len, &cid, at);
	if (err != ATP_OK)
	{
		*at = 1 + *at * 8 / 5;	/* the character that holds the first bit of the faulty byte */
		if (*at > n)
			*at = n;
		return err;
	}
	*on = len;
	return ATP_OK;
}

size_t
atp_cid_format(const uint8_t *restrict bytes, size_t n, char *restrict out)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint32_t	bits = 0;
	unsigned	nbits = 0;
	size_t		len = 0;

	out[len++] = 'b';
	for (size_t i = 0; i < n; i++)
	{
		bits = bits << 8 | bytes[i];
		nbits += 8;
		while (nbits >= 5)
		{
			nbits -= 5;
			out[len++] = digits[bits >> nbits & 31];
		}
	}
	if (nbits > 0)
		out[len++] = digits[bits << (5 - nbits) & 31];
	return len;
}

bool
atp_cid_is_syntax(const char *s, size_t n)
{
	if (n < 8 || n > 256 || memcmp(s, "Qmb", 3) == 0)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		char		c = s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			  (c >= '0' && c <= '9') || c == '+' || c == '='))
			return false;
	}
	return true;
}

void
atp_cid_of(uint64_t codec, const uint8_t *block, size_t n,
		   AtpSha256Fn sha256, void *ctx, uint8_t out[ATP_CID_BLESSED_LEN])
{
	out[0] = 1;
	out[1] = (uint8_t) codec;
	out[2] = ATP_CID_SHA2_256;
	out[3] = SHA2_256_LEN;
	sha256(ctx, block, n, out + 4);
}
