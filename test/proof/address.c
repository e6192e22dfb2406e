/*
 * address.c
 *		IP addresses: which texts are IPv4 addresses; networks, and addresses that are not public.
 *
 * proves: parse_v4 atp_address_of atp_address_in atp_address_is_public
 * sources: core/syntax/chars.c
 * short: -DN=8 --unwind 9 --unwindset atp_address_is_public.0:20,network.0:17,network.1:17,memcpy.0:17,memcmp.0:17
 * long: -DN=16 --unwind 18 --unwindset atp_address_is_public.0:20
 */
#include "core/syntax/address.c"
#include "lib/grammar.h"

/* Four numbers up to 255 between dots, without leading zeros. */
static void
v4(void)
{
	uint8_t		out[4];
	unsigned	number = 0;
	unsigned	digits = 0;
	unsigned	dots = 0;
	bool		right = true;

	ANY_TEXT(s, n, N);
	for (size_t i = 0; i < n; i++)
	{
		if (s[i] == '.')
		{
			right = right && digits > 0;
			digits = number = 0;
			dots++;
			continue;
		}
		/* a digit after a zero, or too large a number */
		right = right && grammar_digit(s[i]) && !(digits > 0 && number == 0) && digits < 3;
		number = number * 10 + (grammar_digit(s[i]) ? (unsigned) (s[i] - '0') : 0);
		digits++;
		right = right && number < 256;
		if (!right)
			number = digits = 0;
	}
	right = right && digits > 0 && dots == 3;
	LAW(parse_v4(s, s + n, out) == right);
	if (right)
	{
		LAW(out[3] == number);
		REACHED("an IPv4 address");
	}
}

static void
network(void)
{
	AtpAddress	a = {.v4 = any_bool()};
	AtpAddress	net = {.v4 = any_bool()};
	unsigned	bits = (unsigned) any_size(129);
	unsigned	bytes = bits / 8;
	bool		inside;

	for (int i = 0; i < 16; i++)
	{
		a.bytes[i] = any_byte();
		net.bytes[i] = any_byte();
	}
	inside = atp_address_in(&a, &net, bits);
	LAW(!inside || (a.v4 == net.v4 && bits <= (a.v4 ? 32 : 128)));
	if (inside && bytes < 16)
		LAW((a.bytes[bytes] ^ net.bytes[bytes]) < (1 << (8 - bits % 8)));
	for (unsigned i = 0; i < 16; i++)
		LAW(!inside || i >= bytes || a.bytes[i] == net.bytes[i]);
	if (!inside && a.v4 && net.v4 && bits <= 32)
		LAW(memcmp(a.bytes, net.bytes, 4) != 0);
	if (inside && bits == 31)
		REACHED("an address in a network");
}

static void
is_public(void)
{
	uint8_t		b[16];
	AtpAddress	a = atp_address_of(b, any_bool() ? 4 : 16);

	if (!atp_address_is_public(&a))
		return;
	/* the networks that RFC 6890 and its followers keep for other uses */
	if (a.v4)
	{
		const uint8_t *v = a.bytes;

		LAW(v[0] != 0 && v[0] != 10 && v[0] != 127 && v[0] < 224);
		LAW(v[0] != 100 || v[1] < 64 || v[1] > 127);
		LAW(v[0] != 169 || v[1] != 254);
		LAW(v[0] != 172 || v[1] < 16 || v[1] > 31);
		LAW(v[0] != 192 || v[1] != 168);
		LAW(v[0] != 198 || (v[1] != 18 && v[1] != 19));
		REACHED("a public IPv4 address");
	}
	else
	{
		LAW(a.bytes[0] == 0x20 || a.bytes[0] == 0x3f || (a.bytes[0] > 0x20 && a.bytes[0] < 0x40));
		LAW(a.bytes[0] != 0x20 || a.bytes[1] != 2);
		REACHED("a public IPv6 address");
	}
}

int
main(void)
{
	v4();
	network();
	is_public();
	return 0;
}
