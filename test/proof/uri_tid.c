/*
 * uri_tid.c
 *		Stored URIs with a TID as second segment, or with a segment that is nearly one: the law of uri_store.c.
 *
 * proves: atp_uri_store_parsed atp_uri_text atp_uri_cmp atp_uri_abbrev
 * sources: core/syntax/uri_store.c core/syntax/uri_order.c core/syntax/did.c core/syntax/tid.c core/syntax/base32.c
 *	core/syntax/chars.c
 * short: -DN=1 --unwind 25
 * long: -DN=3 --unwind 27
 * wraps: atp_abbrev_text
 * assumes: an authority of one character, a first segment of one; the second segment has at least 13
 *	characters; each character is one of a valid URI
 */
#include "core/syntax/base32.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"
#include "lib/uri_text.h"

#define PREFIX	5
#define HEAD	(PREFIX + 1 + 2 + 1)	/* a, /b, / */
#define MOST	(HEAD + ATP_TID_TEXT + N)

static void
any_uri(char *out, size_t n)
{
	memcpy(out, "at://a/b/", HEAD);
	out[PREFIX] = (char) any_byte();
	out[PREFIX + 2] = (char) any_byte();
	ASSUME(is_uri_text(out + PREFIX, 1) && is_uri_text(out + PREFIX + 2, 1) && is_uri_chars(out + HEAD, n - HEAD));
	for (int i = 0; i < ATP_TID_TEXT; i++)
		ASSUME(!atp_char_is(out[HEAD + i], ATP_C_DELIMITER));
}

/* The second segment ends where the parser sees its end. */
static size_t
store(const char *s, size_t n, uint8_t *out)
{
	AtpUri		uri = {.authority = {s + PREFIX, 1}, .seg2 = {s + HEAD, n - HEAD}};

	if (n > HEAD + ATP_TID_TEXT && atp_char_is(s[HEAD + ATP_TID_TEXT], ATP_C_DELIMITER))
		uri.seg2.len = ATP_TID_TEXT;
	return atp_uri_store_parsed(&uri, s, n, out);
}

static void
two_lengths(size_t n, size_t m)
{
	char		s[MOST];
	char		t[MOST];
	char		text[MOST];
	uint8_t		a[MOST];
	uint8_t		b[MOST];
	size_t		an;
	size_t		bn;
	int			order;

	any_uri(s, n);
	any_uri(t, m);
	an = store(s, n, a);
	bn = store(t, m, b);
	order = text_order(s, n, t, m);
	LAW(sign(atp_uri_cmp(a, an, b, bn)) == sign(order));
	LAW(atp_uri_abbrev(a, an) >= atp_uri_abbrev(b, bn) || order < 0);
	if (n != m)
	{
		if (an < n - PREFIX && bn == m - PREFIX)
			REACHED("a packed TID beside a text");
		return;
	}
	LAW(atp_uri_text(ATP_SCHEME_AT, a, an, text) == n && memcmp(s, text, n) == 0);
}

int
main(void)
{
	two_lengths(HEAD + ATP_TID_TEXT, HEAD + ATP_TID_TEXT);
	two_lengths(HEAD + ATP_TID_TEXT, HEAD + ATP_TID_TEXT + N);
	return 0;
}
