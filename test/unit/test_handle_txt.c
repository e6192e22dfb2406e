/*
 * test_handle_txt.c
 *		The account that a handle's domain names: rules W-20 and W-21.
 */
#include "core/syntax/handle_txt.h"
#include "unit.h"

#define A	"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"
#define B	"did:web:b.example.com"

/* Records as strings; a string that begins with '+' continues the record before it. */
static void
check_txt(const char *name, AtpHandleFound want, const char *did, const char *const *strings)
{
	static AtpHandleTxt txt;
	AtpHandleFound found;

	atp_handle_txt_begin(&txt);
	for (; *strings != NULL; strings++)
	{
		bool		first = (*strings)[0] != '+';
		const char *s = *strings + !first;

		atp_handle_txt_string(&txt, s, strlen(s), first);
	}
	found = atp_handle_txt_end(&txt);
	ok(found == want, "W-20: %s", name);
	if (want == ATP_HANDLE_DID)
		ok(txt.did_len == strlen(did) && memcmp(txt.did, did, txt.did_len) == 0, "W-20: %s: which", name);
}

#define TXT(name, want, did, ...) check_txt(name, want, did, (const char *const[]) {__VA_ARGS__, NULL})

static void
check_file(const char *name, const char *s, size_t n, const char *want)
{
	char	   *copy = malloc(n ? n : 1);	/* exact size: ASan finds a read past the end */
	AtpSpan		did;

	memcpy(copy, s, n);
	did = atp_handle_file(copy, n);
	if (want == NULL)
		ok(did.ptr == NULL, "W-21: %s", name);
	else
		ok(did.ptr != NULL && did.len == strlen(want) && memcmp(did.ptr, want, did.len) == 0, "W-21: %s", name);
	free(copy);
}

#define FILE_IS(name, s, want) check_file(name, s, sizeof(s) - 1, want)

int
main(void)
{
	static char longest[ATP_DID_MAX + 1];
	static char text[ATP_DID_MAX + 6];
	static char more[5000];

	TXT("one record", ATP_HANDLE_DID, A, "did=" A);
	TXT("no record", ATP_HANDLE_NONE, NULL, NULL);
	TXT("others are passed over", ATP_HANDLE_DID, A, "v=spf1", "did=" A, "", "DID=" B, " did=" B, "did:plc:x");
	TXT("the strings of a record belong together", ATP_HANDLE_DID, A, "d", "+id=did:plc:", "+aaaaaaaaaaaa", "+", "+aaaaaaaaaaaa");
	TXT("but not those of two records", ATP_HANDLE_NONE, NULL, "did=", A);
	TXT("the same twice is one", ATP_HANDLE_DID, B, "did=" B, "did=" B);
	TXT("two are none", ATP_HANDLE_SEVERAL, NULL, "did=" A, "did=" B);
	TXT("... whatever comes after", ATP_HANDLE_SEVERAL, NULL, "did=" A, "did=" B, "did=" A, "x");
	TXT("one is the other's beginning", ATP_HANDLE_SEVERAL, NULL, "did=" A, "did=" A "a");
	TXT("what is no DID does not count", ATP_HANDLE_DID, A, "did=", "did=did", "did=did:plc", "did=" A " ", "did= " A, "did=" A);
	TXT("only what is none", ATP_HANDLE_NONE, NULL, "did=", "did=x", "di", "did");

	memset(longest, 'a', ATP_DID_MAX);
	memcpy(longest, "did:web:", 8);
	snprintf(text, sizeof(text), "did=%s", longest);
	TXT("the longest DID", ATP_HANDLE_DID, longest, text);
	snprintf(text, sizeof(text), "did=%sa", longest);
	TXT("one byte more", ATP_HANDLE_NONE, NULL, text);
	TXT("... as a string", ATP_HANDLE_NONE, NULL, "did=", "+", "x", "did=did:web:", "+x", "+:", "+:");
	snprintf(text, sizeof(text), "did=%s", longest);
	TXT("... and nothing after it", ATP_HANDLE_NONE, NULL, text, "+a", "+");
	memset(more, 'x', sizeof(more) - 1);
	TXT("a record that is too long", ATP_HANDLE_DID, A, more, "+", "+did=" B, more, "+x", "did=" A);

	FILE_IS("a DID", A, A);
	FILE_IS("with white space around it", " \t\r\n\v\f" A "\r\n \n", A);
	FILE_IS("nothing", "", NULL);
	FILE_IS("white space", " \n", NULL);
	FILE_IS("two", A "\n" A, NULL);
	FILE_IS("a page", "<!doctype html>", NULL);
	FILE_IS("a record of TXT", "did=" A, NULL);
	FILE_IS("a zero byte after it", A "\0", NULL);
	FILE_IS("no ASCII", "\xef\xbb\xbf" A, NULL);
	memset(more, ' ', sizeof(more));
	memcpy(more, A, strlen(A));
	check_file("2,048 bytes are looked at", more, sizeof(more), A);
	more[ATP_HANDLE_FILE_MAX - 1] = 'x';
	check_file("... up to the last", more, sizeof(more), NULL);
	more[ATP_HANDLE_FILE_MAX - 1] = ' ';
	more[ATP_HANDLE_FILE_MAX] = 'x';
	check_file("... and none after it", more, sizeof(more), A);
	return done_testing();
}
