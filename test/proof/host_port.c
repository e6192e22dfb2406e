/*
 * host_port.c
 *		host[:port]
 *
 * proves: atp_host_port_parse atp_host_spell
 * sources: core/syntax/host_port.c core/syntax/chars.c
 * short: -DN=5 --unwind 6 --unwindset port.0:8,memchr.0:9,atp_host_port_parse.0:6
 * long: -DN=9 --unwind 10
 */
#include "core/syntax/chars.h"
#include "core/syntax/host_port.h"
#include "lib/grammar.h"

/* W-14, without a port: labels, the last of which begins with no digit, and perhaps a dot. */
static bool
is_host(const char *s, size_t n)
{
	unsigned	dots;
	size_t		last;

	if (n > 1 && s[n - 1] == '.')
		n--;
	return grammar_labels(s, n, &dots, &last) && !grammar_digit(s[last]);
}

static void
host(void)
{
	char		out[N];
	char		again[N];
	size_t		len;
	uint16_t	port = 443;
	bool		has_colon = false;
	bool		taken;

	ANY_TEXT(s, n, N);
	for (size_t i = 0; i < n; i++)
		has_colon |= s[i] == ':';
	taken = atp_host_port_parse(s, n, out + N - n, &len, &port);
	LAW(has_colon || taken == is_host(s, n));
	if (!taken)
		return;
	LAW(len > 0 && len <= n && port > 0);
	for (size_t i = 0; i < len; i++)
		LAW(atp_char_lower(out[N - n + i]) == out[N - n + i]);
	LAW(atp_host_spell(out + N - n, len, again) == len && memcmp(again, out + N - n, len) == 0);
	if (port == 80)
		REACHED("a host with a port");
}

static void
port(void)
{
	char		s[8] = "h:";
	char		out[8];
	size_t		n = 2 + any_size(6);
	size_t		len;
	uint16_t	port = 0;
	uint32_t	number = 0;
	bool		right = n > 2 && n <= 7;

	for (size_t i = 2; i < 8; i++)
	{
		s[i] = (char) any_byte();
		if (i >= n)
			continue;
		right = right && grammar_digit(s[i]) && (i > 2 || s[i] != '0');
		if (right)
			number = 10 * number + (uint32_t) (s[i] - '0');
	}
	right = right && number < 65536;
	LAW(atp_host_port_parse(s, n, out, &len, &port) == right);
	LAW(!right || port == number);
	if (port == 65535)
		REACHED("the last port");
}

int
main(void)
{
	host();
	port();
	return 0;
}
