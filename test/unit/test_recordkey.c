/*
 * test_recordkey.c
 *		Record keys: rules K-01 to K-10, their types and stored form.
 */
#include "core/syntax/recordkey.h"
#include "protocol/stored.h"
#include "syntax.h"

static bool
matches(const char *key, const char *type)
{
	return atp_rkey_matches(key, strlen(key), type, strlen(type));
}

static AtpErr
check_stored(const char *s, size_t n, size_t *at)
{
	return atp_rkey_check_stored((const uint8_t *) s, n, at);
}

/* A record key, often a TID or nearly a TID. */
static size_t
random_key(char *out)
{
	char	   *p = out;
	size_t		at;

	do
	{
		switch (random_below(4))
		{
			case 0:
				p = random_chars(out, "3a", 13);
				break;
			case 1:
				p = random_chars(out, "23ajz", 12 + random_below(3));
				break;
			case 2:
				p = random_chars(out, "3aA._:~-", 1 + random_below(14));
				break;
			default:
				p = random_chars(out, "234567abcdefghijklmnopqrstuvwxyz", 13);
		}
	} while (atp_rkey_check(out, p - out, &at) != ATP_OK);
	return p - out;
}

static void
test_random(void)
{
	int			bad = 0;
	int			packed = 0;

	for (int i = 0; i < 200000 && bad < 3; i++)
	{
		char		a[20];
		char		b[20];
		uint8_t		as[20];
		uint8_t		bs[20];
		char		text[ATP_RKEY_MAX];
		size_t		an = random_key(a);
		size_t		bn = random_key(b);
		size_t		asn = atp_rkey_store(a, an, as);
		size_t		bsn = atp_rkey_store(b, bn, bs);
		size_t		at;
		int			order = text_order(a, an, b, bn);
		uint64_t	ka = atp_rkey_abbrev(as, asn);
		uint64_t	kb = atp_rkey_abbrev(bs, bsn);

		packed += as[0] == ATP_RKEY_TAG;
		if (asn > an || atp_rkey_check_stored(as, asn, &at) != ATP_OK ||
			atp_rkey_text(as, asn, text) != an || memcmp(text, a, an) != 0 ||
			sign(atp_rkey_cmp(as, asn, bs, bsn)) != order ||
			sign(atp_rkey_cmp(bs, bsn, as, asn)) != -order ||
			(ka < kb && order >= 0) || (ka > kb && order <= 0))
		{
			bad++;
			ok(false, "%s and %s", show(a, an), show(b, bn));
		}
	}
	ok(bad == 0, "K-04, K-09: 200000 random pairs are stored, read back and ordered as texts");
	ok(packed > 10000, "%d of them packed", packed);
}

static bool
fits(const char *stored, size_t n)
{
	return atp_rkey_fits((const uint8_t *) stored, n);
}

int
main(void)
{
	char		longest[ATP_RKEY_MAX + 1];
	char	   *text;
	size_t		at;

	check_interop("recordkey", atp_rkey_check, 16, 11);

	ACCEPTED("K-05", atp_rkey_check, "3jui7kd54zh2y", "self", "example.com", "~1.2-3_", "dHJ1ZQ",
			 "_", "pre:fix", "literal:self", ":", "lang:", ":lang", "-", "~", "self.");
	REFUSED("K-06", atp_rkey_check,
			{"alpha/beta", ATP_E_RKEY_CHAR, 5},
			{"#extra", ATP_E_RKEY_CHAR, 0},
			{"@handle", ATP_E_RKEY_CHAR, 0},
			{"any space", ATP_E_RKEY_CHAR, 3},
			{"any+space", ATP_E_RKEY_CHAR, 3},
			{"number[3]", ATP_E_RKEY_CHAR, 6},
			{"number(3)", ATP_E_RKEY_CHAR, 6},
			{"\"quote\"", ATP_E_RKEY_CHAR, 0},
			{"dHJ1ZQ==", ATP_E_RKEY_CHAR, 6},
			{"%30", ATP_E_RKEY_CHAR, 0});
	REFUSED("K-01, K-02, K-03", atp_rkey_check,
			{"", ATP_E_EMPTY, 0},
			{"a\xc3\xa9", ATP_E_RKEY_CHAR, 1},
			{".", ATP_E_RKEY_DOTS, 0},
			{"..", ATP_E_RKEY_DOTS, 0});
	ACCEPTED("K-03", atp_rkey_check, "...", ".a", "..a", "a..");
	check_charset("K-01", atp_rkey_check, "a*", ALNUM ".-_~:");
	check_charset("K-01", atp_rkey_check, "*", ALNUM "-_~:");
	check_charset("D2", atp_rkey_check_strict, "a*", ALNUM ".-_~");
	text = filled("", 'o', 512);
	ok(atp_rkey_check(text, 512, &at) == ATP_OK, "K-02, K-10: 512 bytes");
	text = filled("", 'o', 513);
	ok(atp_rkey_check(text, 513, &at) == ATP_E_RKEY_LONG && at == 512, "K-02: 513 bytes");
	ok(atp_rkey_check("a\0b", 3, &at) == ATP_E_RKEY_CHAR && at == 1, "K-01: a NUL");

	ACCEPTED("D2", atp_rkey_check_strict, "3jui7kd54zh2y", "self", "~1.2-3_");
	REFUSED("D2", atp_rkey_check_strict,
			{"pre:fix", ATP_E_RKEY_COLON, 3},
			{"a:%", ATP_E_RKEY_CHAR, 2},
			{"", ATP_E_EMPTY, 0});

	ACCEPTED("K-07", atp_rkey_type_check, "any", "tid", "nsid", "literal:self", "literal:a:b");
	REFUSED("K-07", atp_rkey_type_check,
			{"", ATP_E_RKEY_TYPE, 0},
			{"Any", ATP_E_RKEY_TYPE, 0},
			{"literal", ATP_E_RKEY_TYPE, 0},
			{"literal:", ATP_E_EMPTY, 8},
			{"literal:..", ATP_E_RKEY_DOTS, 8},
			{"literal:a b", ATP_E_RKEY_CHAR, 9});
	ok(matches("self", "any") && matches("3jzfcijpj2z2a", "tid") && matches("a.b.c", "nsid") &&
	   matches("self", "literal:self"), "K-07: keys of their types");
	ok(!matches("self", "tid") && !matches("kjzfcijpj2z2a", "tid") && !matches("self", "nsid") &&
	   !matches("selfish", "literal:self") && !matches("Self", "literal:self") &&
	   !matches("literal:self", "literal:self"), "K-07: keys of other types");

	ACCEPTED("stored form", check_stored, "\x01" "12345678", "self", "kjzfcijpj2z2a",
			 "3jzfcijpj2z2", "3jzfcijpj2z2aa");
	REFUSED("stored form", check_stored,
			{"", ATP_E_EMPTY, 0},
			{"\x01", ATP_E_STORED, 0},
			{"\x01" "1234567", ATP_E_STORED, 0},
			{"\x01" "123456789", ATP_E_STORED, 0},
			{"\x02" "12345678", ATP_E_RKEY_CHAR, 0},
			{"self\x01", ATP_E_RKEY_CHAR, 4},
			{"3jzfcijpj2z2a", ATP_E_STORED, 0});
	memset(longest, 'a', sizeof(longest));
	ok(fits("self", 4) && fits("\x01" "12345678", 9) && fits(longest, ATP_RKEY_MAX), "lengths of stored keys");
	ok(!fits("", 0) && !fits("\x01" "1234567", 8) && !fits("\x01" "123456789", 10) && !fits(longest, ATP_RKEY_MAX + 1), "lengths of damaged values");
	test_random();
	return done_testing();
}
