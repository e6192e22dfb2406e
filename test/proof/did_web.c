/*
 * did_web.c
 *		The host of a did:web, "localhost" with a port, and the domain's TXT records and file.
 *
 * proves: atp_did_document_host take_localhost atp_handle_txt_begin atp_handle_txt_string atp_handle_txt_end end_record
 *	atp_handle_file
 * short: -DN=7 --unwind 12 --unwindset memcpy.0:14
 * long: -DN=12 --unwind 22
 * assumes: atp_did_check(), atp_handle_check() and their companions do what did.c and handle.c prove
 */
#include "core/syntax/did_web.c"
#include "core/syntax/handle_txt.c"
#include "lib/grammar.h"

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*at = any_size(n);
	return n > 0 && any_bool() ? ATP_OK : ATP_E_DID_CHAR;
}

AtpSpan
atp_did_method(const char *s, size_t n)
{
	return (AtpSpan) {s + 4, 3};
}

bool
atp_did_is_plc(const char *s, size_t n)
{
	return any_bool();
}

AtpErr
atp_handle_check(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*at = any_size(n);
	return n > 0 && n <= ATP_HANDLE_MAX && any_bool() ? ATP_OK : ATP_E_LABEL_CHAR;
}

bool
atp_handle_tld_allowed(const char *s, size_t n)
{
	return any_bool();
}

void
atp_handle_normalize(const char *s, size_t n, char *out)
{
	LAW(__CPROVER_r_ok(s, n) && __CPROVER_w_ok(out, n));
}

/* "did:web:localhost" and any text behind it. */
static void
localhost(void)
{
	char		s[9 + 9] = "localhost";
	char		host[9 + 6];
	size_t		n = any_size(sizeof(s));
	size_t		len = 0;
	bool		right = n >= 12 && n <= 17;

	for (size_t i = 9; i < sizeof(s); i++)
		s[i] = (char) any_byte();
	right = right && s[9] == '%' && s[10] == '3' && (s[11] == 'A' || s[11] == 'a') && n >= 13;
	for (size_t i = 12; i < sizeof(s); i++)
		right = right && (i >= n || grammar_digit(s[i]));
	LAW(take_localhost(s, n, host, &len) == (n == 9 || right));
	LAW(n != 9 || len == 9);
	if (right)
	{
		LAW(len == n - 2 && host[9] == ':' && host[len - 1] == s[n - 1]);
		REACHED("localhost with a port");
	}
}

static void
document_host(void)
{
	char		s[8 + N];
	char		host[ATP_DID_WEB_HOST];
	size_t		n = 8 + any_size(N);
	size_t		len;
	size_t		at;
	AtpErr		err;

	ASSUME(n > 8 && s[0] == 'd' && s[3] == ':' && s[7] == ':');
	err = atp_did_document_host(s, n, host, &len, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK || len <= n - 8);
	LAW(err != ATP_OK || (s[4] == 'p') == (len == 0));
	if (len == N)
		REACHED("a host");
}

/* A string of any length up to 3, behind a record of this length. */
static void
txt(size_t before, bool first)
{
	AtpHandleTxt t;
	size_t		n = any_size(3);
	char		s[3];

	t.found = (AtpHandleFound) any_size(ATP_HANDLE_SEVERAL);
	t.record_len = before;
	t.did_len = any_size(3);
	if (first)
		before = 0;
	atp_handle_txt_string(&t, s, n, first);
	LAW(t.record_len == before + n || t.record_len == sizeof(t.record) + 1);
	LAW(t.record_len <= sizeof(t.record) || before + n > sizeof(t.record));
	LAW(t.did_len <= sizeof(t.did));
	if (t.record_len == sizeof(t.record) && n == 3)
		REACHED("the longest record");
}

static void
file(void)
{
	AtpSpan		did;

	ANY_TEXT(s, n, 4);
	did = atp_handle_file(s, n);
	if (did.ptr == NULL)
		return;
	LAW(did.ptr >= s && did.ptr + did.len <= s + n && did.len > 0);
	LAW(did.ptr[0] != ' ' && did.ptr[0] != '\n' && did.ptr[did.len - 1] != ' ' && did.ptr[did.len - 1] != '\r');
	if (did.len == 2 && did.ptr == s + 1 && n == 4)
		REACHED("a file with white space");
}

int
main(void)
{
	localhost();
	document_host();
	txt(0, false);
	txt(7, true);
	txt(4 + ATP_DID_MAX - 3, false);
	txt(4 + ATP_DID_MAX, false);
	txt(4 + ATP_DID_MAX + 1, true);
	file();
	return 0;
}
