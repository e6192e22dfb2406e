/*
 * test_lex_format.c
 *		Formats of Lexicon strings (L-09), MIME types of blobs, base64.
 */
#include "core/syntax/base64.h"
#include "core/lexicon/lex_format.h"
#include "syntax.h"

static AtpLexFormat format;

static AtpErr
check(const char *s, size_t n, size_t *at)
{
	return atp_lex_format_check(format, s, n, at);
}

static void
choose(const char *name)
{
	format = atp_lex_format_named((AtpSpan) {name, strlen(name)});
	ok(format < ATP_LEX_FORMATS && strcmp(atp_lex_format_name(format), name) == 0, "L-09: there is a format %s", name);
}

static bool
accepts(const char *pattern, const char *mime)
{
	return atp_lex_accepts((AtpSpan) {pattern, strlen(pattern)}, (AtpSpan) {mime, strlen(mime)});
}

/* The number of bytes; -1: none, -2: with spare bits. */
static int
base64(const char *s)
{
	uint8_t		out[100];
	size_t		n;
	size_t		counted;
	bool		exact;
	bool		valid = atp_base64_decode(s, strlen(s), out, &n, &exact);

	ok(atp_base64_decode(s, strlen(s), NULL, &counted, &exact) == valid && counted == n, "base64 counts as it decodes: %s", s);
	return !valid ? -1 : exact ? (int) n : -2;
}

int
main(void)
{
	choose("at-identifier");
	check_interop("atidentifier", check, 11, 22);
	choose("at-uri");
	check_interop("aturi", check, 23, 72);
	choose("cid");
	check_interop("cid", check, 8, 10);
	REFUSED("L-09", check, {"bananabread", ATP_E_CID_BITS, 10}, {"", ATP_E_LEX_CID, 0});
	choose("datetime");
	check_interop("datetime", check, 35, 45);
	choose("did");
	check_interop("did", check, 24, 18);
	choose("handle");
	check_interop("handle", check, 71, 48);
	choose("language");
	check_interop("language", check, 18, 7);
	choose("nsid");
	check_interop("nsid", check, 25, 27);
	choose("record-key");
	check_interop("recordkey", check, 16, 11);
	choose("tid");
	check_interop("tid", check, 4, 9);
	choose("uri");
	check_interop("uri", check, 9, 12);
	format = ATP_LEX_ANY;
	ACCEPTED("L-09", check, "", "anything");
	ok(atp_lex_format_named((AtpSpan) {"", 0}) == ATP_LEX_FORMATS, "L-09: no format has no name");
	ok(atp_lex_format_named((AtpSpan) {"uuid", 4}) == ATP_LEX_FORMATS, "L-09: uuid is no format");

	ok(accepts("image/png", "image/png") && accepts("image/png", "IMAGE/png"), "L-26: a type");
	ok(!accepts("image/png", "image/pn") && !accepts("image/png", "image/pngx") && !accepts("image/png", ""), "L-26: another type");
	ok(accepts("image/*", "image/webp") && !accepts("image/*", "video/mp4") && !accepts("image/*", "image"), "L-26: a kind of types");
	ok(accepts("*/*", "text/plain") && accepts("*", "text/plain"), "L-26: all types");
	ok(!accepts("", "text/plain"), "L-26: no type");

	ok(base64("") == 0 && base64("AA") == 1 && base64("AA==") == 1 && base64("AAA=") == 2 && base64("AAAA") == 3, "base64");
	ok(base64("123") == -2 && base64("AB==") == -2, "base64 with bits that no byte uses");
	ok(base64("A") == -1 && base64("A=") == -1 && base64("AA=") == -1 && base64("A*==") == -1 && base64("====") == -1, "no base64");
	return done_testing();
}
