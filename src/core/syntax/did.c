/*
 * did.c
 *		Decentralized identifiers: syntax, stored form, order and normal form.  The order of stored forms must
 *		be the order of the texts: indexes on disk depend on it.
 */
#include "core/syntax/base32.h"
#include "core/syntax/chars.h"
#include "core/syntax/did.h"

#define PLC			"did:plc:"
#define PLC_LEN		(sizeof(PLC) - 1)
#define WEB			"did:web:"
#define WEB_LEN		(sizeof(WEB) - 1)

/* I-20, I-21: the published pattern and its examples.  I-22: any method is accepted; D18: one without digits. */
AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	const char *end = s + n;
	const char *p;
	size_t		i;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_DID_MAX)
		return atp_fail(ATP_E_DID_LONG, ATP_DID_MAX, at);
	for (i = 0; i < 4; i++)
	{
		if (i == n || s[i] != PLC[i])
			return atp_fail(ATP_E_DID_PREFIX, i, at);
	}
	while (i < n && atp_char_is(s[i], ATP_C_LOWER))
		i++;
	if (i == 4 && (i == n || s[i] == ':'))
		return atp_fail(ATP_E_DID_METHOD_EMPTY, i, at);
	if (i == n)
		return atp_fail(ATP_E_DID_COLON, i, at);
	if (s[i] != ':')
		return atp_fail(ATP_E_DID_METHOD, i, at);
	if (i + 1 == n)
		return atp_fail(ATP_E_DID_ID_EMPTY, n, at);
	p = atp_scan_encoded(s + i + 1, end, ATP_C_DID);
	if (p < end)
		return atp_fail(*p == '%' ? ATP_E_PERCENT : ATP_E_DID_CHAR, p - s, at);
	if (end[-1] == ':')
		return atp_fail(ATP_E_DID_END, n - 1, at);
	return ATP_OK;
}

AtpSpan
atp_did_method(const char *s, size_t n)
{
	const char *colon = memchr(s + 4, ':', n - 4);

	return (AtpSpan) {s + 4, colon - s - 4};
}

bool
atp_did_is_blessed(const char *s, size_t n)
{
	return n > PLC_LEN && (memcmp(s, PLC, PLC_LEN) == 0 || memcmp(s, WEB, WEB_LEN) == 0);
}

bool
atp_did_is_plc(const char *s, size_t n)
{
	return n == ATP_DID_PLC_TEXT && memcmp(s, PLC, PLC_LEN) == 0 &&
		atp_is_base32(s + PLC_LEN, ATP_PLC_CHARS);
}

size_t
atp_did_store(const char *restrict s, size_t n, uint8_t *restrict out)
{
	if (n == ATP_DID_PLC_TEXT && memcmp(s, PLC, PLC_LEN) == 0 &&
		atp_plc_pack(s + PLC_LEN, out + 1))
	{
		out[0] = ATP_DID_TAG;
		return ATP_DID_PLC_STORED;
	}
	memcpy(out, s, n);
	return n;
}

bool
atp_did_fits(const uint8_t *stored, size_t n)
{
	return n > 0 && n <= ATP_DID_MAX && (stored[0] != ATP_DID_TAG || n == ATP_DID_PLC_STORED);
}

size_t
atp_did_text(const uint8_t *restrict stored, size_t n, char *restrict out)
{
	if (stored[0] == ATP_DID_TAG)
	{
		memcpy(out, PLC, PLC_LEN);
		atp_plc_unpack(stored + 1, out + PLC_LEN);
		return ATP_DID_PLC_TEXT;
	}
	memcpy(out, stored, n);
	return n;
}

int
atp_did_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	char		text[ATP_DID_PLC_TEXT];
	int			c;

	/*
	 * Two packed DIDs compare by their bytes, two texts as texts; of a mixed pair the packed DID is unpacked.
	 */
	if (a[0] == ATP_DID_TAG && b[0] != ATP_DID_TAG)
	{
		an = atp_did_text(a, an, text);
		a = (const uint8_t *) text;
	}
	else if (b[0] == ATP_DID_TAG && a[0] != ATP_DID_TAG)
	{
		bn = atp_did_text(b, bn, text);
		b = (const uint8_t *) text;
	}
	c = memcmp(a, b, an < bn ? an : bn);
	return c != 0 ? c : (an > bn) - (an < bn);
}

/*
 * Five bits for each of the 12 characters after "did:plc:", as atp_plc_pack() writes them.  From the first
 * character outside base32 on, the bits are those of the nearest base32 text: the lowest bits or the highest.
 * So the abbreviation never inverts the order of two texts.
 */
static uint64_t
abbrev_id(const uint8_t *s)
{
	uint64_t	bits = 0;

	for (int i = 0; i < 12; i++)
	{
		uint8_t		v = atp_base32_value[s[i]];

		/*
		 * Characters outside base32: below '2' (also the text's end), between '7' and 'a', or '~' (in NOSH
		 * URIs).
		 */
		if (v > 31 && s[i] < '2')
			return bits << 5 * (12 - i);
		if (v > 31)
		{
			v = atp_base32_value[s[i] < 'a' ? '7' : 'z'];
			return ((bits << 5 | v) + 1) * (UINT64_C(1) << 5 * (11 - i)) - 1;
		}
		bits = bits << 5 | v;
	}
	return bits;
}

uint64_t
atp_abbrev_text(const uint8_t head[ATP_ABBREV_CHARS])
{
	int			c = memcmp(head, PLC, PLC_LEN);
	int			skip = 0;
	uint64_t	class = 0;

	if (c == 0)
		return UINT64_C(1) << 62 | abbrev_id(head + PLC_LEN) << 2;
	if (c > 0)
	{
		class = 3;
		if (memcmp(head, PLC, 4) == 0)
		{
			class = 2;
			skip = 4;
		}
	}
	return class << 62 | atp_get_be64(head + skip) >> 8 << 6;
}

uint64_t
atp_did_abbrev(const uint8_t *stored, size_t n)
{
	uint8_t		head[ATP_ABBREV_CHARS] = {0};

	if (stored[0] == ATP_DID_TAG)
		return UINT64_C(1) << 62 | atp_get_be64(stored + 1) >> 4 << 2;
	memcpy(head, stored, n < sizeof(head) ? n : sizeof(head));
	return atp_abbrev_text(head);
}

/*
 * N4: "%25HH" is "%HH" encoded twice.  Reduces such an encoding at the end of the output; returns the new
 * end.  atp_did_normalize() calls this after each character, so that a text encoded many times over costs no
 * more than one pass.
 */
static char *
collapse_tail(const char *start, char *out)
{
	while (out - start >= 5 && memcmp(out - 5, "%25", 3) == 0 &&
		   atp_char_is(out[-2], ATP_C_HEX) && atp_char_is(out[-1], ATP_C_HEX))
	{
		char		value = atp_triplet_value(out - 3);

		out -= 5;
		if (!atp_is_needless_encoding(value, true))
			return atp_put_triplet(out, value);
		*out++ = value;
	}
	return out;
}

size_t
atp_did_normalize(const char *s, size_t n, char *out)
{
	const char *end = s + n;
	char	   *o = out;

	while (s < end)
	{
		if (*s != '%')
			*o++ = *s++;
		else
		{
			char		value = atp_triplet_value(s);

			s += 3;
			if (atp_is_needless_encoding(value, true))
				*o++ = value;
			else
				o = atp_put_triplet(o, value);
		}
		o = collapse_tail(out, o);
	}
	n = o - out;
	if (atp_did_is_blessed(out, n))
		atp_lower_encoded(out, n);
	return n;
}
