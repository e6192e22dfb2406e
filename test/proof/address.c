/*
 * address.c
 *		IP addresses.
 *
 * proves: atp_address_parse atp_address_of atp_address_in atp_address_is_public
 * sources: core/syntax/address.c core/syntax/chars.c
 * short: -DN=9 --unwind 20 --unwindset parse_v6.0:5,parse_v6.1:11,parse_v4.0:4,memcmp.0:17
 * long: -DN=20 --unwind 21
 * not proved: texts of all eight groups (39 characters), which only the long form comes near
 */
#include "core/syntax/address.h"
#include "lib/proof.h"

int
main(void)
{
	AtpAddress	address;
	AtpAddress	net;
	unsigned	bits = any_byte();
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_address_parse(s, n, &address, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(atp_address_in(&address, &address, address.v4 ? 32 : 128));
	for (int i = 0; i < 16; i++)
		net.bytes[i] = any_byte();
	net.v4 = any_bool();
	if (atp_address_in(&address, &net, bits))
		LAW(address.v4 == net.v4 && bits <= (net.v4 ? 32 : 128));
	if (atp_address_is_public(&address) && address.v4)
	{
		LAW(address.bytes[0] != 127 && address.bytes[0] != 10);
		REACHED("a public IPv4 address");
	}
	if (!address.v4)
		REACHED("an IPv6 address");
	return 0;
}
