/*
 * host_port.c
 *		host[:port]
 *
 * proves: atp_host_port_parse atp_host_spell
 * sources: core/syntax/host_port.c core/syntax/chars.c
 * short: -DN=5 --unwind 6
 * long: -DN=12 --unwind 14
 */
#include "core/syntax/chars.h"
#include "core/syntax/host_port.h"
#include "lib/proof.h"

int
main(void)
{
	char		out[N];
	char		again[N];
	size_t		len;
	uint16_t	port = 443;

	ANY_TEXT(s, n, N);
	if (!atp_host_port_parse(s, n, out + N - n, &len, &port))
		return 0;
	LAW(len > 0 && len <= n && port > 0);
	for (size_t i = 0; i < len; i++)
		LAW(atp_char_lower(out[N - n + i]) == out[N - n + i]);
	LAW(atp_host_spell(out + N - n, len, again) == len && memcmp(again, out + N - n, len) == 0);
	if (port == 80)
		REACHED("a host with a port");
	return 0;
}
