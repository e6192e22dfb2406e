/*
 * test_handle.c
 *		Handles and at-identifiers: rules I-10 to I-14 and I-30.
 */
#include "core/syntax/handle.h"
#include "syntax.h"

static bool
tld_allowed(const char *s)
{
	return atp_handle_tld_allowed(s, strlen(s));
}

int
main(void)
{
	char		text[400];
	char		normal[400] = "";
	size_t		at;

	check_interop("handle", atp_handle_check, 71, 48);
	check_interop("atidentifier", atp_identifier_check, 11, 22);

	ACCEPTED("I-10", atp_handle_check, "john.test", "8.cn", "a.co", "0-1.x-9", "4chan.org");
	REFUSED("I-10", atp_handle_check,
			{"", ATP_E_EMPTY, 0},
			{"org", ATP_E_HANDLE_LABELS, 3},
			{".", ATP_E_LABEL_EMPTY, 0},
			{".john.test", ATP_E_LABEL_EMPTY, 0},
			{"john..test", ATP_E_LABEL_EMPTY, 5},
			{"name.org.", ATP_E_LABEL_EMPTY, 9},
			{"-john.test", ATP_E_LABEL_HYPHEN, 0},
			{"john-.test", ATP_E_LABEL_HYPHEN, 4},
			{"john.-", ATP_E_LABEL_HYPHEN, 5},
			{"xn--bcher-.tld", ATP_E_LABEL_HYPHEN, 9},
			{"jo_hn.test", ATP_E_LABEL_CHAR, 2},
			{"john.test ", ATP_E_LABEL_CHAR, 9},
			{"b\xc3\xbc" "cher.test", ATP_E_LABEL_CHAR, 1});
	REFUSED("I-11", atp_handle_check,
			{"@user.example.com", ATP_E_LABEL_CHAR, 0},
			{"127.0.0.1", ATP_E_HANDLE_TLD, 8},
			{"john.0", ATP_E_HANDLE_TLD, 5},
			{"cn.8", ATP_E_HANDLE_TLD, 3},
			{"fe80::7325:8a97:c100:94b", ATP_E_LABEL_CHAR, 4});

	check_charset("I-10", atp_handle_check, "a*a.b", ALNUM "-.");
	check_charset("I-10", atp_handle_check, "*a.b", ALNUM);
	check_charset("I-10", atp_handle_check, "a.b*", ALNUM);
	check_charset("I-10", atp_handle_check, "a.*b", LOWER UPPER);
	strcpy(text, filled("a.", 'b', 65));
	ok(atp_handle_check(text, 65, &at) == ATP_OK, "I-10: a label of 63");
	strcpy(text, filled("a.", 'b', 66));
	ok(atp_handle_check(text, 66, &at) == ATP_E_LABEL_LONG && at == 65, "I-10: a label of 64");
	memset(text, 'a', sizeof(text));
	for (int i = 1; i < 254; i += 2)
		text[i] = '.';
	ok(atp_handle_check(text, 253, &at) == ATP_OK, "I-10: 253 bytes");
	ok(atp_handle_check(text, 255, &at) == ATP_E_HANDLE_LONG && at == 253, "I-10: 255 bytes");

	atp_handle_normalize("XX.LCS.MIT.EDU", 14, normal);
	ok(strcmp(normal, "xx.lcs.mit.edu") == 0, "I-12, D20: lower case");
	atp_handle_normalize("xn--LS8H.Test", 13, normal);
	ok(memcmp(normal, "xn--ls8h.test", 13) == 0, "I-14: an IDN stays ASCII");
	strcpy(normal, "XX.LCS.MIT.EDU");
	atp_handle_normalize(normal, 14, normal);
	ok(strcmp(normal, "xx.lcs.mit.edu") == 0, "D20: in place as well");

	ok(!tld_allowed("a.alt") && !tld_allowed("a.arpa") && !tld_allowed("a.example") &&
	   !tld_allowed("a.internal") && !tld_allowed("handle.invalid") && !tld_allowed("a.local") &&
	   !tld_allowed("a.b.LocalHost") && !tld_allowed("a.onion"), "I-13: reserved top levels");
	ok(tld_allowed("a.test") && tld_allowed("alt.com") && tld_allowed("a.alte") &&
	   tld_allowed("a.al"), "I-13: others are allowed");
	ACCEPTED("I-13", atp_handle_check, "handle.invalid", "laptop.local");

	ACCEPTED("I-30", atp_identifier_check, "did:method:val", "john.test");
	REFUSED("I-30", atp_identifier_check,
			{"did:thing.test", ATP_E_DID_METHOD, 9},
			{"did:thing", ATP_E_DID_COLON, 9},
			{"email@example.com", ATP_E_LABEL_CHAR, 5},
			{"@handle", ATP_E_LABEL_CHAR, 0},
			{"DID:method:val", ATP_E_LABEL_CHAR, 3},
			{"did", ATP_E_HANDLE_LABELS, 3},
			{"blah", ATP_E_HANDLE_LABELS, 4});
	return done_testing();
}
