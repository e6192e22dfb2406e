/*
 * test_uri_from.c
 *		AT URIs from what people paste: the candidate forms, and addresses of web pages.
 */
#include "core/syntax/did.h"
#include "core/syntax/uri.h"
#include "core/syntax/uri_from.h"
#include "syntax.h"

#define PLC "did:plc:44ybard66vv44zksje25o7dz"
#define PLC_ESCAPED "did%3Aplc%3A44ybard66vv44zksje25o7dz"
#define RECORD "/com.example.record/3mwp2ezf3fh22"

/* The input and the output end where their memory ends, so that the sanitizer sees each byte beside them. */
static void
check_from(const char *rule, const char *text, size_t n, AtpSpan pattern, AtpSpan uri, const char *expected)
{
	char	   *s = malloc(n);
	char	   *out = malloc(ATP_URI_MAX);
	size_t		on = 0;
	bool		known;

	memcpy(s, text, n);
	known = pattern.ptr == NULL ? atp_uri_from(s, n, out, &on) : atp_uri_from_web(s, n, pattern, uri, out, &on);
	ok(known == (expected != NULL) && (!known || (on == strlen(expected) && memcmp(out, expected, on) == 0)),
	   "%s: %s is %s", rule, show(text, n), known ? show(out, on) : "not known");
	free(s);
	free(out);
}

static void
is(const char *text, const char *expected)
{
	check_from("A-42", text, strlen(text), (AtpSpan) {NULL, 0}, (AtpSpan) {NULL, 0}, expected);
}

static void
candidates(void)
{
	is("at:///" PLC RECORD, "at://" PLC RECORD);
	is("at:" PLC RECORD, "at://" PLC RECORD);
	is("at://" PLC_ESCAPED RECORD, "at://" PLC RECORD);
	is("at:///" PLC, "at://" PLC);
	is("at:" PLC, "at://" PLC);
	is("at://" PLC_ESCAPED, "at://" PLC);
	is("at://did%3aweb%3aexample.com" RECORD, "at://did:web:example.com" RECORD);
	is("at:did:web:example.com#/a", "at://did:web:example.com#/a");
	is("at:///did:web:example.com?a", "at://did:web:example.com?a");
	is("at://" PLC RECORD, "at://" PLC RECORD);
	is("at://Alice.Example/", "at://alice.example");
	is(" \t\r\n\v\fAT://" PLC "//com.Example.record/ ", "at://" PLC "/com.example.record");
	is("at://did%3Aplc:44ybard66vv44zksje25o7dz", "at://" PLC);
	is("at://did:plc%3A44ybard66vv44zksje25o7dz", "at://" PLC);
	is("at://did:web:localhost%3a3000", "at://did:web:localhost%3A3000");
}

/* What is near to a known form. */
static void
strangers(void)
{
	static const char *const texts[] = {
		"", " ", "a", "at", "at:", "at:/", "at://", "at:///", "at:////" PLC, "at:/" PLC, "at// " PLC, "at: " PLC,
		"at:///alice.example", "at:alice.example", "at:///" PLC_ESCAPED, "at:" PLC_ESCAPED,
		"at:///did:plc", "at:did:", "at:did:plc:", "at:///did:PLC:", "at://did%3A", "at://did%3Aplc", "at://did%3Aplc%3A",
		"at://did%3Aplc%3A/", "at://did%3A%3Aabc", "AT:DID:plc:abc", "at://did:plc", "at://did",
		/* another escape in the identifier: of a port, of a character, of a '%' */
		"at://did%3Aweb%3Alocalhost%3A3000", "at://did%3Aplc%3Aabc%64", "at://did%253Aplc%253Aabc", "at://did%3Aplc%253Aabc",
		"at://did:web:localhost%253A3000", "at://did:plc:abc%", "at://did%3", "at://did%3Aplc%3", "at://did%3Aplc%3A%",
		"at://%64id:plc:abc", "at://alice%2Eexample",
		/* an authority that is no account */
		"at://localhost", "at://alice.example:3000", "at://user@alice.example",
		/* not the scheme */
		"nosh://1673", "https://bsky.app/profile/alice.example", PLC, "@alice.example", "alice.example", "xat://" PLC,
		"at://" PLC " x", "at://" PLC "/a b", "at://" PLC "/%", "at://" PLC "#a", "\xc2\xa0" "at://" PLC,
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		is(texts[i], NULL);
	check_from("A-42", "at://a.b\0", 9, (AtpSpan) {NULL, 0}, (AtpSpan) {NULL, 0}, NULL);
	check_from("A-42", "\0at://a.b", 9, (AtpSpan) {NULL, 0}, (AtpSpan) {NULL, 0}, NULL);
	check_from("A-42", "at:did:plc:a\0b", 14, (AtpSpan) {NULL, 0}, (AtpSpan) {NULL, 0}, NULL);
}

/* The limit is that of the URI, not that of the text. */
static void
lengths(void)
{
	char		wide[ATP_URI_MAX + 100];
	static char longest[ATP_URI_MAX + 1];

	memcpy(longest, filled("at://" PLC "/", 'a', ATP_URI_MAX), sizeof(longest));
	is(longest, longest);
	memset(wide, ' ', sizeof(wide));
	memcpy(wide + 50, longest, ATP_URI_MAX);
	check_from("A-42", wide, sizeof(wide), (AtpSpan) {NULL, 0}, (AtpSpan) {NULL, 0}, longest);
	is(filled("at://" PLC "/", 'a', ATP_URI_MAX + 1), NULL);
	is(filled("at://" PLC "/", 'a', ATP_URI_MAX + 100), NULL);
	is(filled("at:///" PLC "/", 'a', ATP_URI_MAX + 1), longest);
	is(filled("at:///" PLC "/", 'a', ATP_URI_MAX + 2), NULL);
	is(filled("at:" PLC "/", 'a', ATP_URI_MAX - 2), longest);
	is(filled("at:" PLC "/", 'a', ATP_URI_MAX - 1), NULL);
	is(filled("at:" PLC "/", 'a', ATP_URI_MAX + 4), NULL);
	is(filled("at:" PLC "/", 'a', ATP_URI_MAX + 5), NULL);
	is(filled("at://" PLC_ESCAPED "/", 'a', ATP_URI_MAX + 4), longest);
	is(filled("at://" PLC_ESCAPED "/", 'a', ATP_URI_MAX + 5), NULL);
	is(filled("at:did:plc:", 'a', ATP_DID_MAX + 3 + 1), NULL);
	is(filled("at://did%3Aplc%3A", 'a', 5 + ATP_DID_MAX + 4 + 1), NULL);
}

/* --- web pages --- */

static AtpSpan
span(const char *s)
{
	return (AtpSpan) {s, strlen(s)};
}

#define POST "https://bsky.app/profile/{authority}/post/{rkey}"
#define POST_URI "at://{authority}/app.bsky.feed.post/{rkey}"

static void
page(const char *pattern, const char *uri, const char *text, const char *expected)
{
	unsigned	a;
	unsigned	b;
	size_t		at;

	ok(atp_web_pattern_check(span(pattern), &a, &at) == ATP_OK && atp_web_uri_check(span(uri), &b, &at) == ATP_OK && a == b,
	   "A-43: %s is a pattern of %s", pattern, uri);
	check_from("A-43", text, strlen(text), span(pattern), span(uri), expected);
}

static void
pages(void)
{
	static const char *const posts[] = {
		"https://bsky.app/profile/alice.example/post/3mwp2ezf3fh22", "HTTP://BSKY.APP/profile/Alice.Example/post/3mwp2ezf3fh22",
		" https://bsky.app/profile/alice.example/post/3mwp2ezf3fh22/ ", "https://bsky.app/profile/alice.example/post/3mwp2ezf3fh22?a=/b#c/d",
		"https://bsky.app/profile/alice.example/post/%33mwp2ezf3fh22", "https://bsky.app/profile/alice%2Eexample/post/3mwp2ezf3fh22",
	};
	static const char *const strange[] = {
		"https://bsky.app", "https://bsky.app/", "https://bsky.app/profile", "https://bsky.app/profile/alice.example",
		"https://bsky.app/profile/alice.example/post", "https://bsky.app/profile/alice.example/post//3mwp2ezf3fh22",
		"https://bsky.app/profile/alice.example/post/3mwp2ezf3fh22//", "https://bsky.app/profile/alice.example/post/3mwp2ezf3fh22/liked-by",
		"https://bsky.app//profile/alice.example/post/3mwp2ezf3fh22", "https://bsky.app/Profile/alice.example/post/3mwp2ezf3fh22",
		"https://bsky.app/profile/alice/post/3mwp2ezf3fh22", "https://bsky.app/profile/alice.example/post/..",
		"https://bsky.app/profile/alice.example/post/a%2Fb", "https://bsky.app/profile/alice.example/post/a b",
		"https://bsky.app/profile/did%253Aplc%253Aabc/post/1", "https://bsky.app/profile/did:web:localhost%253A3000/post/1",
		"https://bsky.app/profile/did:plc:abc%/post/1", "https://bsky.app/profile/did:plc:abc%3/post/1", "https://bsky.app/profile/did:plc:a%00/post/1",
		"https://bsky.app/%70rofile/alice.example/post/1",
		/* a port, or a colon that only this program escapes */
		"https://bsky.app/profile/did:web:localhost%3A3000/post/1", "https://bsky.app/profile/did%3Aweb:localhost%3a3000/post/1",
		/* another host, whatever stands where */
		"https://bsky.app.example/profile/alice.example/post/1", "https://bsky.ap/profile/alice.example/post/1",
		"https://bsky.app@evil.example/profile/alice.example/post/1", "https://evil.example/bsky.app/profile/alice.example/post/1",
		"https://bsky.app:443/profile/alice.example/post/1", "https://user@bsky.app/profile/alice.example/post/1",
		"https:/bsky.app/profile/alice.example/post/1", "ftp://bsky.app/profile/alice.example/post/1", "bsky.app/profile/alice.example/post/1",
		"https://bsky.app?/profile/alice.example/post/1", "https://bsky.app#/profile/alice.example/post/1",
		"https://bsky.app\\profile/alice.example/post/1", "at://alice.example/app.bsky.feed.post/1", "", "https://",
		"https://bsky.app/profile/{authority}/post/{rkey}",
	};
	char	   *text;

	for (size_t i = 0; i < sizeof(posts) / sizeof(posts[0]); i++)
		page(POST, POST_URI, posts[i], "at://alice.example/app.bsky.feed.post/3mwp2ezf3fh22");
	page(POST, POST_URI, "https://bsky.app/profile/" PLC_ESCAPED "/post/1", "at://" PLC "/app.bsky.feed.post/1");
	page(POST, POST_URI, "https://bsky.app/profile/did%3Aweb%3Alocalhost%3A3000/post/1", "at://did:web:localhost:3000/app.bsky.feed.post/1");
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
		page(POST, POST_URI, strange[i], NULL);
	page("https://pdsls.dev/at://{authority}/{collection}/{rkey}", "at://{authority}/{collection}/{rkey}",
		 "https://pdsls.dev/at://alice.example/com.example.record/self", "at://alice.example/com.example.record/self");
	page("https://pdsls.dev/at://{authority}/{collection}/{rkey}", "at://{authority}/{collection}/{rkey}",
		 "https://pdsls.dev/at://alice.example/example/self", NULL);
	page("https://blog.example/{rkey}", "at://did:web:blog.example/com.example.entry/{rkey}", "http://blog.example/a-title",
		 "at://did:web:blog.example/com.example.entry/a-title");
	page("https://bsky.app/{authority}", "at://{authority}", "https://bsky.app@evil.example", NULL);
	page("https://bsky.app/{authority}", "at://{authority}", "https://bsky.app:evil.example", NULL);
	page("https://blog.example", "at://blog.example", "https://BLOG.example/", "at://blog.example");

	/* the longest identifier, and one byte more */
	text = filled("https://bsky.app/profile/did:m:", 'a', 25 + ATP_DID_MAX);
	page("https://bsky.app/profile/{authority}", "at://{authority}", text, filled("at://did:m:", 'a', 5 + ATP_DID_MAX));
	page("https://bsky.app/profile/{authority}", "at://{authority}", filled("https://bsky.app/profile/did:m:", 'a', 25 + ATP_DID_MAX + 1), NULL);
	page("https://bsky.app/profile/{authority}", "at://{authority}", filled("https://bsky.app/profile/a.b?", 'a', ATP_URI_MAX), "at://a.b");
	page("https://bsky.app/profile/{authority}", "at://{authority}", filled("https://bsky.app/profile/a.b?", 'a', ATP_URI_MAX + 1), NULL);
}

static AtpErr
pattern_check(const char *s, size_t n, size_t *at)
{
	unsigned	places;

	return atp_web_pattern_check((AtpSpan) {s, n}, &places, at);
}

static AtpErr
uri_check(const char *s, size_t n, size_t *at)
{
	unsigned	places;

	return atp_web_uri_check((AtpSpan) {s, n}, &places, at);
}

static void
patterns(void)
{
	ACCEPTED("A-43", pattern_check, "https://a.b", "https://a.b/c", "https://a.b//c", "https://a.b/at://{authority}", "https://a.b/{rkey}/{authority}",
			 "https://a.b/@c/d;e=f");
	ok(pattern_check(filled("https://a.b/", 'a', ATP_WEB_MAX), ATP_WEB_MAX, &(size_t) {0}) == ATP_OK, "A-43: the longest pattern");
	REFUSED("A-43", pattern_check,
			{"", ATP_E_WEB_SCHEME, 0}, {"http://a.b/", ATP_E_WEB_SCHEME, 0}, {"HTTPS://a.b", ATP_E_WEB_SCHEME, 0}, {"https:", ATP_E_WEB_SCHEME, 0},
			{"https://", ATP_E_WEB_HOST, 8}, {"https:///a", ATP_E_WEB_HOST, 8}, {"https://a", ATP_E_WEB_HOST, 9}, {"https://A.b", ATP_E_WEB_HOST, 8},
			{"https://a.B/c", ATP_E_WEB_HOST, 10}, {"https://a.b:443/c", ATP_E_WEB_HOST, 11}, {"https://u@a.b/c", ATP_E_WEB_HOST, 9},
			{"https://{authority}/c", ATP_E_WEB_HOST, 8}, {"https://a.b/", ATP_E_WEB_SEGMENT, 12}, {"https://a.b/c/", ATP_E_WEB_SEGMENT, 14},
			{"https://a.b?c", ATP_E_WEB_HOST, 11}, {"https://a.b/c?d", ATP_E_WEB_SEGMENT, 13}, {"https://a.b/c#d", ATP_E_WEB_SEGMENT, 13},
			{"https://a.b/%20", ATP_E_WEB_SEGMENT, 12}, {"https://a.b/@{authority}", ATP_E_WEB_SEGMENT, 13}, {"https://a.b/{did}", ATP_E_WEB_SEGMENT, 12},
			{"https://a.b/{authority}x", ATP_E_WEB_SEGMENT, 12}, {"https://a.b/{rkey}/{rkey}", ATP_E_WEB_TWICE, 19}, {"https://a.b/c d", ATP_E_WEB_SEGMENT, 13});
	ok(pattern_check(filled("https://a.b/", 'a', ATP_WEB_MAX + 1), ATP_WEB_MAX + 1, &(size_t) {0}) == ATP_E_TOO_LONG, "A-43: a long pattern");

	ACCEPTED("A-43", uri_check, "at://{authority}", "at://a.b/{collection}", "at://did:m:v/a.b.c/{rkey}", "at://{authority}/{collection}/{rkey}",
			 "at://{authority}/a.b.c/self");
	REFUSED("A-43", uri_check,
			{"", ATP_E_WEB_URI, 0}, {"at:/", ATP_E_WEB_URI, 0}, {"AT://a.b", ATP_E_WEB_URI, 0}, {"at://", ATP_E_WEB_URI, 5}, {"at://a", ATP_E_WEB_URI, 5},
			{"at:///a.b.c", ATP_E_WEB_URI, 5}, {"at://{rkey}", ATP_E_WEB_URI, 5}, {"at://{authority}/", ATP_E_WEB_URI, 17},
			{"at://{authority}/a.b", ATP_E_WEB_URI, 17}, {"at://{authority}/{authority}", ATP_E_WEB_URI, 17}, {"at://{authority}/a.b.c/", ATP_E_WEB_URI, 23},
			{"at://{authority}/a.b.c/{collection}", ATP_E_WEB_URI, 23}, {"at://{authority}/a.b.c/x/y", ATP_E_WEB_URI, 25},
			{"at://{authority}/a.b.c/x?y", ATP_E_WEB_URI, 23}, {"at://did:web:localhost%3A1/a.b.c", ATP_E_WEB_URI, 5});
	ok(uri_check(filled("at://a.b/a.b.c/", 'a', ATP_WEB_MAX + 1), ATP_WEB_MAX + 1, &(size_t) {0}) == ATP_E_TOO_LONG, "A-43: a long URI");
}

int
main(void)
{
	candidates();
	strangers();
	lengths();
	pages();
	patterns();
	return done_testing();
}
