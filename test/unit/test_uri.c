/*
 * test_uri.c
 *		AT and NOSH URIs: levels of validity (A-01 to A-40, N-01 to N-10)
 *		and the normal form (N1 to N10).  Stored form and order are in
 *		test_uri_order.c.
 */
#include "core/syntax/uri.h"
#include "syntax.h"

#define PLC "at://did:plc:44ybard66vv44zksje25o7dz"

static AtpErr
general_of(AtpScheme scheme, const char *s, size_t n, size_t *at)
{
	AtpUri		uri;

	return atp_uri_parse(scheme, s, n, &uri, at);
}

static AtpErr
lexicon_of(AtpScheme scheme, const char *s, size_t n, size_t *at)
{
	AtpUri		uri;
	AtpErr		err = atp_uri_parse(scheme, s, n, &uri, at);

	return err != ATP_OK ? err : atp_uri_check_lexicon(&uri, s, at);
}

static AtpErr
strict_of(AtpScheme scheme, const char *s, size_t n, size_t *at)
{
	AtpUri		uri;
	AtpErr		err = atp_uri_parse(scheme, s, n, &uri, at);

	return err != ATP_OK ? err : atp_uri_check_strict(&uri, s, n, at);
}

static AtpErr
record_of(AtpScheme scheme, const char *s, size_t n, size_t *at)
{
	AtpUri		uri;
	AtpErr		err = atp_uri_parse(scheme, s, n, &uri, at);

	return err != ATP_OK ? err : atp_uri_check_record(&uri, s, at);
}

static AtpErr
normalize_of(AtpScheme scheme, const char *s, size_t n, size_t *at)
{
	char		out[ATP_URI_MAX];
	size_t		on;

	return atp_uri_normalize(scheme, s, n, out, &on, at);
}

#define CHECKS(level) \
	static AtpErr level(const char *s, size_t n, size_t *at) \
	{ return level##_of(ATP_SCHEME_AT, s, n, at); } \
	static AtpErr nosh_##level(const char *s, size_t n, size_t *at) \
	{ return level##_of(ATP_SCHEME_NOSH, s, n, at); }

CHECKS(general)
CHECKS(lexicon)
CHECKS(strict)
CHECKS(record)
CHECKS(normalize)

/* The levels of one URI against a table's columns "t" and "f". */
static void
check_levels(AtpScheme scheme, const char *s, size_t n, char g, char l, char st)
{
	size_t		at = 0;
	bool		is_g = general_of(scheme, s, n, &at) == ATP_OK;
	bool		is_l = lexicon_of(scheme, s, n, &at) == ATP_OK;
	bool		is_st = strict_of(scheme, s, n, &at) == ATP_OK;

	ok(is_g == (g == 't') && is_l == (l == 't') && is_st == (st == 't') && at <= n,
	   "levels %c %c %c: %s", g, l, st, show(s, n));
}

/* Compares the normal form with a table's column; the column begins with "ERROR" if no normal form exists. */
static void
check_normal(AtpScheme scheme, const char *s, size_t n, const char *expected, size_t en)
{
	char		out[ATP_URI_MAX];
	char		again[ATP_URI_MAX];
	size_t		on;
	size_t		again_n = 0;
	size_t		at = SIZE_MAX;
	AtpErr		err = atp_uri_normalize(scheme, s, n, out, &on, &at);

	if (en >= 5 && memcmp(expected, "ERROR", 5) == 0)
	{
		ok(err != ATP_OK && at <= n, "normal form of %s: %s", show(s, n), atp_err_text(err));
		return;
	}
	ok(err == ATP_OK && on == en && memcmp(out, expected, en) == 0, "normal form of %s: %s",
	   show(s, n), err != ATP_OK ? atp_err_text(err) : show(out, on));
	ok(atp_uri_normalize(scheme, out, on, again, &again_n, &at) == ATP_OK && again_n == on &&
	   memcmp(again, out, on) == 0, "and its normal form is the same");
	ok(general_of(scheme, out, on, &at) == ATP_OK, "and is valid");
}

#define NORMAL(rule, before, after) \
	check_normal(ATP_SCHEME_AT, before, strlen(before), after, strlen(after))

/* Cuts line at its tabs; returns the number of columns. */
static int
columns(char *line, char **column, int max)
{
	int			n = 0;

	for (char *p = line; p != NULL && n < max; n++)
	{
		column[n] = p;
		p = strchr(p, '\t');
		if (p != NULL)
			*p++ = '\0';
	}
	return n;
}

/* A JSON string, in place; -1 when the table shortened it ("..."(len N)). */
static long
unquote(char *s)
{
	char	   *in = s + 1;
	char	   *out = s;
	unsigned	code;

	for (; *in != '"'; in++)
	{
		if (*in != '\\')
			*out++ = *in;
		else if (*++in == 'u')
		{
			sscanf(in + 1, "%4x", &code);
			*out++ = (char) (0xc0 | code >> 6);
			*out++ = (char) (0x80 | (code & 63));
			in += 4;
		}
		else
			*out++ = *in == 't' ? '\t' : *in == 'n' ? '\n' : *in;
	}
	if (in[1] == '.')
		return -1;
	*out = '\0';
	return out - s;
}

static void
classify_row(char *line, size_t n, void *skipped)
{
	char	   *col[5] = {0};
	long		in;
	long		normal;

	ok(columns(line, col, 5) == 5, "five columns");
	in = unquote(col[0]);
	normal = unquote(col[4]);
	if (in < 0)
	{
		++*(int *) skipped;		/* tested by test_lengths() */
		return;
	}
	check_levels(ATP_SCHEME_AT, col[0], in, col[1][0], col[2][0], col[3][0]);
	check_normal(ATP_SCHEME_AT, col[0], in, col[4], normal);
}

static void
normalize_row(char *line, size_t n, void *arg)
{
	char	   *col[3] = {0};
	size_t		at;

	ok(columns(line, col, 3) == 3, "three columns");
	check_normal(ATP_SCHEME_AT, col[0], strlen(col[0]), col[1], strlen(col[1]));
	ok((strict(col[1], strlen(col[1]), &at) == ATP_OK) == (col[2][0] == 't'),
	   "strict %s: %s", col[2], show(col[1], strlen(col[1])));
}

static void
noshuri_row(char *line, size_t n, void *arg)
{
	static const struct
	{
		const char *name;
		AtpAuthority kind;
	}			kinds[] = {
		{"agent", ATP_AUTHORITY_AGENT}, {"address", ATP_AUTHORITY_ADDRESS},
		{"name", ATP_AUTHORITY_HANDLE}, {"other", ATP_AUTHORITY_OPAQUE}
	};
	char	   *col[6] = {0};
	AtpUri		uri;
	size_t		at;

	ok(columns(line, col, 6) == 6, "six columns");
	check_levels(ATP_SCHEME_NOSH, col[0], strlen(col[0]), col[1][0], col[3][0], col[4][0]);
	check_normal(ATP_SCHEME_NOSH, col[0], strlen(col[0]), col[5], strlen(col[5]));
	if (atp_uri_parse(ATP_SCHEME_NOSH, col[0], strlen(col[0]), &uri, &at) != ATP_OK)
		return;
	for (int i = 0; i < 4; i++)
	{
		if (strcmp(col[2], kinds[i].name) == 0)
		{
			ok(uri.kind == kinds[i].kind, "N-02: %s is %s", show(col[0], strlen(col[0])), col[2]);
			ok(atp_uri_is_strict_nosh(&uri, col[0], strlen(col[0])) == (col[4][0] == 't' && i < 2),
			   "N-08: %s", show(col[0], strlen(col[0])));
		}
	}
}

static void
general_only_row(char *line, size_t n, void *arg)
{
	long		len = unquote(line);

	check_levels(ATP_SCHEME_AT, line, len, 't', 'f', 'f');
}

static void
test_tables(void)
{
	int			skipped = 0;

	check_interop("aturi", lexicon, 23, 72);
	ok(each_line(VECTORS "derived/aturi_classify.tsv", classify_row, &skipped) == 94, "94 rows");
	ok(skipped == 4, "of which 4 are shortened");
	ok(each_line(VECTORS "derived/aturi_normalize.tsv", normalize_row, NULL) == 37, "37 rows");
	ok(each_line(VECTORS "derived/noshuri_classify.tsv", noshuri_row, NULL) == 30, "30 rows");
	ok(each_line(VECTORS "derived/interop_aturi_invalid_but_general_valid.tsv",
				 general_only_row, NULL) == 28, "A-22: 28 rows");
}

#define DRAFT	"at://did:plc:foxkcdp2jhdxd75z7uuqu3s2"

/*
 * The examples of draft-newbold-atp-aturi, section 4.  Where the draft has a domain in upper case as no NSID, Lexicons
 * accept the NSID, and only strict URIs do not (A-36).
 */
static void
test_draft(void)
{
	ACCEPTED("A-30, A-31", strict, DRAFT, "at://handle.example.com",
			 DRAFT "/com.example.record/3mwp2ezf3fh22", DRAFT "/com.example.more-sections.record/3mwp2ezf3fh22",
			 DRAFT "/com.example.otherRecordV2/3mwp2ezf3fh22", DRAFT "/com.example.record/...", DRAFT "/com.example.record/~home",
			 DRAFT "/com.example.r/1");
	REFUSED("A-03, A-13", general, {DRAFT "/", ATP_E_URI_TRAILING_SLASH, 37}, {"at://user:pass@did:plc:foxkcdp2jhdxd75z7uuqu3s2", ATP_E_URI_USERINFO, 14});
	REFUSED("A-13, A-31, A-33, A-34", lexicon,
			{DRAFT "/com.example.record/..", ATP_E_RKEY_DOTS, 57}, {DRAFT "/com.example.record/one@two", ATP_E_RKEY_CHAR, 60},
			{DRAFT "/example/3mwp2ezf3fh22", ATP_E_NSID_SEGMENTS, 45}, {DRAFT "/com.example/3mwp2ezf3fh22", ATP_E_NSID_SEGMENTS, 49},
			{DRAFT "/123.example.record/3mwp2ezf3fh22", ATP_E_NSID_FIRST, 38}, {DRAFT "/com.example.bad-record/3mwp2ezf3fh22", ATP_E_NSID_NAME_HYPHEN, 53},
			{DRAFT "/com.example.record-/3mwp2ezf3fh22", ATP_E_LABEL_HYPHEN, 56}, {DRAFT "/com.example.record/3mwp2ezf3fh22/", ATP_E_URI_TRAILING_SLASH, 70},
			{DRAFT "/com.example.record/3mwp2ezf3fh22?key=value", ATP_E_URI_LEX_QUERY, 70});
	REFUSED("A-36", strict, {DRAFT "/com.EXAMPLE.record/3mwp2ezf3fh22", ATP_E_URI_NORMAL, 42});
}

static void
test_general(void)
{
	ACCEPTED("A-01", general, "at://foo.com");
	REFUSED("A-01", general,
			{"", ATP_E_URI_SCHEME_AT, 0},
			{"AT://foo.com", ATP_E_URI_SCHEME_AT, 0},
			{"at:/foo.com", ATP_E_URI_SCHEME_AT, 4},
			{"at:foo.com", ATP_E_URI_SCHEME_AT, 3},
			{"at:/", ATP_E_URI_SCHEME_AT, 4},
			{"//foo.com", ATP_E_URI_SCHEME_AT, 0},
			{"a://foo.com", ATP_E_URI_SCHEME_AT, 1},
			{"nosh://foo.com", ATP_E_URI_SCHEME_AT, 0});
	REFUSED("A-02", general,
			{"at://", ATP_E_URI_AUTHORITY_EMPTY, 5},
			{"at:///com.example.foo/1", ATP_E_URI_AUTHORITY_EMPTY, 5},
			{"at://?q", ATP_E_URI_AUTHORITY_EMPTY, 5},
			{"at://#/f", ATP_E_URI_AUTHORITY_EMPTY, 5});
	REFUSED("A-03", general,
			{"at://@handle.example.com", ATP_E_URI_USERINFO, 5},
			{"at://user:pass@foo.com", ATP_E_URI_USERINFO, 14},
			{"at://user:[email\xc2\xa0protected]", ATP_E_URI_AUTHORITY_CHAR, 10});
	ACCEPTED("A-04, A-05, D4, D5", general, "at://example.com:3000", "at://computer", "at://a_b", "at://~");
	REFUSED("A-06", general,
			{"at://did:3000", ATP_E_DID_METHOD, 9},
			{"at://did:m1:v", ATP_E_DID_METHOD, 10},
			{"at://did:example", ATP_E_DID_COLON, 16});
	ACCEPTED("A-07", general, "at://foo%24bar.com", "at://%20");
	REFUSED("A-07", general,
			{"at://foo$bar.com", ATP_E_URI_AUTHORITY_CHAR, 8},
			{"at://foo&bar.com", ATP_E_URI_AUTHORITY_CHAR, 8},
			{"at://foo!bar", ATP_E_URI_AUTHORITY_CHAR, 8},
			{"at://a'b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a(b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a)b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a*b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a+b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a,b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a;b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://a=b", ATP_E_URI_AUTHORITY_CHAR, 6},
			{"at://[::1]", ATP_E_URI_AUTHORITY_CHAR, 5});
	check_charset("A-07", general, "at://a*a", ALNUM "-._~:/?");
	check_charset("A-10", general, "at://a/a*a", ALNUM "-._~:@!$&'()*+,;=/?");
	check_charset("A-15", general, "at://a?a*", ALNUM "-._~:@!$&'()*+,;=/?");
	check_charset("A-16", general, "at://a#/*", ALNUM "-._~:@!$&'()*+,;=/?");
	check_charset("A-16", general, "at://a#*", "/");
	check_charset("A-07, D9", general, "at://%*f", DIGITS "abcdefABCDEF");
	check_charset("N1", normalize, "at://a/a*a", ALNUM "-._~:@!$&'()*+,;=/?");
	check_charset("N1", normalize, "at://a*a", ALNUM "-._~:/?");
	ACCEPTED("A-08", general, "at://did:example:AbC", "at://did:m:v", "at://did", "at://did%3Aplc");
	REFUSED("A-08", general,
			{"at://did:plc:", ATP_E_DID_ID_EMPTY, 13},
			{"at://did:plc", ATP_E_DID_COLON, 12},
			{"at://DID:plc:abc", ATP_E_DID_PREFIX, 5},
			{"at://dId:plc:abc", ATP_E_DID_PREFIX, 6},
			{"at://did:PLC:abc", ATP_E_DID_METHOD, 9},
			{"at://did:m123:val", ATP_E_DID_METHOD, 10},
			{"at://did:plc:a~b/x", ATP_E_DID_CHAR, 14},
			{"at://did:", ATP_E_DID_METHOD_EMPTY, 9});
	REFUSED("A-09", general,
			{"at://:3000", ATP_E_URI_AUTHORITY_COLON, 5},
			{"at://foo.com:", ATP_E_URI_AUTHORITY_COLON, 12},
			{"at://foo.com:/a", ATP_E_URI_AUTHORITY_COLON, 12},
			{"at://:", ATP_E_URI_AUTHORITY_COLON, 5},
			{"at://:/did:plc:asdf123", ATP_E_URI_AUTHORITY_COLON, 5});
	REFUSED("A-10", general,
			{"at://foo.com/\x01", ATP_E_URI_CHAR, 13},
			{"at://foo.com/a b", ATP_E_URI_CHAR, 14},
			{"at://foo.com/\"", ATP_E_URI_CHAR, 13},
			{"at://foo.com/a<", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a>", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a\\", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a^", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a`", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a{", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a|", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a}", ATP_E_URI_CHAR, 14},
			{"at://foo.com/[", ATP_E_URI_CHAR, 13},
			{"at://foo.com/a]", ATP_E_URI_CHAR, 14},
			{"at://foo.com/a\x7f", ATP_E_URI_CHAR, 14},
			{"at://foo.com?\xc3\xa9", ATP_E_URI_CHAR, 13},
			{"at://foo.com#/\xff", ATP_E_URI_CHAR, 14},
			{"at://f\xc3\xa9.com", ATP_E_URI_AUTHORITY_CHAR, 6});
	ACCEPTED("A-10", general, "at://foo.com/!$&'()*+,;=:@-._~");
	ACCEPTED("A-11", general, "at://foo.com/%2f", "at://foo.com/%2F?%aB#/%Ff", "at://%00");
	REFUSED("A-11", general,
			{"at://foo.com/%", ATP_E_PERCENT, 13},
			{"at://foo.com/a%2", ATP_E_PERCENT, 14},
			{"at://foo.com/%zz", ATP_E_PERCENT, 13},
			{"at://foo.com/%2/a", ATP_E_PERCENT, 13},
			{"at://foo.com?a%", ATP_E_PERCENT, 14},
			{"at://foo.com#/%x0", ATP_E_PERCENT, 14},
			{"at://foo%", ATP_E_PERCENT, 8});
	ACCEPTED("A-12, A-14", general, "at://foo.com/a/b/c/d", "at://foo.com/a/./../b");
	REFUSED("A-12, A-13, D16", general,
			{"at://foo.com//a", ATP_E_URI_SEGMENT_EMPTY, 13},
			{"at://foo.com/a//b", ATP_E_URI_SEGMENT_EMPTY, 15},
			{"at://foo.com/", ATP_E_URI_TRAILING_SLASH, 12},
			{"at://foo.com/a/", ATP_E_URI_TRAILING_SLASH, 14},
			{"at://foo.com/?x", ATP_E_URI_TRAILING_SLASH, 12},
			{"at://foo.com/a/#/f", ATP_E_URI_TRAILING_SLASH, 14});
	ACCEPTED("A-15", general, "at://foo.com?", "at://foo.com?a=b/c?d", "at://foo.com/a?#/b");
	ACCEPTED("A-16, D19", general, "at://foo.com#/", "at://foo.com#/a/0", "at://foo.com#/?~x");
	REFUSED("A-16, D19", general,
			{"at://foo.com#", ATP_E_URI_FRAGMENT, 13},
			{"at://foo.com##", ATP_E_URI_FRAGMENT, 13},
			{"at://foo.com#x", ATP_E_URI_FRAGMENT, 13},
			{"at://foo.com#%2F", ATP_E_URI_FRAGMENT, 13},
			{"at://foo.com#/a#/b", ATP_E_URI_CHAR, 15},
			{"at://foo.com#/a b", ATP_E_URI_CHAR, 15});
	REFUSED("A-18", general,
			{"../c/r", ATP_E_URI_SCHEME_AT, 0},
			{"/c/r", ATP_E_URI_SCHEME_AT, 0},
			{"c/r", ATP_E_URI_SCHEME_AT, 0});
	REFUSED("A-20", general,
			{" at://foo.com", ATP_E_URI_SCHEME_AT, 0},
			{"at://foo.com ", ATP_E_URI_AUTHORITY_CHAR, 12},
			{"at://foo.com\n", ATP_E_URI_AUTHORITY_CHAR, 12},
			{"at://foo.com/a\n", ATP_E_URI_CHAR, 14});
}

static void
test_levels(void)
{
	ACCEPTED("A-19, A-30", lexicon, "at://foo.com/com.example.foo/123", "at://foo.com",
			 "at://foo.com/com.example.foo", PLC, "at://did:web:localhost%3A1234/a.b.c/d");
	REFUSED("A-04, A-05, A-30", lexicon,
			{"at://computer", ATP_E_HANDLE_LABELS, 13},
			{"at://example.com:3000", ATP_E_LABEL_CHAR, 16},
			{"at://foo_bar.com/a.b.c", ATP_E_LABEL_CHAR, 8},
			{"at://127.0.0.1", ATP_E_HANDLE_TLD, 13});
	REFUSED("A-31", lexicon,
			{"at://foo.com?", ATP_E_URI_LEX_QUERY, 12},
			{"at://foo.com/a.b.c/d?x#/y", ATP_E_URI_LEX_QUERY, 20},
			{"at://foo.com/a.b.c#/d", ATP_E_URI_LEX_FRAGMENT, 18});
	REFUSED("A-19, A-32, A-33", lexicon,
			{"at://foo.com/com.example.foo/123/extra", ATP_E_URI_SEGMENTS, 32},
			{"at://foo.com/123", ATP_E_NSID_FIRST, 13},
			{"at://foo.com/example/123", ATP_E_NSID_SEGMENTS, 20},
			{"at://foo.com/short/stuff", ATP_E_NSID_SEGMENTS, 18});
	ACCEPTED("A-34", lexicon, "at://foo.com/a.b.c/...", "at://foo.com/a.b.c/:");
	REFUSED("A-14, A-34, A-35", lexicon,
			{"at://foo.com/a.b.c/.", ATP_E_RKEY_DOTS, 19},
			{"at://foo.com/a.b.c/..", ATP_E_RKEY_DOTS, 19},
			{"at://foo.com/a.b.c/a@b", ATP_E_RKEY_CHAR, 20},
			{"at://foo.com/a.b.c/%30", ATP_E_RKEY_CHAR, 19},
			{"at://foo.com/a.b.c/x%23", ATP_E_RKEY_CHAR, 20},
			{"at://foo.com/a.b%2Ec/x", ATP_E_LABEL_CHAR, 16},
			{"at://foo.com/./a.b.c", ATP_E_LABEL_EMPTY, 13});

	ACCEPTED("A-36", strict, PLC, PLC "/app.bsky.feed.post/3jwdwj2ctlk26", "at://foo.com/a.b.cD/E",
			 "at://did:web:localhost%3A1234", "at://did:plc:asdf123");
	REFUSED("A-36, A-37, D1", strict,
			{"at://FOO.com/com.example.foo/1", ATP_E_URI_NORMAL, 5},
			{"at://foo.com/com.eXample.foo/1", ATP_E_URI_NORMAL, 18},
			{"at://did:plc:abC", ATP_E_URI_NORMAL, 15},
			{"at://did:web:localhost%3a1234", ATP_E_URI_NORMAL, 22},
			{"at://did:web:a%61", ATP_E_URI_NORMAL, 14},
			{"at://did:web:a%253A", ATP_E_URI_NORMAL, 14},
			{"at://did:web:a%3AB", ATP_E_URI_NORMAL, 17},
			{"at://did:key:zQ3", ATP_E_URI_DID_METHOD, 9},
			{"at://did:abc:123", ATP_E_URI_DID_METHOD, 9});
	ACCEPTED("A-37", lexicon, "at://FOO.com/com.example.foo/1", "at://did:key:zQ3");
	ACCEPTED("A-36", strict, "at://did:web:a%7Eb", "at://did:web:a%25", "at://did:web:a%253");
	REFUSED("D2", strict, {"at://foo.com/a.b.c/d:e", ATP_E_RKEY_COLON, 20});

	ACCEPTED("A-40", record, PLC "/a.b.c/d", "at://did:key:z/a.b.c/d:e");
	REFUSED("A-40", record,
			{PLC, ATP_E_URI_RECORD_COLLECTION, 37},
			{PLC "/a.b.c", ATP_E_URI_RECORD_RKEY, 43},
			{"at://foo.com/a.b.c/d", ATP_E_URI_RECORD_DID, 5},
			{PLC "/a.b.c/d#/e", ATP_E_URI_LEX_FRAGMENT, 45});
}

static void
test_nosh(void)
{
	ACCEPTED("N-01", nosh_general, "nosh://1673", "nosh://computer/a?b#/c");
	REFUSED("N-01, N-06, N-10", nosh_general,
			{"NOSH://1673", ATP_E_URI_SCHEME_NOSH, 0},
			{"at://1673/nosh.server.buyer.address", ATP_E_URI_SCHEME_NOSH, 0},
			{"nosh:///a", ATP_E_URI_AUTHORITY_EMPTY, 7},
			{"nosh://@1673", ATP_E_URI_USERINFO, 7},
			{"nosh://user:pass@foo.com", ATP_E_URI_USERINFO, 16},
			{"nosh://foo.com/", ATP_E_URI_TRAILING_SLASH, 14},
			{"nosh://1673#x", ATP_E_URI_FRAGMENT, 12},
			{"nosh://1673/%2", ATP_E_PERCENT, 12},
			{"nosh://1673:", ATP_E_URI_AUTHORITY_COLON, 11});
	ACCEPTED("N-01, N-07", nosh_general, "nosh://did:1673", "nosh://did:PLC:abc", "nosh://DID:a", "nosh://did:web:a~b");
	ACCEPTED("N-09", nosh_strict, "nosh://0x0000000000000000000000000000000000000000");
	ACCEPTED("N-03, N-04", nosh_strict, "nosh://1673/nosh.server.buyer.address/3jwdwj2ctlk26",
			 "nosh://0xb794f5ea0ba39494ce839613fffba74279579268/nosh.server.buyer.address",
			 "nosh://foo.com/com.example.foo/123");
	REFUSED("N-03, N-05", nosh_lexicon,
			{"nosh://foo.com/example/123", ATP_E_NSID_SEGMENTS, 22},
			{"nosh://computer", ATP_E_URI_NOSH_AUTHORITY, 7},
			{"nosh://example.com:3000", ATP_E_URI_NOSH_AUTHORITY, 7},
			{"nosh://01673", ATP_E_URI_NOSH_AUTHORITY, 7},
			{"nosh://0", ATP_E_URI_NOSH_AUTHORITY, 7},
			{"nosh://did:plc:44ybard66vv44zksje25o7dz", ATP_E_URI_NOSH_AUTHORITY, 7},
			{"nosh://1673?", ATP_E_URI_LEX_QUERY, 11},
			{"nosh://1673/a.b.c/d/e", ATP_E_URI_SEGMENTS, 19});
	REFUSED("N-07", nosh_strict,
			{"nosh://0xB794f5ea0ba39494ce839613fffba74279579268", ATP_E_URI_NORMAL, 9},
			{"nosh://1673/a.B.c/d", ATP_E_URI_NORMAL, 14},
			{"nosh://1673/a.b.c/d:e", ATP_E_RKEY_COLON, 19});
	ACCEPTED("A-40", nosh_record, "nosh://1673/a.b.c/d");
	REFUSED("A-40", nosh_record,
			{"nosh://foo.com/a.b.c/d", ATP_E_URI_RECORD_AGENT, 7},
			{"nosh://1673", ATP_E_URI_RECORD_COLLECTION, 11});
	check_normal(ATP_SCHEME_NOSH, "nosh://did:key:zQ", 17, "nosh://did:key:zq", 17);
	check_normal(ATP_SCHEME_NOSH, "nosh://did:web:a%253A1", 22, "nosh://did:web:a%253a1", 22);
	check_normal(ATP_SCHEME_NOSH, "nosh://DID%3aWeb%3aa", 20, "nosh://did%3Aweb%3Aa", 20);
	REFUSED("N-07", nosh_normalize,
			{"at://1673", ATP_E_URI_SCHEME_NOSH, 0},
			{"nosh://a@b", ATP_E_URI_USERINFO, 8});
}

/* The normal form of a valid URI, which may be valid as liberal text as well. */
static void
check_form(const char *s, const char *expected)
{
	char		out[ATP_URI_MAX];
	char		again[ATP_URI_MAX];
	size_t		on = 0;
	size_t		again_n;
	size_t		at;

	ok(general(s, strlen(s), &at) == ATP_OK &&
	   atp_uri_normal_form(ATP_SCHEME_AT, s, strlen(s), out, &on) == ATP_OK &&
	   on == strlen(expected) && memcmp(out, expected, on) == 0, "A-21: the normal form of %s is %s", s, expected);
	ok(general(out, on, &at) == ATP_OK &&
	   atp_uri_normal_form(ATP_SCHEME_AT, out, on, again, &again_n) == ATP_OK &&
	   again_n == on && memcmp(again, out, on) == 0, "and is its own");
}

static void
test_normalize(void)
{
	char		deep[ATP_URI_MAX + 1] = "at://did:web:a%";

	/* cases that the tables lack */
	NORMAL("N2, N3", "at://a%2db/%7E%2f?%2F%41#/%5f", "at://a-b/~%2F?%2FA#/_");
	NORMAL("N3", "at://%64id:web:a", "at://did:web:a");
	NORMAL("N3", "at://a%7Eb", "at://a~b");
	NORMAL("N4", "at://did:web:%25253a%252525253A%25", "at://did:web:%3A%3A%25");
	NORMAL("N4", "at://did:key:%2541%252%35", "at://did:key:A%25");
	NORMAL("N4", "at://did:key:%25%32%35%34%31", "at://did:key:A");
	NORMAL("N4", "at://did:key:%25%253241", "at://did:key:%241");
	NORMAL("N4", "at://did:key:%257Eb", "at://did:key:%7Eb");
	NORMAL("N4 (not)", "at://did:web:a%25zz%252", "at://did:web:a%25zz%252");
	NORMAL("N3 (not)", "at://did:web:a%7eb", "at://did:web:a%7Eb");
	NORMAL("D8", "at://did%3aweb:A%3ab", "at://did:web:a%3Ab");
	NORMAL("D8", "at://did:web%3Ab%3Ac", "at://did:web:b%3Ac");
	NORMAL("N5", "at://A%3aB%c3%A9", "at://a%3Ab%C3%A9");
	NORMAL("N6", "at://a/b/../../../c/.", "at://a/c");
	NORMAL("N6", "at://a/./..?q", "at://a?q");
	NORMAL("N6", "at://a/...//....", "at://a/.../....");
	NORMAL("N6, N7", "at://a/b//../../c", "at://a/c");
	NORMAL("N7, N8", "at://a////?//", "at://a?//");
	NORMAL("N9", "at://a/b/../C.D.E", "at://a/c.d.E");
	NORMAL("N9 (not)", "at://a/C.D.%40/E.F.G", "at://a/C.D.%40/E.F.G");
	NORMAL("D7", "at://a?#/%61", "at://a?#/a");
	NORMAL("S-02", "at://did:plc:A/space/Com.Example.Forum/K//did:plc:B%41/Com.Example.Post/R/",
		   "at://did:plc:a/space/com.example.Forum/K/did:plc:ba/com.example.Post/R");
	NORMAL("S-02", "at://did:web:a/%73pace/A.B.c/D", "at://did:web:a/space/a.b.c/D");
	NORMAL("S-02 (not)", "at://did:web:a/spaces/A.B.c/D/did:web:E", "at://did:web:a/spaces/A.B.c/D/did:web:E");
	NORMAL("S-02 (not)", "at://did:web:a/space/A.b/D/did:key:E/F.g/DID:web:H", "at://did:web:a/space/A.b/D/did:key:E/F.g/DID:web:H");
	NORMAL("S-02, N3", "at://did:web:a/space/a.b.c/d/did:web:a%257E/e.f.g/h", "at://did:web:a/space/a.b.c/d/did:web:a%257e/e.f.g/h");

	REFUSED("N1", normalize,
			{"", ATP_E_URI_SCHEME_AT, 0},
			{"at:/foo.com", ATP_E_URI_SCHEME_AT, 4},
			{"aT://", ATP_E_URI_AUTHORITY_EMPTY, 5},
			{"at:////a", ATP_E_URI_AUTHORITY_EMPTY, 5},
			{"at://u@foo.com", ATP_E_URI_USERINFO, 6},
			{"at://foo.com/%zz", ATP_E_PERCENT, 13},
			{"at://foo.com/../a b", ATP_E_URI_CHAR, 17},
			{"at://foo.com/[x]/..", ATP_E_URI_CHAR, 13},
			{"at://foo.com#/a#", ATP_E_URI_CHAR, 15},
			{"at://foo.com?%1", ATP_E_PERCENT, 13},
			{"at://foo.com#", ATP_E_URI_FRAGMENT, 13},
			{"at://foo.com:", ATP_E_URI_AUTHORITY_COLON, 12},
			{"at://:foo.com", ATP_E_URI_AUTHORITY_COLON, 5},
			{"at://DID:plc:abc", ATP_E_DID_PREFIX, 5},
			{"at://did:PLC:abc", ATP_E_DID_METHOD, 9},
			{"at://did%3APLC%3Aabc", ATP_E_DID_METHOD, 5},
			{"at://did%3Aplc", ATP_E_DID_COLON, 5},
			{"at://did%3A", ATP_E_DID_METHOD_EMPTY, 5},
			{"at://did:", ATP_E_DID_METHOD_EMPTY, 9},
			{"at://did:pl%2563:abc", ATP_E_DID_COLON, 5},
			{"at://did:web:a~b", ATP_E_DID_CHAR, 14});

	/* Valid URIs whose authority is nearly a DID: every stored value needs a normal form. */
	check_form("at://did%3aplc3Aabc", "at://did%3Aplc3aabc");
	check_form("at://DID%3Aplc3A%61%7e/A.B.C/../%7E", "at://did%3Aplc3aa~/~");
	check_form("at://did%3AX", "at://did%3Ax");
	check_form("at://did%3Am1%3AX", "at://did%3Am1%3Ax");
	check_form("at://did%3APLC%3aaB%2e", "at://did%3APLC%3AaB%2E");
	check_form("at://DID%3akey%3aaB/./x", "at://DID%3Akey%3AaB/x");
	check_form("at://%64id:Plc", "at://%64id:Plc");
	check_form("at://%64id:plc:A", "at://did:plc:a");
	check_form("at://did%3Aplc%3Aa~B", "at://did%3Aplc%3Aa~b");

	/* an encoding of an encoding of ..., as deep as the limit allows: linear time, and one result */
	while (strlen(deep) + 4 <= ATP_URI_MAX)
		strcat(deep, "25");
	strcat(deep, "3A");
	NORMAL("N4", deep, "at://did:web:a%3A");
}

static void
test_lengths(void)
{
	char	   *s;
	size_t		at;

	s = filled("at://did:plc:asdf123/com.atproto.feed.post/", 'o', 555);
	check_levels(ATP_SCHEME_AT, s, 555, 't', 't', 't');
	check_normal(ATP_SCHEME_AT, s, 555, s, 555);
	s = filled("at://did:plc:asdf123/com.atproto.feed.post/", 'o', 556);
	check_levels(ATP_SCHEME_AT, s, 556, 't', 'f', 'f');
	check_normal(ATP_SCHEME_AT, s, 556, s, 556);
	s = filled("at://foo.com/", 'a', 8192);
	check_levels(ATP_SCHEME_AT, s, 8192, 't', 'f', 'f');
	check_normal(ATP_SCHEME_AT, s, 8192, s, 8192);
	s = filled("at://foo.com/", 'a', 8193);
	check_levels(ATP_SCHEME_AT, s, 8193, 'f', 'f', 'f');
	check_normal(ATP_SCHEME_AT, s, 8193, "ERROR", 5);
	ok(general(s, 8193, &at) == ATP_E_URI_LONG && at == 8192, "A-17, D17: the byte too many");
	ok(normalize(s, 8193, &at) == ATP_E_URI_LONG && at == 8192, "A-17: the byte too many");
	s = filled("nosh://foo.com/", 'a', 8193);
	ok(nosh_general(s, 8192, &at) == ATP_OK && nosh_general(s, 8193, &at) == ATP_E_URI_LONG,
	   "N-07: 8192 and 8193 bytes");
	s = filled("at://did:m:", 'v', 5 + 2049);
	ok(general(s, 5 + 2048, &at) == ATP_OK, "A-08: a DID of 2048 bytes");
	ok(general(s, 5 + 2049, &at) == ATP_E_DID_LONG && at == 5 + 2048, "A-08: a DID of 2049 bytes");
	ok(general("at://a\0b", 8, &at) == ATP_E_URI_AUTHORITY_CHAR && at == 6, "A-10: a NUL");
	ok(normalize("at://a/\0b", 9, &at) == ATP_E_URI_CHAR && at == 7, "A-10: a NUL");
}

/* A-38: the parts, "-" for an absent one. */
static void
check_parts(const char *s, AtpAuthority kind, const char *authority, const char *path,
			unsigned segments, const char *query, const char *fragment,
			const char *collection, const char *rkey)
{
	AtpUri		uri;
	size_t		at;
	const char *expected[] = {authority, path, query, fragment, collection, rkey};
	AtpErr		err = atp_uri_parse(ATP_SCHEME_AT, s, strlen(s), &uri, &at);
	AtpSpan		found[] = {uri.authority, uri.path, uri.query, uri.fragment, uri.collection, uri.rkey};
	bool		same = err == ATP_OK && uri.kind == kind && uri.segments == segments &&
		uri.scheme == ATP_SCHEME_AT;

	for (int i = 0; i < 6; i++)
	{
		if (strcmp(expected[i], "-") == 0)
			same = same && found[i].ptr == NULL;
		else
			same = same && found[i].ptr != NULL && atp_span_is(found[i], expected[i]);
	}
	ok(same, "A-38: parts of %s", show(s, strlen(s)));
}

static void
test_parts(void)
{
	AtpUri		uri;
	size_t		at;

	check_parts("at://foo.com", ATP_AUTHORITY_HANDLE, "foo.com", "-", 0, "-", "-", "-", "-");
	check_parts("at://did:m:v/a.b.c/d", ATP_AUTHORITY_DID, "did:m:v", "/a.b.c/d", 2, "-", "-",
				"a.b.c", "d");
	check_parts("at://a:1/b/c/d?e#/f", ATP_AUTHORITY_OPAQUE, "a:1", "/b/c/d", 3, "e", "/f", "-", "-");
	check_parts("at://a.b/a.b.c/%41/d?", ATP_AUTHORITY_HANDLE, "a.b", "/a.b.c/%41/d", 3, "", "-",
				"a.b.c", "-");
	check_parts("at://did%3Aplc%3Aa#/", ATP_AUTHORITY_OPAQUE, "did%3Aplc%3Aa", "-", 0, "-", "/",
				"-", "-");
	check_parts("at://a/b/c", ATP_AUTHORITY_OPAQUE, "a", "/b/c", 2, "-", "-", "-", "-");
	atp_uri_parse(ATP_SCHEME_AT, "at://a/b/c/d", 12, &uri, &at);
	ok(atp_span_is(uri.seg1, "b") && atp_span_is(uri.seg2, "c"), "A-38: the first two segments");
}

/* The tokens of a fragment, joined by '|'; "!" marks an error. */
static void
check_pointer(const char *fragment, const char *expected, size_t error_at)
{
	AtpSpan		span = {fragment, strlen(fragment)};
	char		found[200] = "";
	char		token[100];
	size_t		len;
	size_t		pos = 0;
	size_t		at = 0;
	AtpErr		err;

	while (atp_uri_pointer_next(span, &pos, token, &len, &err, &at))
	{
		strcat(found, "|");
		strncat(found, token, len);
	}
	if (err != ATP_OK)
		strcat(found, err == ATP_E_URI_POINTER ? "!" : "?");
	ok(strcmp(found, expected) == 0 && at == error_at, "A-38, D19: %s is %s",
	   show(fragment, strlen(fragment)), found);
}

static void
test_pointer(void)
{
	check_pointer("/", "|", 0);
	check_pointer("//", "||", 0);
	check_pointer("/a", "|a", 0);
	check_pointer("/a/", "|a|", 0);
	check_pointer("/key/0", "|key|0", 0);
	check_pointer("/a~1b/m~0n/~01", "|a/b|m~n|~1", 0);
	check_pointer("/c%25d/%20", "|c%d| ", 0);
	check_pointer("/a%2Fb", "|a|b", 0);
	check_pointer("/a%2f", "|a|", 0);
	check_pointer("/%7E1%7e%30", "|/~", 0);
	check_pointer("/a?b", "|a?b", 0);
	check_pointer("/a~", "!", 2);
	check_pointer("/a/b~2", "|a!", 4);
	check_pointer("/~/b", "!", 1);
	check_pointer("", "", 0);
}

int
main(void)
{
	test_tables();
	test_draft();
	test_general();
	test_levels();
	test_nosh();
	test_normalize();
	test_lengths();
	test_parts();
	test_pointer();
	return done_testing();
}
