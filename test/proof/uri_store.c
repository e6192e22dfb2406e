/*
 * Stored URIs: packed and unpacked, a text is itself again; the order of stored forms is that of the texts, and so
 * antisymmetric and transitive.  The texts have any authority of up to A characters, one of the beginnings of paths
 * that are stored in one byte or none, and any rest of up to N characters.
 *
 * proves: atp_uri_store atp_uri_text atp_uri_cmp atp_uri_abbrev atp_uri_repo_len atp_uri_collection_len
 * sources: core/syntax/uri_store.c core/syntax/uri_order.c core/syntax/did.c core/syntax/tid.c core/syntax/base32.c
 *	core/syntax/chars.c
 * short: -DA=2 -DN=2 --unwind 25
 * long: -DA=2 -DN=5 --unwind 28
 * wraps: atp_abbrev_text
 * assumes: each character is one of a valid URI, and the first is no delimiter
 * not proved: a packed TID (uri_tid.c) and a packed DID (uri_plc.c) here
 */
#include "core/syntax/uri_private.h"
#include "lib/uri_text.h"

#define PREFIX	5
#define MOST	(PREFIX + A + ATP_URI_PATH_MAX + N)

/* Writes a text; returns its length. */
static size_t
any_uri(char *out)
{
	unsigned	path = any_byte();
	size_t		n = PREFIX;
	size_t		authority = any_size(A);
	size_t		rest = any_size(N);

	ASSUME(path <= ATP_URI_PATHS);
	memcpy(out, "at://", PREFIX);
	n += authority;
	if (path < ATP_URI_PATHS)
	{
		memcpy(out + n, atp_uri_path[path].ptr, atp_uri_path[path].len);
		n += atp_uri_path[path].len;
	}
	n += rest;
	ASSUME(authority > 0 && is_uri_text(out + PREFIX, n - PREFIX));
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
	size_t		repo;
	int			order;

	LAW(an <= n - PREFIX);
	LAW(atp_uri_text(ATP_SCHEME_AT, a, an, text) == n && memcmp(s, text, n) == 0);
	repo = atp_uri_repo_len(a, an);
	LAW(repo > 0 && repo <= an && atp_uri_collection_len(a, an) >= repo && atp_uri_collection_len(a, an) <= an);
	order = text_order(s, n, t, m);
	LAW(sign(atp_uri_cmp(a, an, b, bn)) == sign(order));
	LAW(atp_uri_abbrev(a, an) >= atp_uri_abbrev(b, bn) || order < 0);
	LAW(atp_uri_is_inside(a, an, a, an));
	if (an < n - PREFIX && bn == m - PREFIX && order != 0)
		REACHED("a packed path beside one that is not");
	return 0;
}
