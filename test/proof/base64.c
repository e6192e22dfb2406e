/*
 * base64.c
 *		base64: the decoder reads and writes within bounds, and decodes what RFC 4648 encodes.
 *
 * proves: atp_base64_decode
 * sources: core/syntax/base64.c
 * short: -DN=9 --unwind 14
 * long: -DN=18 --unwind 27
 */
#include "core/syntax/base64.h"
#include "lib/proof.h"

/* RFC 4648, section 4; returns the length without padding, *padded that with padding. */
static size_t
encode(const uint8_t *in, size_t n, char *out, size_t *padded)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t		len = 0;

	*padded = 0;
	for (size_t i = 0; i < n; i += 3)
	{
		uint32_t	bits = (uint32_t) in[i] << 16 | (i + 1 < n ? (uint32_t) in[i + 1] << 8 : 0) | (i + 2 < n ? in[i + 2] : 0);
		size_t		chars = n - i >= 3 ? 4 : n - i + 1;

		for (size_t j = 0; j < 4; j++)
			out[*padded + j] = j < chars ? digits[bits >> (18 - 6 * j) & 63] : '=';
		*padded += 4;
		len += chars;
	}
	return len;
}

static void
any_text(void)
{
	uint8_t		out[N];
	size_t		on;
	size_t		only_counted;
	bool		exact;
	bool		valid;

	ANY_TEXT(s, n, N);
	valid = atp_base64_decode(s, n, out + N - n, &on, &exact);
	LAW(on <= n);
	LAW(atp_base64_decode(s, n, NULL, &only_counted, &exact) == valid && only_counted == on);
	if (valid && on > 0)
		REACHED("a valid text");
}

static void
encoded(void)
{
	uint8_t		in[N * 3 / 4];
	char		text[N + 4];
	uint8_t		out[N + 4];
	size_t		n = any_size(sizeof(in));
	size_t		padded;
	size_t		len = encode(in, n, text, &padded);
	size_t		on;
	bool		exact;

	LAW(atp_base64_decode(text, any_bool() ? padded : len, out, &on, &exact));
	LAW(exact && same_bytes(in, n, out, on));
	if (n > 0)
		REACHED("an encoded text");
}

int
main(void)
{
	any_text();
	encoded();
	return 0;
}
