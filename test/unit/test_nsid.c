/*
 * test_nsid.c
 *		NSIDs and patterns of NSIDs: rules I-01 to I-07.
 */
#include "core/syntax/nsid.h"
#include "syntax.h"

static bool
matches(const char *nsid, const char *pattern)
{
	return atp_nsid_matches(nsid, strlen(nsid), pattern, strlen(pattern));
}

static void
check_normal(const char *s, const char *expected)
{
	char		out[ATP_NSID_MAX + 1] = "";

	atp_nsid_normalize(s, strlen(s), out);
	ok(strcmp(out, expected) == 0, "I-04: %s becomes %s", s, out);
	atp_nsid_normalize(out, strlen(out), out);
	ok(strcmp(out, expected) == 0, "I-04: %s stays", out);
}

int
main(void)
{
	char		text[400] = "";
	size_t		at;

	check_interop("nsid", atp_nsid_check, 25, 27);

	ACCEPTED("I-03", atp_nsid_check, "com.example.fooBar", "net.users.bob.ping", "a-0.b-1.c",
			 "a.b.c", "com.example.fooBarV2", "cn.8.lex.stuff", "one.2.three");
	REFUSED("I-01, I-03", atp_nsid_check,
			{"", ATP_E_EMPTY, 0},
			{"com.exa\xf0\x9f\x92\xa9ple.thing", ATP_E_LABEL_CHAR, 7},
			{"com.example", ATP_E_NSID_SEGMENTS, 11},
			{"com", ATP_E_NSID_SEGMENTS, 3},
			{"com.example.3", ATP_E_NSID_NAME_DIGIT, 12},
			{"com.example.foo.*", ATP_E_LABEL_CHAR, 16},
			{"a-0.b-1.c-3", ATP_E_NSID_NAME_HYPHEN, 9},
			{"1.0.0.127.record", ATP_E_NSID_FIRST, 0},
			{"com.example-.foo", ATP_E_LABEL_HYPHEN, 11},
			{"com.-example.foo", ATP_E_LABEL_HYPHEN, 4},
			{"com..foo", ATP_E_LABEL_EMPTY, 4},
			{"com.example.", ATP_E_LABEL_EMPTY, 12},
			{".one.two.three", ATP_E_LABEL_EMPTY, 0},
			{"com.atproto.feed.p_st", ATP_E_LABEL_CHAR, 18});
	REFUSED("I-07", atp_nsid_check, {"com.example.foo#main", ATP_E_LABEL_CHAR, 15});

	check_charset("I-02", atp_nsid_check, "a.b*b.c", ALNUM "-.");
	check_charset("I-02", atp_nsid_check, "*.b.c", LOWER UPPER);
	check_charset("I-02", atp_nsid_check, "a.*.c", ALNUM);
	check_charset("I-02", atp_nsid_check, "a.b.*c", LOWER UPPER);
	check_charset("I-02", atp_nsid_check, "a.b.c*c", ALNUM ".");
	strcpy(text, filled("com.example.", 'o', 12 + 63));
	ok(atp_nsid_check(text, 12 + 63, &at) == ATP_OK, "I-01: a name of 63");
	strcpy(text, filled("com.example.", 'o', 12 + 64));
	ok(atp_nsid_check(text, 12 + 64, &at) == ATP_E_LABEL_LONG && at == 75, "I-01: a name of 64");
	strcpy(text, filled("com.", 'o', 4 + 64));
	strcat(text, ".foo");
	ok(atp_nsid_check(text, strlen(text), &at) == ATP_E_LABEL_LONG && at == 67,
	   "I-01: a segment of 64");
	memset(text, 'a', sizeof(text));
	for (int i = 1; i < 320; i += 2)
		text[i] = '.';
	ok(atp_nsid_check(text, 317, &at) == ATP_OK, "I-01, D10: 317 bytes");
	ok(atp_nsid_check(text, 319, &at) == ATP_E_NSID_LONG && at == 317, "I-01: 319 bytes");

	check_normal("COM.Example.sub-Domain.fooBar", "com.example.sub-domain.fooBar");
	check_normal("a.b.C", "a.b.C");
	ok(atp_span_is(atp_nsid_name("com.atproto.sync.getRecord", 26), "getRecord"), "I-05: name");
	ok(atp_span_is(atp_nsid_domain("com.atproto.sync.getRecord", 26), "com.atproto.sync"),
	   "I-05: domain as written");

	ACCEPTED("I-06", atp_nsid_pattern_check, "*", "app.bsky.*", "com.*", "app.bsky.feed.*",
			 "app.bsky.feed.post");
	REFUSED("I-06", atp_nsid_pattern_check,
			{"", ATP_E_EMPTY, 0},
			{"**", ATP_E_NSID_STAR, 1},
			{".*", ATP_E_LABEL_EMPTY, 0},
			{"app.bsky*", ATP_E_NSID_STAR, 8},
			{"app.bsky.po*", ATP_E_NSID_STAR, 11},
			{"app.*.post", ATP_E_LABEL_CHAR, 4},
			{"*.bsky.feed", ATP_E_LABEL_CHAR, 0},
			{"app..*", ATP_E_LABEL_EMPTY, 4},
			{"4pp.bsky.*", ATP_E_NSID_FIRST, 0},
			{"app.bsky", ATP_E_NSID_SEGMENTS, 8});
	memcpy(text + 315, ".*", 2);
	ok(atp_nsid_pattern_check(text, 317, &at) == ATP_OK, "I-06: a pattern of 317 bytes");
	text[316] = 'a';
	memcpy(text + 317, ".*", 2);
	ok(atp_nsid_pattern_check(text, 319, &at) == ATP_E_NSID_LONG && at == 317,
	   "I-06: a pattern of 319 bytes");
	ok(matches("app.bsky.feed.post", "*") && matches("app.bsky.feed.post", "app.bsky.*") &&
	   matches("app.bsky.feed.post", "app.bsky.feed.*") && matches("a.b.c", "a.*") &&
	   matches("a.b.c", "a.b.*"),
	   "I-06: a star matches what is nested");
	ok(!matches("app.bskyx.feed.post", "app.bsky.*") && !matches("com.bsky.feed.post", "app.*") &&
	   !matches("app.bsky.feed", "app.bsky.feed.*"), "I-06: at a boundary only");
	ok(matches("app.bsky.feed.post", "app.bsky.feed.post") &&
	   !matches("app.bsky.feed.postgate", "app.bsky.feed.post") &&
	   !matches("app.bsky.feed.post", "app.bsky.feed.postgate"), "I-06: without a star, equality");
	return done_testing();
}
