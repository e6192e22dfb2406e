/*
 * uri_search.c
 *		What uri_store.c and uri_order.c search for, they find: the first delimiter, the longest listed beginning of a path,
 *		its tag, the length of the common beginning.  The proofs uri_store and uri_order rely on this.
 *
 * proves: find_delimiter find_path atp_uri_path_tag common_prefix first_difference
 * sources: core/syntax/chars.c
 * short: -DN=5 --unwind 20
 * long: -DN=9 --unwind 20
 */
#include "core/syntax/uri_order.c"
#include "core/syntax/uri_store.c"
#include "lib/proof.h"

static bool
is_delimiter(char c)
{
	return c == '/' || c == '?' || c == '#';
}

static void
delimiter(void)
{
	char		s[N];
	const char *found = find_delimiter(s, s + N);

	LAW(found >= s && found <= s + N && (found == s + N || is_delimiter(*found)));
	for (size_t i = 0; i < N; i++)
		LAW(s + i >= found || !is_delimiter(s[i]));
}

static void
listed_path(size_t n)
{
	char		s[16];
	int			path = find_path(s, n);

	LAW(path >= -1 && path < ATP_URI_PATHS);
	for (int i = 0; i < ATP_URI_PATHS; i++)
	{
		bool		begins = n >= atp_uri_path[i].len && memcmp(s, atp_uri_path[i].ptr, atp_uri_path[i].len) == 0;

		LAW(path != i || begins);
		LAW(path >= i || !begins);
	}
	if (path == 2)
		REACHED("the longest beginning");
}

/* n bytes follow the packed DID, or are all. */
static void
path_tag(bool packed)
{
	uint8_t		s[ATP_DID_PLC_STORED + N];
	size_t		start = packed ? ATP_DID_PLC_STORED : 0;
	const uint8_t *found;
	const uint8_t *tag = NULL;
	bool		ended = false;

	s[0] = packed ? ATP_URI_TAG_PLC : 'x';
	for (size_t i = start; i < start + N; i++)
		if (!ended && (packed || is_delimiter((char) s[i]) || s[i] == ATP_URI_TAG_TID || (s[i] >= 3 && s[i] <= 5)))
		{
			ended = true;
			tag = s[i] >= 3 && s[i] <= 5 ? s + i : NULL;
		}
	found = atp_uri_path_tag(s, s + start + N);
	LAW(found == tag);
}

static void
common(size_t n)
{
	uint8_t		a[17];
	uint8_t		b[17];
	size_t		same = 0;
	size_t		found = common_prefix(a + 17 - n, b + 17 - n, n);

	while (same < n && a[17 - n + same] == b[17 - n + same])
		same++;
	LAW(found == same);
}

int
main(void)
{
	delimiter();
	listed_path(16);
	listed_path(12);
	path_tag(true);
	path_tag(false);
	common(0);
	common(7);
	common(8);
	common(11);
	common(17);
	return 0;
}
