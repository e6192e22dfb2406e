/*
 * uri_store.c
 *		Stored URIs: packed and unpacked, a text is itself again; the order of stored forms is that of the texts, and so
 *		antisymmetric and transitive.  The texts have an authority of one character, one of the beginnings of paths that
 *		are stored in one byte or none, and any rest of up to N characters.
 *
 * proves: atp_uri_store_parsed atp_uri_text atp_uri_cmp atp_uri_abbrev atp_uri_repo_len atp_uri_collection_len
 *	atp_uri_is_inside
 * sources: core/syntax/uri_store.c core/syntax/uri_order.c core/syntax/did.c core/syntax/tid.c core/syntax/base32.c
 *	core/syntax/chars.c
 * short: -DN=1 --unwind 24
 * long: -DN=5 --unwind 28
 * wraps: atp_abbrev_text
 * assumes: each character is one of a valid URI
 * not proved: a packed TID (uri_tid.c) or a packed DID (did_plc.c) together with a packed path
 */
#include "core/syntax/uri_private.h"
#include "lib/uri_text.h"

#define PREFIX	5
#define MOST	(PREFIX + 1 + ATP_URI_PATH_MAX + N)

/* Writes a text with this beginning of its path; returns its length. */
static size_t
any_uri(char *out, int path)
{
	size_t		n = PREFIX + 1;

	memcpy(out, "at://", PREFIX);
	if (path < ATP_URI_PATHS)
	{
		memcpy(out + n, atp_uri_path[path].ptr, atp_uri_path[path].len);
		n += atp_uri_path[path].len;
	}
	ASSUME(is_uri_text(out + PREFIX, 1) && is_uri_chars(out + n, N));
	return n + any_size(N);
}

static size_t
store(const char *s, size_t n, uint8_t *out)
{
	const AtpUri uri = {.authority = {s + PREFIX, 1}};

	return atp_uri_store_parsed(&uri, s, n, out);
}

static void
two_paths(int path_s, int path_t)
{
	char		s[MOST];
	char		t[MOST];
	char		text[MOST];
	uint8_t		a[MOST];
	uint8_t		b[MOST];
	size_t		n = any_uri(s, path_s);
	size_t		m = any_uri(t, path_t);
	size_t		an = store(s, n, a);
	size_t		bn = store(t, m, b);
	int			order = text_order(s, n, t, m);

	/* the rest of a text without a beginning is any text, also one in which the authority goes on */
	LAW(sign(atp_uri_cmp(a, an, b, bn)) == sign(order));
	LAW(atp_uri_abbrev(a, an) >= atp_uri_abbrev(b, bn) || order < 0);
	if (path_s != path_t)
		return;
	LAW(an <= n - PREFIX);
	LAW(atp_uri_text(ATP_SCHEME_AT, a, an, text) == n && memcmp(s, text, n) == 0);
	LAW(atp_uri_repo_len(a, an) > 0 && atp_uri_repo_len(a, an) <= atp_uri_collection_len(a, an) && atp_uri_collection_len(a, an) <= an);
	LAW(atp_uri_is_inside(a, an, a, an));
	if (an < n - PREFIX && order > 0)
		REACHED("two packed paths");
}

int
main(void)
{
	for (int i = 0; i <= ATP_URI_PATHS; i++)
		for (int j = 0; j <= i; j++)
			two_paths(i, j);
	return 0;
}
