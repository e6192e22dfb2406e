/*
 * test_uri_order.c
 *		Stored form and order of URIs (A-21), containment, upper bounds and abbreviations: examples, and the
 *		laws of uri_laws.h on random values.
 */
#include "core/syntax/uri.h"
#include "protocol/stored.h"
#include "syntax.h"
#include "uri_laws.h"

/* ATPROTO_LONG=1: five times as many */
#define ROUNDS	40000

#define DID		"did:plc:44ybard66vv44zksje25o7dz"
#define RECORD	"at://" DID "/app.bsky.feed.post/3jwdwj2ctlk26"

typedef struct Stored
{
	uint8_t		bytes[200];
	size_t		n;
} Stored;

static Stored
stored_of(const char *s)
{
	Stored		u;

	u.n = atp_uri_store(ATP_SCHEME_AT, s, strlen(s), u.bytes);
	return u;
}

static AtpErr
check_stored(const char *s, size_t n, size_t *at)
{
	return atp_uri_check_stored(ATP_SCHEME_AT, (const uint8_t *) s, n, at);
}

static bool
fits(const char *stored, size_t n)
{
	return atp_uri_fits(ATP_SCHEME_AT, (const uint8_t *) stored, n);
}

static void
test_fits(void)
{
	char		text[ATP_URI_MAX] = "a";
	char		out[ATP_URI_TEXT_BOUND(40)];
	const char *most = "\x01" "123456789012345" "\x05" "\x02" "12345678";

	ok(fits("a", 1) && fits("\x01" "123456789012345", 16) && fits("a\x02" "12345678", 10) && fits(text, ATP_URI_MAX - 5), "lengths of stored URIs");
	ok(!fits("", 0) && !fits("\x01" "12345678901234", 15) && !fits("\x01" "12345678901234\x02", 15) && !fits("a\x02" "1234567", 9) &&
	   !fits(text, ATP_URI_MAX - 4), "lengths of damaged values");
	ok(fits(most, 26) && atp_uri_text(ATP_SCHEME_AT, (const uint8_t *) most, 26, out) <= sizeof(out), "the longest text of a value");
}

static void
test_stored(void)
{
	char		out[100];
	uint8_t		did[ATP_DID_PLC_STORED];
	uint8_t		rkey[ATP_RKEY_TID_STORED];
	Stored		u = stored_of(RECORD);

	atp_did_store(DID, 32, did);
	atp_rkey_store("3jwdwj2ctlk26", 13, rkey);
	ok(u.n == 30, "a record's URI of 70 characters is stored in 30 bytes");
	ok(memcmp(u.bytes, did, sizeof(did)) == 0, "its authority as in the type did");
	ok(memcmp(u.bytes + 16, "\x04post", 5) == 0, "then the collection, its beginning as a tag");
	ok(u.bytes[21] == ATP_URI_TAG_TID && memcmp(u.bytes + 22, rkey + 1, 8) == 0, "then the TID");
	ok(atp_uri_text(ATP_SCHEME_AT, u.bytes, u.n, out) == 70 && memcmp(out, RECORD, 70) == 0,
	   "and it is read back");

	ok(stored_of("at://a/b/2222222222223#/x").n == 3 + 9 + 3, "a TID before a fragment is packed");
	ok(stored_of("at://a/b/2222222222223/2222222222223").n == 3 + 9 + 14,
	   "of the segments only the second");
	ok(stored_of("at://a/2222222222223").n == 15, "not the first");
	ok(stored_of("at://a?/b/2222222222223").n == 18, "nor what is in a query");
	ok(stored_of("at://" DID "?x").n == 16 + 2, "a DID before a query is packed");
	ok(stored_of("at://" DID "x").n == 33, "a longer one is not");

	ok(stored_of("at://a/app.bsky.actor.profile").n == 1 + 1 + 13, "a path may begin with a tag");
	ok(stored_of("at://a/app.bsky.feed.").n == 1 + 1, "and end there");
	ok(stored_of("at://a/app.bsky.feed").n == 1 + 1 + 4, "the longest one that fits counts");
	ok(stored_of("at://a/app.bsky").n == 1 + 9, "if one does");
	ok(stored_of("at://a/b/app.bsky.feed.x").n == 3 + 16, "but only at the beginning");

	ACCEPTED("stored form", check_stored, "\x01" "123456789012345", "a\x03", "a\x03" "feed",
			 "a\x04post", "\x01" "123456789012345\x05", "a\x03" "x\x02" "12345678",
			 "\x01" "123456789012345/a\x02" "12345678", "a/b\x02" "12345678?c",
			 "a/b\x02\x02\x02\x02\x02\x02\x02\x02\x02/c", DID "6", "foo.com");
	REFUSED("stored form", check_stored,
			{"", ATP_E_EMPTY, 0},
			{"a/app.bsky.x", ATP_E_STORED, 1},
			{"a\x03" "feed.x", ATP_E_STORED, 1},
			{"a/b\x03", ATP_E_URI_CHAR, 3},
			{"a\x03" "b c", ATP_E_URI_CHAR, 3},
			{"a\x04\x03", ATP_E_URI_CHAR, 2},
			{"\x03", ATP_E_URI_AUTHORITY_EMPTY, 0},
			{"a\x06", ATP_E_URI_AUTHORITY_CHAR, 1},
			{"\x01" "12345678901234", ATP_E_STORED, 0},
			{"\x01" "1234567890123456", ATP_E_STORED, 0},
			{"\x01" "123456789012345x/a", ATP_E_STORED, 0},
			{DID, ATP_E_STORED, 0},
			{DID "/a", ATP_E_STORED, 0},
			{"a/b/2222222222223", ATP_E_STORED, 3},
			{"a/b\x02" "1234567", ATP_E_STORED, 3},
			{"a\x02" "12345678", ATP_E_STORED, 1},
			{"a/b/c\x02" "12345678", ATP_E_STORED, 5},
			{"a/b\x02" "12345678\x02" "12345678", ATP_E_URI_CHAR, 12},
			{"a/b\x02" "12345678x", ATP_E_STORED, 3},
			{"a/b\x02" "12345678?\x02", ATP_E_URI_CHAR, 13},
			{"a/b\x02" "12345678/\x03", ATP_E_URI_CHAR, 13},
			{"\x02" "12345678", ATP_E_URI_AUTHORITY_EMPTY, 0},
			{"\x01" "123456789012345/a b", ATP_E_URI_CHAR, 18},
			{"at://a", ATP_E_URI_AUTHORITY_COLON, 2});
}

/* Each value is less than the next. */
static void
test_order(void)
{
	static const char *const ascending[] = {
		"a.b", "a.b#/x", "a.b?", "a.b?#/x", "a.b?x", "a.b/c",
		"a.b/c#/x", "a.b/c?x", "a.b/c/2222222222222", "a.b/c/3jwdwj2ctlk26",
		"a.b/c/3jwdwj2ctlk26#/a", "a.b/c/3jwdwj2ctlk26?a", "a.b/c/3jwdwj2ctlk26/a",
		"a.b/c/3jwdwj2ctlk26!", "a.b/c/3jwdwj2ctlk26a", "a.b/c/3jwdwj2ctlk27",
		"a.b/c/self", "a.b/c!", "a.b/c!/d", "a.b%00", "a.b.c",
		"did:plc:22222222222222222222222", "did:plc:222222222222222222222222",
		"did:plc:222222222222222222222222/a", "did:plc:222222222222222222222222%00",
		"did:plc:2222222222222222222222222", "did:plc:222222222222222222222223",
		/* of the packed DIDs the last bytes are '"' and '#' */
		"did:plc:222222222222222222222234", "did:plc:222222222222222222222235",
		"did:plc:44", DID, DID "#/a", DID "/a", DID "/a/2222222222222", DID "/a/2222222222223",
		"did:plc:44ybardb", "did:plc:8", "did:plc:a", "did:web:a", "e"
	};

	for (size_t i = 0; i + 1 < sizeof(ascending) / sizeof(ascending[0]); i++)
	{
		char		text[2][100];
		Stored		a;
		Stored		b;

		sprintf(text[0], "at://%s", ascending[i]);
		sprintf(text[1], "at://%s", ascending[i + 1]);
		a = stored_of(text[0]);
		b = stored_of(text[1]);
		ok(atp_uri_cmp(a.bytes, a.n, b.bytes, b.n) < 0 &&
		   atp_uri_cmp(b.bytes, b.n, a.bytes, a.n) > 0, "A-21: %s < %s",
		   show(text[0], strlen(text[0])), show(text[1], strlen(text[1])));
	}
}

static void
check_inside(const char *a, const char *b, bool expected)
{
	Stored		as = stored_of(a);
	Stored		bs = stored_of(b);

	ok(atp_uri_is_inside(as.bytes, as.n, bs.bytes, bs.n) == expected, "%s is%s inside %s",
	   show(a, strlen(a)), expected ? "" : " not", show(b, strlen(b)));
}

static void
test_inside(void)
{
	check_inside("at://a", "at://a", true);
	check_inside(RECORD, "at://" DID, true);
	check_inside(RECORD, "at://" DID "/app.bsky.feed.post", true);
	check_inside(RECORD "#/x", RECORD, true);
	check_inside(RECORD, "at://" DID "/app.bsky.feed", false);
	check_inside("at://" DID, RECORD, false);
	check_inside("at://a.b.c", "at://a.b", false);
	check_inside("at://a?x#/y", "at://a?x", true);
	check_inside("at://a?x/y", "at://a?x", false);
	check_inside("at://a?x?y", "at://a?x", false);
	check_inside("at://a#/x/y", "at://a#/x", true);
	check_inside("at://a#/x?y", "at://a#/x", false);
}

/* The bound as text, or "-". */
static void
check_bound(const char *s, const char *expected)
{
	uint8_t		bound[ATP_URI_MAX];
	char		text[ATP_URI_MAX + 1] = "-";
	size_t		n = 0;
	Stored		u = stored_of(s);

	if (atp_uri_upper_bound(ATP_SCHEME_AT, u.bytes, u.n, bound, &n))
		text[atp_uri_text(ATP_SCHEME_AT, bound, n, text)] = '\0';
	ok(strcmp(text, expected) == 0, "bound of %s: %s", s, text);
}

/* A text of n bytes with this beginning has a bound, a text of n + 1 bytes has none. */
static void
check_longest(const char *prefix, size_t n)
{
	uint8_t		stored[ATP_URI_MAX];
	uint8_t		bound[ATP_URI_MAX];
	char	   *s = filled(prefix, 'v', n + 1);
	size_t		stored_n = atp_uri_store(ATP_SCHEME_AT, s, n, stored);
	size_t		bound_n = 0;
	size_t		at;

	ok(atp_uri_upper_bound(ATP_SCHEME_AT, stored, stored_n, bound, &bound_n) &&
	   atp_uri_check_stored(ATP_SCHEME_AT, bound, bound_n, &at) == ATP_OK,
	   "%s... of %zu bytes has a bound", prefix, n);
	stored_n = atp_uri_store(ATP_SCHEME_AT, s, n + 1, stored);
	ok(!atp_uri_upper_bound(ATP_SCHEME_AT, stored, stored_n, bound, &bound_n),
	   "of %zu bytes it has none", n + 1);
}

static void
test_bound(void)
{
	check_bound("at://" DID, "at://" DID "%00");
	check_bound("at://foo.com", "at://foo.com%00");
	check_bound("at://foo.com/a.b.c", "at://foo.com/a.b.c!");
	check_bound(RECORD, RECORD "!");
	check_bound("at://a?", "-");
	check_bound("at://a/b#/c", "-");

	/* the longest values with a bound; the bound is valid, and as long as allowed */
	check_longest("at://did:m:", 5 + 2045);
	check_longest("at://a", ATP_URI_MAX - 3);
	check_longest("at://a/", ATP_URI_MAX - 1);
	check_longest("at://a/b/c/", ATP_URI_MAX - 1);
	check_longest("at://a/b/3jwdwj2ctlk26/", ATP_URI_MAX - 1);
	check_longest(RECORD "/", ATP_URI_MAX - 1);
	check_longest("at://" DID "/app.bsky.", ATP_URI_MAX - 1);
}

/* A URI of few different parts, so that two URIs often have a long common beginning. */
static size_t
random_uri(AtpScheme scheme, char *out)
{
	static const char *const authorities[] = {
		"a", "a.b", "A.b", "did:plc:222222222222222222222222", "did:plc:zzzzzzzzzzzzzzzzzzzzzzzz",
		"did:plc:22222222222222222222222", "did:plc:2222222222222222222222222",
		"did:plc:22222222222222222222222A", "did:plc:2222222222222222222222222%00", "did:plc:%41",
		"did:plc:8", "did:web:a%3A1", "did:web:a%253a", "did:key:zQ", "did", "di", "e", "a:1", "~",
		"a%00", "1673", "0xb794f5ea0ba39494ce839613fffba74279579268", "did%3aplc%3Aa"
	};
	static const char *const segments[] = {
		"a", "!", "a.b.c", "A.b.C", "2222222222222", "2222222222223", "jzzzzzzzzzzzz",
		"app.bsky.feed.post", "app.bsky.graph.follow", "app.bsky.actor.x", "app.bsky.feed.", "app.bsky.feed",
		"app.bsky.feedx", "app.bsky.feed-", "app.bsky.", "app.bsky", "app.bsky.g", "app.bsky.zeed.x",
		"222222222222", "22222222222222", "2222222222222!", "222222222222-", "self", "a:b", ".", "..",
		"%2e", "%41", "#", "", "3jwdwj2ctlk26"
	};
	static const char *const pieces[][4] = {
		{"did", "DID", "%64id", "d%49d"}, {"%3A", "%3a", ":", "%253A"},
		{"plc", "PLC", "w%45b", "m1"}, {"%3A", "3A", ":", "%7E"}
	};
	static const char alphabet[] = "02Az.-_~:/?#%@! \x01";
	char	   *p = out + sprintf(out, scheme == ATP_SCHEME_AT ? "at://" : "nosh://");

#define PICK(list) list[random_below(sizeof(list) / sizeof(list[0]))]
	if (random_below(4) == 0)
	{
		p += sprintf(p, "did:plc:");
		p = random_chars(p, random_below(2) ? "2z" : "234567abcdefghijklmnopqrstuvwxyz", 24);
	}
	else if (random_below(4) == 0)
	{
		/* a DID or nearly a DID, percent-encoded */
		for (unsigned i = 0; i < 4; i++)
			p += sprintf(p, "%s", PICK(pieces[i]));
		p = random_chars(p, "aA%2~.:", random_below(5));
	}
	else
		p += sprintf(p, "%s", PICK(authorities));
	for (unsigned n = random_below(4); n > 0; n--)
		p += sprintf(p, "/%s", PICK(segments));
	if (random_below(5) == 0)
		p = random_chars(p + sprintf(p, "?"), "a/?0", random_below(3));
	if (random_below(5) == 0)
		p = random_chars(p + sprintf(p, "#/"), "a/?~0", random_below(4));
	if (random_below(8) == 0)
		out[random_below((unsigned) (p - out))] = PICK(alphabet);
	return p - out;
}

/* A valid stored form, or a text similar to a stored form. */
static size_t
random_stored(AtpScheme scheme, uint8_t *out)
{
	char		s[300];
	AtpUri		uri;
	size_t		at;
	size_t		n;

	do
		n = random_uri(scheme, s);
	while (atp_uri_parse(scheme, s, n, &uri, &at) != ATP_OK);
	n = atp_uri_store(scheme, s, n, out);
	if (random_below(2))
		out[random_below((unsigned) n)] = (uint8_t) random_below(random_below(2) ? 7 : 256);
	if (random_below(4) == 0)
		n = random_below((unsigned) n + 1);
	return n;
}

static void
report(const char *law, const char *a, size_t an, const char *b, size_t bn)
{
	ok(false, "%s: %s %s", law, show(a, an), show(b, bn));
}

static void
test_random(AtpScheme scheme)
{
	const int	rounds = getenv("ATPROTO_LONG") != NULL ? 5 * ROUNDS : ROUNDS;
	int			bad = 0;
	int			valid = 0;
	int			inside = 0;
	int			accepted = 0;

	for (int i = 0; i < rounds && bad < 3; i++)
	{
		char		s[3][300];
		size_t		n[3];
		uint8_t		stored[3][300];
		size_t		sn[3];
		AtpUri		uri;
		size_t		at;
		bool		all_valid = true;
		const char *law;

		for (int j = 0; j < 3; j++)
		{
			n[j] = random_uri(scheme, s[j]);
			if (j > 0 && random_below(2))
			{
				/* a value inside the previous value, or nearly so */
				memcpy(s[j], s[j - 1], n[j - 1]);
				n[j] = random_chars(s[j] + n[j - 1], "/?#!a2", 1 + random_below(3)) - s[j];
			}
			law = broken_text_law(scheme, s[j], n[j]);
			if (law != NULL && ++bad)
				report(law, s[j], n[j], "", 0);
			all_valid = all_valid && atp_uri_parse(scheme, s[j], n[j], &uri, &at) == ATP_OK;
		}
		law = broken_pair_law(scheme, s[1], n[1], s[0], n[0]);
		if (law != NULL && ++bad)
			report(law, s[1], n[1], s[0], n[0]);
		if (all_valid)
		{
			int			ab;
			int			bc;
			int			ac;

			for (int j = 0; j < 3; j++)
				sn[j] = atp_uri_store(scheme, s[j], n[j], stored[j]);
			ab = atp_uri_cmp(stored[0], sn[0], stored[1], sn[1]);
			bc = atp_uri_cmp(stored[1], sn[1], stored[2], sn[2]);
			ac = atp_uri_cmp(stored[0], sn[0], stored[2], sn[2]);
			if (((ab <= 0 && bc <= 0 && ac > 0) || (ab >= 0 && bc >= 0 && ac < 0)) && ++bad)
				report("the order is transitive", s[0], n[0], s[2], n[2]);
			valid++;
			inside += atp_uri_is_inside(stored[1], sn[1], stored[0], sn[0]);
		}
		sn[0] = random_stored(scheme, stored[0]);
		accepted += atp_uri_check_stored(scheme, stored[0], sn[0], &at) == ATP_OK;
		law = broken_stored_law(scheme, stored[0], sn[0]);
		if (law != NULL && ++bad)
			report(law, (char *) stored[0], sn[0], "", 0);
	}
	ok(bad == 0, "the laws of order, storage and normal form hold in %d rounds", rounds);
	ok(valid > rounds / 20 && inside > rounds / 100 && accepted > rounds / 10 &&
	   accepted < rounds * 9 / 10, "which had %d valid triples, %d inside, %d stored forms", valid,
	   inside, accepted);
}

int
main(void)
{
	test_fits();
	test_stored();
	test_order();
	test_inside();
	test_bound();
	test_random(ATP_SCHEME_AT);
	test_random(ATP_SCHEME_NOSH);
	return done_testing();
}
