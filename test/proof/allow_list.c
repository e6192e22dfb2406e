/*
 * allow_list.c
 *		The setting atproto.fetch_allow.
 *
 * proves: atp_allow_check atp_allow_host atp_allow_address
 * sources: core/syntax/allow_list.c core/syntax/address.c core/syntax/chars.c
 * short: -DN=9 --unwind 11 --unwindset parse_network.0:129,parse_v6.0:5,parse_v4.0:4,memcmp.0:17
 * long: -DN=14 --unwind 18 --unwindset parse_network.0:129,memcmp.0:17
 */
#include "core/syntax/allow_list.h"
#include "lib/proof.h"

int
main(void)
{
	static const AtpSpan http = {"http", 4};
	static const AtpSpan host = {"a", 1};
	AtpAddress	address = {.v4 = true};
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_allow_check(s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	for (int i = 0; i < 4; i++)
		address.bytes[i] = any_byte();
	if (n > 0 && atp_allow_host(s, n, http, host, 80))
		REACHED("a host in the list");
	if (n > 0 && atp_allow_address(s, n, &address))
		REACHED("an address in the list");
	return 0;
}
