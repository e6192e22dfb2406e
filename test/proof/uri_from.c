/*
 * uri_from.c
 *		What people paste: white space, the authority of a candidate form, and the segments of a web address.
 *
 * proves: trim_space text_before begins_with colon_length write_did write_authority write_plain next_segment decode_segment
 *	split_address
 * sources: core/syntax/chars.c
 * short: -DN=4 --unwind 17
 * long: -DN=6 --unwind 19
 * by hand: 40 s
 * assumes: the authority begins with "did"; the shapes of main()
 */
#include "core/syntax/uri_from.c"
#include "lib/grammar.h"

/* None of these functions is called by the functions that are proved. */
AtpErr
atp_uri_normalize(AtpScheme scheme, const char *restrict s, size_t n, char *restrict out, size_t *on, size_t *at)
{
	LAW(false);
	return ATP_E_URI_CHAR;
}

AtpErr
atp_uri_parse(AtpScheme scheme, const char *s, size_t n, AtpUri *uri, size_t *at)
{
	LAW(false);
	return ATP_E_URI_CHAR;
}

AtpErr
atp_identifier_check(const char *s, size_t n, size_t *at)
{
	LAW(false);
	return ATP_E_DID_CHAR;
}

AtpErr
atp_nsid_check(const char *s, size_t n, size_t *at)
{
	LAW(false);
	return ATP_E_DID_CHAR;
}

AtpErr
atp_rkey_check(const char *s, size_t n, size_t *at)
{
	LAW(false);
	return ATP_E_DID_CHAR;
}

AtpErr
atp_handle_check(const char *s, size_t n, size_t *at)
{
	LAW(false);
	return ATP_E_DID_CHAR;
}

static bool
any_is(const char *s, size_t n, char c)
{
	bool		found = false;

	for (size_t i = 0; i < n; i++)
		found = found || s[i] == c;
	return found;
}

static void
space(void)
{
	AtpSpan		text;

	ANY_TEXT(s, n, N);
	text = trim_space(s, n);
	LAW(text.len <= n && text.ptr >= s && text.ptr + text.len <= s + n);
	LAW(text.len == 0 || (!is_space(text.ptr[0]) && !is_space(text.ptr[text.len - 1])));
	if (text.len == 2 && n == 4 && text.ptr == s + 1)
		REACHED("white space at both ends");
}

/*
 * "did" and any text behind it: nothing becomes longer, and what is written has escapes only if both colons were
 * plain, and never one of '%'.
 */
static void
authority(void)
{
	char		s[3 + N + 3] = "did";
	char		out[3 + N + 3];
	size_t		n = 3 + any_size(N + 3);
	size_t		len;

	for (size_t i = 3; i < sizeof(s); i++)
		s[i] = (char) any_byte();
	len = write_authority((AtpSpan) {s, n}, out);
	LAW(len <= n);
	LAW(len == 0 || (out[0] == 'd' && out[1] == 'i' && out[2] == 'd'));
	LAW(!any_is(out, len, '%') || s[3] == ':');
	for (size_t i = 0; i + 2 < len; i++)
		LAW(out[i] != '%' || out[i + 1] != '2' || out[i + 2] != '5');
	if (len > 0 && len + 4 == n)
		REACHED("two escaped colons");
	if (len == n && any_is(out, len, '%'))
		REACHED("an escape in a plain DID");
}

/* Any text behind a beginning: at most two bytes are added, and "at://" comes first. */
static void
form(const char *beginning)
{
	char		s[12 + N];
	char		out[12 + N + 2];
	size_t		begin = strlen(beginning);
	size_t		n = begin + any_size(N);
	size_t		len;

	for (size_t i = 0; i < sizeof(s); i++)
		s[i] = i < begin ? beginning[i] : (char) any_byte();
	len = write_plain((AtpSpan) {s, n}, out);
	LAW(len <= n + 2);
	LAW(len == 0 || (len > 5 && memcmp(out, "at://", 5) == 0));
	if (len == n + 2)
		REACHED("a form without slashes");
	if (len + 1 == n)
		REACHED("a form with three slashes");
}

static void
segments(void)
{
	AtpSpan		path;
	AtpSpan		segment;
	size_t		before;

	ANY_TEXT(s, n, N);
	ASSUME(n == 0 || s[0] == '/');
	path = (AtpSpan) {s, n};
	for (int i = 0; i < N && path.len > 0; i++)
	{
		before = path.len;
		LAW(next_segment(&path, &segment));
		LAW(path.len + 1 + segment.len == before && !any_is(segment.ptr, segment.len, '/'));
		LAW(path.len == 0 || path.ptr[0] == '/');
	}
	LAW(path.len == 0 && !next_segment(&path, &segment));
}

/* No escape is left, and without one the segment is the same. */
static void
decoded(void)
{
	char		out[N + 2];
	size_t		len;
	bool		good;

	ANY_TEXT(s, n, N + 2);
	good = decode_segment((AtpSpan) {s, n}, out, &len);
	LAW(len <= n);
	LAW(!good || !any_is(out, len, '%'));
	LAW(any_is(s, n, '%') || (good && same_bytes(s, n, out, len)));
	if (good && len + 4 == n)
		REACHED("two escapes");
}

/* Host and path lie in the address; a host has no delimiter. */
static void
address(void)
{
	char		s[8 + N] = "https://";
	size_t		n = 8 + any_size(N);
	AtpSpan		host;
	AtpSpan		path;

	for (size_t i = 8; i < sizeof(s); i++)
		s[i] = (char) any_byte();
	LAW(split_address((AtpSpan) {s, n}, &host, &path));
	LAW(host.ptr == s + 8 && path.ptr == host.ptr + host.len && path.ptr + path.len <= s + n);
	LAW(!any_is(host.ptr, host.len, '/') && !any_is(host.ptr, host.len, '?') && !any_is(path.ptr, path.len, '#'));
	LAW(path.len == 0 || path.ptr[0] == '/');
	LAW(atp_span_same_letters(host, host));
	LAW(!atp_span_same_letters(host, (AtpSpan) {s, 7}) || host.len == 7);
	if (path.len == 2 && host.len == 1)
		REACHED("a host and a path");
}

int
main(void)
{
	space();
	authority();
	form("at:did:");
	form("at:///did:");
	form("at://");
	segments();
	decoded();
	address();
	return 0;
}
