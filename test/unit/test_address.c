/*
 * test_address.c
 *		Addresses, and the list of allowed addresses: rules W-50 and W-51.
 */
#include "core/syntax/address.h"
#include "core/syntax/allow_list.h"
#include "syntax.h"

static AtpAddress
address(const char *s)
{
	AtpAddress	a;
	size_t		at;

	ok(atp_address_parse(s, strlen(s), &a, &at) == ATP_OK, "W-51: %s is an address", s);
	return a;
}

static AtpErr
check_address(const char *s, size_t n, size_t *at)
{
	AtpAddress	a;

	return atp_address_parse(s, n, &a, at);
}

static void
refused(const char *s)
{
	AtpAddress	a = address(s);

	ok(!atp_address_is_public(&a), "W-51: %s is refused", s);
}

static void
public(const char *s)
{
	AtpAddress	a = address(s);

	ok(atp_address_is_public(&a), "W-51: %s is public", s);
}

static void
same_address(const char *a, const char *b)
{
	AtpAddress	x = address(a);
	AtpAddress	y = address(b);

	ok(x.v4 == y.v4 && memcmp(x.bytes, y.bytes, x.v4 ? 4 : 16) == 0, "W-51: %s is %s", a, b);
}

static bool
names(const char *list, const char *scheme, const char *host, unsigned port)
{
	return atp_allow_host(list, strlen(list), (AtpSpan) {scheme, strlen(scheme)},
						  (AtpSpan) {host, strlen(host)}, port);
}

static bool
holds(const char *list, const char *s)
{
	AtpAddress	a = address(s);

	return atp_allow_address(list, strlen(list), &a);
}

/* The first and the last of each network, and their neighbours. */
static void
check_networks(void)
{
	static const struct
	{
		const char *first,
				   *last,
				   *before,
				   *after;
	}			net[] = {
		{"0.0.0.0", "0.255.255.255", NULL, "1.0.0.0"},
		{"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
		{"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
		{"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
		{"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
		{"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
		{"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
		{"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
		{"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
		{"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
		{"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
		{"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
		{"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
		{"224.0.0.0", "255.255.255.255", "223.255.255.255", NULL},
		{"::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", NULL, "2000::"},
		{"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff::", "2001:200::"},
		{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff::", "2001:db9::"},
		{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff::", "2003::"},
		{"3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"},
		{"4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:ffff::", NULL},
	};

	for (size_t i = 0; i < sizeof(net) / sizeof(net[0]); i++)
	{
		refused(net[i].first);
		refused(net[i].last);
		if (net[i].before != NULL)
			public(net[i].before);
		if (net[i].after != NULL)
			public(net[i].after);
	}
}

int
main(void)
{
	static const uint8_t v6_loopback[16] = {[15] = 1};
	AtpAddress	a;

	check_networks();
	ACCEPTED("W-51", check_address, "1.2.3.4", "0.0.0.0", "::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::",
			 "::2:3:4:5:6:7:8", "ABCD:ef01::", "::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "64:ff9b::8.8.8.8");
	REFUSED("W-51", check_address,
			{"", ATP_E_ADDRESS, 0}, {"1.2.3", ATP_E_ADDRESS, 0}, {"1.2.3.4.", ATP_E_ADDRESS, 0},
			{"1.2.3.4.5", ATP_E_ADDRESS, 0}, {"1.2.3.256", ATP_E_ADDRESS, 0}, {"01.2.3.4", ATP_E_ADDRESS, 0},
			{"0x7f.0.0.1", ATP_E_ADDRESS, 0}, {"2130706433", ATP_E_ADDRESS, 0}, {"127.1", ATP_E_ADDRESS, 0},
			{"1.2.3.1000", ATP_E_ADDRESS, 0}, {" 1.2.3.4", ATP_E_ADDRESS, 0}, {":", ATP_E_ADDRESS, 0},
			{":::", ATP_E_ADDRESS, 0}, {"1::2::3", ATP_E_ADDRESS, 0}, {"1:2:3:4:5:6:7", ATP_E_ADDRESS, 0},
			{"1:2:3:4:5:6:7:8:9", ATP_E_ADDRESS, 0}, {"1:2:3:4:5:6:7:8::", ATP_E_ADDRESS, 0}, {"12345::", ATP_E_ADDRESS, 0},
			{"1:", ATP_E_ADDRESS, 0}, {":1", ATP_E_ADDRESS, 0}, {"fe80::1%eth0", ATP_E_ADDRESS, 0}, {"[::1]", ATP_E_ADDRESS, 0},
			{"1:2:3:4:5:6:7:1.2.3.4", ATP_E_ADDRESS, 0}, {"::1.2.3", ATP_E_ADDRESS, 0}, {"::1.2.3.4:5", ATP_E_ADDRESS, 0});

	/* an IPv4 address is judged by its IPv4 rules, also when written as IPv6 */
	same_address("::ffff:127.0.0.1", "127.0.0.1");
	same_address("::ffff:7f00:1", "127.0.0.1");
	same_address("0:0:0:0:0:ffff:0a00:0001", "10.0.0.1");
	same_address("64:ff9b::169.254.169.254", "169.254.169.254");
	public("::ffff:8.8.8.8");
	public("64:ff9b::808:808");
	refused("::ffff:10.1.2.3");
	refused("64:ff9b::10.1.2.3");
	refused("64:ff9b:1::8.8.8.8");
	refused("::8.8.8.8");
	refused("::ffff:0:8.8.8.8");
	refused("fe80::1");
	refused("fc00::1");
	refused("fec0::1");
	refused("ff02::1");
	public("2606:4700::1111");
	a = atp_address_of(v6_loopback, 16);
	ok(!a.v4 && !atp_address_is_public(&a), "W-51: ::1 as a socket has it");

	ACCEPTED("W-50", atp_allow_check, "", "   ", "https://a", "http://localhost:2583", " https://pds.example.com , 10.0.0.0/8",
			 "HTTPS://A.B:1", "http://127.0.0.1:1", "http://[::1]:65535", "http://[::1]", "::1/128", "fd00::/8", "0.0.0.0/0", "::/0");
	REFUSED("W-50", atp_allow_check,
			{",", ATP_E_EMPTY, 0}, {"https://a,", ATP_E_EMPTY, 10}, {"https://a,,10.0.0.0/8", ATP_E_EMPTY, 10},
			{"ftp://a", ATP_E_ALLOW_SCHEME, 0}, {"://a", ATP_E_ALLOW_SCHEME, 0}, {"https://", ATP_E_ALLOW_HOST, 8},
			{"https://a/", ATP_E_ALLOW_HOST, 8}, {"https://a/b", ATP_E_ALLOW_HOST, 8}, {"https://u@a", ATP_E_ALLOW_HOST, 8},
			{"https://*.a", ATP_E_ALLOW_HOST, 8}, {"https://a:0", ATP_E_ALLOW_PORT, 10}, {"https://a:65536", ATP_E_ALLOW_PORT, 10},
			{"https://a:", ATP_E_ALLOW_PORT, 10}, {"https://a:01", ATP_E_ALLOW_PORT, 10}, {"https://a:x", ATP_E_ALLOW_PORT, 10},
			{"https://1.2.3", ATP_E_ALLOW_HOST, 8}, {"https://0x7f.1", ATP_E_ALLOW_HOST, 8}, {"https://[1.2.3.4]", ATP_E_ALLOW_HOST, 8},
			{"https://::1", ATP_E_ALLOW_HOST, 8}, {"https://a b", ATP_E_ALLOW_HOST, 8}, {"a", ATP_E_ALLOW_NETWORK, 0},
			{"10.0.0.0", ATP_E_ALLOW_NETWORK, 0}, {"10.0.0.0/33", ATP_E_ALLOW_NETWORK, 9}, {"10.0.0.1/8", ATP_E_ALLOW_NETWORK, 9},
			{"10.0.0.0/", ATP_E_ALLOW_NETWORK, 9}, {"fd00::/129", ATP_E_ALLOW_NETWORK, 7}, {"fd00::1/64", ATP_E_ALLOW_NETWORK, 8},
			{"::ffff:10.0.0.0/104", ATP_E_ALLOW_NETWORK, 0}, {"10.0.0.0/8 11.0.0.0/8", ATP_E_ALLOW_NETWORK, 9});

#define LIST "http://localhost:2583, https://PDS.Example.com ,http://[::1]:80,10.0.0.0/8,fd00::/8,10.0.0.0/8"
	ok(names(LIST, "http", "localhost", 2583), "W-50: a host that is named");
	ok(!names(LIST, "https", "localhost", 2583), "W-50: another scheme is not");
	ok(!names(LIST, "http", "localhost", 80), "W-50: another port is not");
	ok(!names(LIST, "http", "xlocalhost", 2583) && !names(LIST, "http", "localhos", 2583), "W-50: a part of a name is not");
	ok(names(LIST, "https", "pds.example.com", 443) && !names(LIST, "https", "pds.example.com", 80),
	   "W-50: without a port it is the scheme's");
	ok(names(LIST, "http", "[::1]", 80), "W-50: an address in brackets");
	ok(names("https://PDS.Example.com.:443", "https", "pds.example.com", 443), "W-50: whatever the spelling of the name");
	ok(!names("", "https", "a", 443), "W-50: nothing is named by an empty list");
	ok(holds(LIST, "10.255.0.1") && !holds(LIST, "11.0.0.0"), "W-50: a network");
	ok(holds(LIST, "fdff::1") && !holds(LIST, "fe00::"), "W-50: one of IPv6");
	ok(holds(LIST, "::ffff:10.0.0.1") && holds(LIST, "64:ff9b::10.0.0.1"), "W-51: in it, whatever it wears");
	ok(holds("0.0.0.0/0", "127.0.0.1") && !holds("0.0.0.0/0", "::1") && !holds("::/0", "127.0.0.1") && holds("::/0", "::1"),
	   "W-50: all of one kind");
	ok(holds("10.0.0.0/9", "10.127.0.0") && !holds("10.0.0.0/9", "10.128.0.0"), "W-50: bits within a byte");
	ok(!holds("", "10.0.0.1"), "W-50: no network is in an empty list");
	return done_testing();
}
