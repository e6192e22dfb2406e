/*
 * test_did.c
 *		DIDs: rules I-20 to I-24, D9, stored form and order; who is asked for a
 *		document, W-01 and W-04.
 */
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"
#include "protocol/stored.h"
#include "syntax.h"

#define PLC "did:plc:ewvi7nxzyoun6zhxrhs64oiz"

static AtpErr
check_stored(const char *s, size_t n, size_t *at)
{
	return atp_did_check_stored((const uint8_t *) s, n, at);
}

static bool
blessed(const char *s)
{
	return atp_did_is_blessed(s, strlen(s));
}

static bool
is_plc(const char *s)
{
	return atp_did_is_plc(s, strlen(s));
}

static void
check_normal(const char *s, const char *expected)
{
	char		out[200] = "";
	size_t		n = atp_did_normalize(s, strlen(s), out);

	ok(n == strlen(expected) && memcmp(out, expected, n) == 0, "I-24: %s becomes %s", s, out);
	strcpy(out, s);
	ok(atp_did_normalize(out, strlen(s), out) == n && memcmp(out, expected, n) == 0, "in place as well");
}

/* The host that serves the document; "" for did:plc. */
static void
check_host(const char *did, const char *expected)
{
	char		host[ATP_DID_WEB_HOST];
	size_t		n;
	size_t		at;

	ok(atp_did_document_host(did, strlen(did), host, &n, &at) == ATP_OK &&
	   n == strlen(expected) && memcmp(host, expected, n) == 0, "W-04: %s is at \"%s\"", did, expected);
}

static AtpErr
no_host(const char *s, size_t n, size_t *at)
{
	char		host[ATP_DID_WEB_HOST];
	size_t		len;

	return atp_did_document_host(s, n, host, &len, at);
}

static void
test_hosts(void)
{
	check_host(PLC, "");
	check_host("did:web:example.com", "example.com");
	check_host("did:web:A.Example.COM", "a.example.com");
	check_host("did:web:localhost", "localhost");
	check_host("did:web:localhost%3A8080", "localhost:8080");
	check_host("did:web:localhost%3a1", "localhost:1");
	check_host("did:web:localhost.com", "localhost.com");
	REFUSED("W-01", no_host,
			{"did:key:zQ3sh", ATP_E_DID_NOT_BLESSED, 0},
			{"did:webs:example.com", ATP_E_DID_NOT_BLESSED, 0},
			{"did:plc:asdf123", ATP_E_DID_PLC, 8},
			{"did:plc:ewvi7nxzyoun6zhxrhs64oi1", ATP_E_DID_PLC, 8});
	REFUSED("W-04", no_host,
			{"did:web:example.com:user", ATP_E_DID_WEB, 19},
			{"did:web:example.com%3A443", ATP_E_DID_WEB, 19},
			{"did:web:example.com%2Fpath", ATP_E_DID_WEB, 19},
			{"did:web:example", ATP_E_DID_WEB, 15},
			{"did:web:127.0.0.1", ATP_E_DID_WEB, 16},
			{"did:web:localhost%3A", ATP_E_DID_WEB, 17},
			{"did:web:localhost%3A123456", ATP_E_DID_WEB, 17},
			{"did:web:localhost%3A8a", ATP_E_DID_WEB, 17},
			{"did:web:localhost%2F80", ATP_E_DID_WEB, 17},
			{"did:web:printer.local", ATP_E_DID_WEB_TLD, 0},
			{"did:web:db.internal", ATP_E_DID_WEB_TLD, 0},
			{"did:web:a.localhost", ATP_E_DID_WEB_TLD, 0},
			{"did:web:A.ONION", ATP_E_DID_WEB_TLD, 0});
}

/* A DID that is often near the limits of packing and of the abbreviation. */
static size_t
random_did(char *out)
{
	static const char *const methods[] = {
		"did:plc:", "did:plc:", "did:plc:", "did:plc:", "did:web:", "did:pl:", "did:plcc:", "did:a:"
	};
	static const char *const sets[] = {
		"2z", "234567abcdefghijklmnopqrstuvwxyz", "2a", "7a8_", "0123", "az_Z:.-", "aB", "z"
	};
	char	   *p;
	size_t		at;

	do
	{
		const char *method = methods[random_below(8)];
		const char *set = sets[random_below(8)];
		size_t		n = random_below(3) > 0 ? 24 : 1 + random_below(40);

		p = out + strlen(method);
		memcpy(out, method, p - out);
		p = random_chars(p, set, n);
		/* a common start and one odd character make interesting pairs */
		if (random_below(2))
			memset(p - n, '7', n < 12 ? n : random_below(12));
		if (random_below(3) == 0)
			p[-1 - (int) random_below((unsigned) n)] = "0189:_.-%"[random_below(9)];
	} while (atp_did_check(out, p - out, &at) != ATP_OK);
	return p - out;
}

static void
test_random(void)
{
	int			bad = 0;
	int			packed = 0;
	int			told_apart = 0;

	for (int i = 0; i < 200000 && bad < 3; i++)
	{
		char		a[80];
		char		b[80];
		uint8_t		as[80];
		uint8_t		bs[80];
		char		text[ATP_DID_MAX];
		size_t		an = random_did(a);
		size_t		bn = random_did(b);
		size_t		asn = atp_did_store(a, an, as);
		size_t		bsn = atp_did_store(b, bn, bs);
		uint64_t	ka = atp_did_abbrev(as, asn);
		uint64_t	kb = atp_did_abbrev(bs, bsn);
		int			order = text_order(a, an, b, bn);
		size_t		at;

		packed += as[0] == ATP_DID_TAG && bs[0] == ATP_DID_TAG;
		told_apart += as[0] == ATP_DID_TAG && bs[0] == ATP_DID_TAG && ka != kb;
		if (asn > an || (as[0] == ATP_DID_TAG) != atp_did_is_plc(a, an) ||
			atp_did_check_stored(as, asn, &at) != ATP_OK ||
			atp_did_text(as, asn, text) != an || memcmp(text, a, an) != 0 ||
			sign(atp_did_cmp(as, asn, bs, bsn)) != order ||
			sign(atp_did_cmp(bs, bsn, as, asn)) != -order ||
			(ka < kb && order >= 0) || (ka > kb && order <= 0))
		{
			bad++;
			ok(false, "%s and %s", show(a, an), show(b, bn));
		}
	}
	ok(bad == 0, "200000 random pairs are stored, read back, ordered and abbreviated as texts");
	ok(packed > 2000 && told_apart > packed / 2, "%d pairs packed, %d told apart", packed,
	   told_apart);
}

static bool
fits(const char *stored, size_t n)
{
	return atp_did_fits((const uint8_t *) stored, n);
}

static void
test_fits(void)
{
	char		text[ATP_DID_MAX + 1] = "d";

	ok(fits("did:a:b", 7) && fits("\x01" "123456789012345", 16) && fits(text, ATP_DID_MAX), "lengths of stored DIDs");
	ok(!fits("", 0) && !fits("\x01" "12345678901234", 15) && !fits("\x01" "1234567890123456", 17) && !fits(text, ATP_DID_MAX + 1),
	   "lengths of damaged values");
}

int
main(void)
{
	char	   *text;
	uint8_t		stored[ATP_DID_MAX];
	char		out[ATP_DID_MAX];
	size_t		at;

	check_interop("did", atp_did_check, 24, 18);

	ACCEPTED("I-21", atp_did_check, PLC, "did:web:user.example.com", "did:method:val:two", "did:m:v",
			 "did:method::::val", "did:method:-:_:.", "did:web:localhost%3A1234",
			 "did:method:val%BB");
	REFUSED("I-20, I-21", atp_did_check,
			{"", ATP_E_EMPTY, 0},
			{"DID:method:val", ATP_E_DID_PREFIX, 0},
			{"diD:method:val", ATP_E_DID_PREFIX, 2},
			{"did", ATP_E_DID_PREFIX, 3},
			{"method:did:val", ATP_E_DID_PREFIX, 0},
			{"did:", ATP_E_DID_METHOD_EMPTY, 4},
			{"did::val", ATP_E_DID_METHOD_EMPTY, 4},
			{"did:method", ATP_E_DID_COLON, 10},
			{"did:METHOD:val", ATP_E_DID_METHOD, 4},
			{"did:meThod:val", ATP_E_DID_METHOD, 6},
			{"did:method:", ATP_E_DID_ID_EMPTY, 11},
			{"did:method:val:", ATP_E_DID_END, 14},
			{"did:method::", ATP_E_DID_END, 11},
			{"did:method:val/two", ATP_E_DID_CHAR, 14},
			{"did:method:val?two", ATP_E_DID_CHAR, 14},
			{"did:method:val#two", ATP_E_DID_CHAR, 14},
			{"did:method:a~b", ATP_E_DID_CHAR, 12},
			{"did:method:\xc3\xa9", ATP_E_DID_CHAR, 11});
	REFUSED("D18", atp_did_check, {"did:m123:val", ATP_E_DID_METHOD, 5});
	REFUSED("D9", atp_did_check,
			{"did:method:val%", ATP_E_PERCENT, 14},
			{"did:method:val%B", ATP_E_PERCENT, 14},
			{"did:method:val%zzz", ATP_E_PERCENT, 14},
			{"did:method:%41%4", ATP_E_PERCENT, 14});
	check_charset("I-20", atp_did_check, "did:m*m:v", LOWER ":");
	check_charset("I-20", atp_did_check, "did:m:v*v", ALNUM "._:-");
	check_charset("I-20", atp_did_check, "did:m:v*", ALNUM "._-");
	check_charset("D9", atp_did_check, "did:m:%*0", DIGITS "abcdefABCDEF");
	check_charset("D9", atp_did_check, "did:m:%0*", DIGITS "abcdefABCDEF");
	text = filled("did:method:", 'v', 2048);
	ok(atp_did_check(text, 2048, &at) == ATP_OK, "I-20: 2048 bytes");
	ok(atp_did_store(text, 2048, stored) == 2048 && atp_did_text(stored, 2048, out) == 2048 &&
	   memcmp(out, text, 2048) == 0, "2048 bytes are stored and read back");
	text = filled("did:method:", 'v', 2049);
	ok(atp_did_check(text, 2049, &at) == ATP_E_DID_LONG && at == 2048, "I-20: 2049 bytes");

	ok(atp_span_is(atp_did_method(PLC, 32), "plc") && atp_span_is(atp_did_method("did:m:v", 7), "m"),
	   "I-22: method");
	ok(blessed(PLC) && blessed("did:plc:asdf123") && blessed("did:web:example.com"),
	   "I-23, D1: blessed by method alone");
	ok(!blessed("did:key:z") && !blessed("did:plcx:a") && !blessed("did:we:b") && !blessed("did:m:v"),
	   "I-23: not blessed");
	ok(is_plc(PLC) && !is_plc("did:plc:asdf123") && !is_plc("did:plc:ewvi7nxzyoun6zhxrhs64oi1") &&
	   !is_plc("did:plc:ewvi7nxzyoun6zhxrhs64oiZ") && !is_plc(PLC "a") &&
	   !is_plc("did:web:ewvi7nxzyoun6zhxrhs64oiz"), "I-23: 24 characters of a-z2-7");

	check_normal("did:plc:EWVI7", "did:plc:ewvi7");
	check_normal("did:web:LOCALHOST%3aAB", "did:web:localhost%3Aab");
	check_normal("did:web:a%AB", "did:web:a%AB");
	check_normal("did:web:%41%2d%7e%7Eb", "did:web:a-%7E%7Eb");
	check_normal("did:web:a%253A1%25253a2", "did:web:a%3A1%3A2");
	check_normal("did:web:a%25g1", "did:web:a%25g1");
	check_normal("did:web:a%251g", "did:web:a%251g");
	check_normal("did:key:%41b%2fC", "did:key:Ab%2FC");
	check_normal("did:key:zQ3sh", "did:key:zQ3sh");

	ok(atp_did_store(PLC, 32, stored) == 16 && stored[0] == ATP_DID_TAG, "did:plc is packed");
	atp_did_store("did:plc:222222222222222222222223", 32, stored);
	ok(memcmp(stored, "\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01", 16) == 0, "'2' is 0, '3' is 1");
	atp_did_store("did:plc:zzzzzzzz7a22222222222222", 32, stored);
	ok(memcmp(stored, "\x01\xff\xff\xff\xff\xff\x29\x80\0\0\0\0\0\0\0\0", 16) == 0,
	   "'7' is 5, 'a' is 6, 'z' is 31");
	ACCEPTED("stored form", check_stored, "\x01" "123456789012345", "did:plc:asdf123", "did:m:v",
			 "did:plc:ewvi7nxzyoun6zhxrhs64oi1");
	REFUSED("stored form", check_stored,
			{"", ATP_E_EMPTY, 0},
			{PLC, ATP_E_STORED, 0},
			{"\x01", ATP_E_STORED, 0},
			{"\x01" "12345678901234", ATP_E_STORED, 0},
			{"\x01" "1234567890123456", ATP_E_STORED, 0},
			{"\x02" "123456789012345", ATP_E_DID_PREFIX, 0},
			{"did:m123:val", ATP_E_DID_METHOD, 5});
	test_fits();
	test_hosts();
	test_random();
	return done_testing();
}
