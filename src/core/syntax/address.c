/*
 * address.c
 *		IP addresses: parsing, membership in a network, and whether an address
 *		is public (W-51).
 */
#include "core/syntax/address.h"
#include "core/syntax/chars.h"

AtpAddress
atp_address_of(const uint8_t *bytes, size_t n)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	static const uint8_t nat64[12] = {0x00, 0x64, 0xff, 0x9b};
	AtpAddress	a = {.v4 = n == 4};

	memcpy(a.bytes, bytes, n);
	if (n == 16 && (memcmp(bytes, mapped, 12) == 0 || memcmp(bytes, nat64, 12) == 0))
	{
		a = (AtpAddress) {.v4 = true};
		memcpy(a.bytes, bytes + 12, 4);
	}
	return a;
}

/* Four decimal numbers with dots between, up to exactly end. */
static bool
parse_v4(const char *s, const char *end, uint8_t *out)
{
	for (int i = 0; i < 4; i++)
	{
		const char *begin = s;
		unsigned	value = 0;

		if (i > 0 && (s == end || *s++ != '.'))
			return false;
		begin = s;
		while (s < end && s - begin < 3 && atp_char_is(*s, ATP_C_DIGIT))
			value = value * 10 + (unsigned) (*s++ - '0');
		/* A leading zero is refused: some parsers read 010 as decimal 10, others as octal 8. */
		if (s == begin || value > 255 || (*begin == '0' && s - begin > 1))
			return false;
		out[i] = (uint8_t) value;
	}
	return s == end;
}

static bool
parse_v6(const char *s, const char *end, uint8_t *out)
{
	size_t		n = 0;			/* bytes written to out */
	size_t		gap = 17;		/* index in out of "::"; above 16: not seen */

	if (end - s >= 2 && s[0] == ':' && s[1] == ':')
	{
		gap = 0;
		s += 2;
	}
	while (s < end)
	{
		const char *begin = s;
		unsigned	value = 0;

		while (s < end && s - begin < 4 && atp_char_is(*s, ATP_C_HEX))
			value = value << 4 | atp_hex_value(*s++);
		if (s < end && *s == '.' && n <= 12)
		{
			if (!parse_v4(begin, end, out + n))
				return false;
			n += 4;
			break;
		}
		if (s == begin || n == 16)
			return false;
		out[n++] = (uint8_t) (value >> 8);
		out[n++] = (uint8_t) value;
		if (s == end)
			break;
		if (*s++ != ':' || s == end)
			return false;
		if (*s == ':')
		{
			if (gap <= 16)
				return false;
			gap = n;
			s++;
		}
	}
	if (gap > 16)
		return n == 16;
	if (n == 16)
		return false;
	memmove(out + 16 - (n - gap), out + gap, n - gap);
	memset(out + gap, 0, 16 - n);
	return true;
}

AtpErr
atp_address_parse(const char *s, size_t n, AtpAddress *address, size_t *at)
{
	uint8_t		bytes[16];

	if (parse_v4(s, s + n, bytes))
		*address = atp_address_of(bytes, 4);
	else if (parse_v6(s, s + n, bytes))
		*address = atp_address_of(bytes, 16);
	else
		return atp_fail(ATP_E_ADDRESS, 0, at);
	return ATP_OK;
}

bool
atp_address_in(const AtpAddress *address, const AtpAddress *net, unsigned bits)
{
	unsigned	whole = bits / 8;

	if (address->v4 != net->v4 || bits > (net->v4 ? 32u : 128u) ||
		memcmp(address->bytes, net->bytes, whole) != 0)
		return false;
	return bits % 8 == 0 ||
		((address->bytes[whole] ^ net->bytes[whole]) >> (8 - bits % 8)) == 0;
}

/* Networks that no request of the extension may reach (W-51), whoever named the host. */
static const struct
{
	AtpAddress	net;
	unsigned	bits;
}			refused[] = {
	{{true, {0}}, 8},			/* this network */
	{{true, {10}}, 8},			/* private */
	{{true, {100, 64}}, 10},	/* carriers' NAT */
	{{true, {127}}, 8},			/* loopback */
	{{true, {169, 254}}, 16},	/* link-local; clouds' metadata */
	{{true, {172, 16}}, 12},	/* private */
	{{true, {192, 0, 0}}, 24},	/* protocol assignments */
	{{true, {192, 0, 2}}, 24},	/* documentation */
	{{true, {192, 88, 99}}, 24},	/* 6to4 relays */
	{{true, {192, 168}}, 16},	/* private */
	{{true, {198, 18}}, 15},	/* benchmarks */
	{{true, {198, 51, 100}}, 24},	/* documentation */
	{{true, {203, 0, 113}}, 24},	/* documentation */
	{{true, {224}}, 4},			/* multicast */
	{{true, {240}}, 4},			/* reserved; broadcast */
	{{false, {0x20, 0x01}}, 23},	/* protocol assignments; Teredo */
	{{false, {0x20, 0x01, 0x0d, 0xb8}}, 32},	/* documentation */
	{{false, {0x20, 0x02}}, 16},	/* 6to4: a tunnel to any IPv4 address, public or not */
	{{false, {0x3f, 0xff}}, 20},	/* documentation */
};

bool
atp_address_is_public(const AtpAddress *address)
{
	static const AtpAddress global = {false, {0x20}};

	/* All public IPv6 addresses assigned so far are in 2000::/3. */
	if (!address->v4 && !atp_address_in(address, &global, 3))
		return false;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (atp_address_in(address, &refused[i].net, refused[i].bits))
			return false;
	return true;
}
