/*
 * multikey.c
 *		Public keys as text: W-09 to W-12.  See multikey.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/multikey.h"

/* The digits of base58btc, in order of their values. */
static const char base58[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

static const uint8_t prefixes[][2] = {
	[ATP_K256] = {0xe7, 0x01},
	[ATP_P256] = {0x80, 0x24}
};

/*
 * Decodes base58btc into at most room bytes; *len is their number.  The text is
 * one number; each leading zero digit stands for a zero byte.
 */
static AtpErr
base58_decode(const char *s, size_t n, uint8_t *out, size_t room, size_t *len, size_t *at)
{
	size_t		zeros = 0;
	size_t		used = 0;		/* bytes of the number, the last byte first */

	if (n > ATP_BASE58_MAX)
		return atp_fail(ATP_E_KEY_LONG, ATP_BASE58_MAX, at);
	while (zeros < n && s[zeros] == base58[0])
		zeros++;
	for (size_t i = zeros; i < n; i++)
	{
		const char *digit = memchr(base58, s[i], sizeof(base58) - 1);
		unsigned	carry;

		if (digit == NULL)
			return atp_fail(ATP_E_KEY_BASE58, i, at);
		carry = (unsigned) (digit - base58);
		for (size_t k = 0; k < used; k++)
		{
			carry += out[k] * 58u;
			out[k] = (uint8_t) carry;
			carry >>= 8;
		}
		if (carry > 0)
		{
			if (used == room)
				return atp_fail(ATP_E_KEY_LENGTH, i, at);
			out[used++] = (uint8_t) carry;
		}
	}
	if (zeros > room - used)
		return atp_fail(ATP_E_KEY_LENGTH, 0, at);
	for (size_t k = 0; k < used / 2; k++)
	{
		uint8_t		byte = out[k];

		out[k] = out[used - 1 - k];
		out[used - 1 - k] = byte;
	}
	memmove(out + zeros, out, used);
	memset(out, 0, zeros);
	*len = zeros + used;
	return ATP_OK;
}

AtpErr
atp_multikey_parse(const char *s, size_t n, uint8_t key[ATP_MULTIKEY_LEN], size_t *at)
{
	static const char did_key[] = "did:key:";
	size_t		skip = n >= sizeof(did_key) - 1 && memcmp(s, did_key, sizeof(did_key) - 1) == 0 ?
		sizeof(did_key) - 1 : 0;
	size_t		len;
	AtpErr		err;

	if (n == skip || s[skip] != 'z')
		return atp_fail(ATP_E_KEY_BASE, skip, at);
	skip++;
	if ((err = base58_decode(s + skip, n - skip, key, ATP_MULTIKEY_LEN, &len, at)) != ATP_OK)
	{
		*at += skip;
		return err;
	}
	*at = skip;
	if (len < 2 || (memcmp(key, prefixes[ATP_K256], 2) != 0 && memcmp(key, prefixes[ATP_P256], 2) != 0))
		return ATP_E_KEY_TYPE;
	if (len != ATP_MULTIKEY_LEN)
		return ATP_E_KEY_LENGTH;
	return key[2] == 2 || key[2] == 3 ? ATP_OK : ATP_E_KEY_POINT;
}

void
atp_multikey_make(AtpCurve curve, const uint8_t point[ATP_POINT_LEN], uint8_t key[ATP_MULTIKEY_LEN])
{
	memcpy(key, prefixes[curve], 2);
	memcpy(key + 2, point, ATP_POINT_LEN);
}

AtpErr
atp_multikey_parse_bare(const char *s, size_t n, AtpCurve curve, uint8_t key[ATP_MULTIKEY_LEN],
						uint8_t point[ATP_POINT_LONG_LEN], size_t *len, size_t *at)
{
	AtpErr		err;

	if (n == 0 || s[0] != 'z')
		return atp_fail(ATP_E_KEY_BASE, 0, at);
	if ((err = base58_decode(s + 1, n - 1, point, ATP_POINT_LONG_LEN, len, at)) != ATP_OK)
	{
		*at += 1;
		return err;
	}
	*at = 1;
	if (*len != ATP_POINT_LEN && *len != ATP_POINT_LONG_LEN)
		return ATP_E_KEY_LENGTH;
	if (*len == ATP_POINT_LEN ? point[0] != 2 && point[0] != 3 : point[0] != 4)
		return ATP_E_KEY_POINT;
	atp_multikey_make(curve, point, key);
	if (*len == ATP_POINT_LONG_LEN)
		key[2] = 2 | (point[ATP_POINT_LONG_LEN - 1] & 1);
	return ATP_OK;
}

#define LIMBS		((ATP_MULTIKEY_LEN + 3) / 4)
#define FOUR_DIGITS	(58u * 58 * 58 * 58)

size_t
atp_multikey_text(const uint8_t key[ATP_MULTIKEY_LEN], char out[ATP_MULTIKEY_TEXT])
{
	uint32_t	number[LIMBS] = {0};	/* the most significant first */

	for (size_t i = 0; i < ATP_MULTIKEY_LEN; i++)
	{
		size_t		power = ATP_MULTIKEY_LEN - 1 - i;

		number[LIMBS - 1 - power / 4] |= (uint32_t) key[i] << 8 * (power % 4);
	}
	out[0] = 'z';
	/* four digits at a time: 48 digits are 12 divisions of the whole number */
	for (size_t i = ATP_MULTIKEY_TEXT - 1; i > 0; i -= 4)
	{
		uint64_t	rest = 0;

		for (size_t j = 0; j < LIMBS; j++)
		{
			rest = rest << 32 | number[j];
			number[j] = (uint32_t) (rest / FOUR_DIGITS);
			rest %= FOUR_DIGITS;
		}
		for (size_t digit = 0; digit < 4; digit++, rest /= 58)
			out[i - digit] = base58[rest % 58];
	}
	return ATP_MULTIKEY_TEXT;
}
