/*
 * Stored URIs with a TID as second segment, or with a segment that is nearly one: the law of uri_store.c.
 *
 * proves: atp_uri_store atp_uri_text atp_uri_cmp atp_uri_abbrev
 * sources: core/syntax/uri_store.c core/syntax/uri_order.c core/syntax/did.c core/syntax/tid.c core/syntax/base32.c
 *	core/syntax/chars.c
 * short: -DN=1 --unwind 23
 * long: -DN=4 --unwind 26
 * wraps: atp_abbrev_text
 * assumes: an authority of one character, a first segment of one; each character is one of a valid URI
 */
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"
#include "lib/uri_text.h"

#define PREFIX	5
#define HEAD	(PREFIX + 1 + 2 + 1)	/* a, /b, / */
#define MOST	(HEAD + ATP_TID_TEXT + N)

static size_t
any_uri(char *out)
{
	size_t		n = HEAD + ATP_TID_TEXT - 1 + any_size(N + 1);

	memcpy(out, "at://", PREFIX);
	ASSUME(out[PREFIX + 1] == '/' && out[PREFIX + 3] == '/' && !atp_char_is(out[PREFIX + 2], ATP_C_DELIMITER) &&
		   !atp_char_is(out[HEAD], ATP_C_DELIMITER));
	ASSUME(is_uri_text(out + PREFIX, n - PREFIX));
	return n;
}

int
main(void)
{
	char		s[MOST];
	char		t[MOST];
	char		text[MOST];
	uint8_t		a[MOST];
	uint8_t		b[MOST];
	size_t		n = any_uri(s);
	size_t		m = any_uri(t);
	size_t		an = atp_uri_store(ATP_SCHEME_AT, s, n, a);
	size_t		bn = atp_uri_store(ATP_SCHEME_AT, t, m, b);
	int			order = text_order(s, n, t, m);

	LAW(atp_uri_text(ATP_SCHEME_AT, a, an, text) == n && memcmp(s, text, n) == 0);
	LAW(sign(atp_uri_cmp(a, an, b, bn)) == sign(order));
	LAW(atp_uri_abbrev(a, an) >= atp_uri_abbrev(b, bn) || order < 0);
	if (an < n - PREFIX && bn == m - PREFIX)
		REACHED("a packed TID beside a text");
	if (an < n - PREFIX && bn < m - PREFIX && order != 0)
		REACHED("two packed TIDs");
	return 0;
}
