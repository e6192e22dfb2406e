/*
 * uri_parse.c
 *		The general syntax of URIs: the parts of a URI follow each other and are the whole text; errors lie in it.
 *
 * The checks of DIDs, handles, NSIDs and record keys are replaced by any results that they can have: did.c, handle.c,
 * nsid.c and recordkey.c prove these functions.
 *
 * proves: atp_uri_parse parse_authority check_authority parse_path authority_kind is_agent
 * sources: core/syntax/uri_parse.c core/syntax/chars.c
 * replaces: memset:proof_memset
 * short: -DN=4 --unwind 10
 * long: -DN=7 --unwind 13
 * assumes: is_address() is proved for texts of other lengths than 42 only
 */
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri_private.h"
#include "lib/proof.h"

/* As a loop over the bytes of the struct it would cost the solver more than all the rest. */
void *
proof_memset(void *to, int c, size_t n)
{
	LAW(c == 0 && n == sizeof(AtpUri));
	*(AtpUri *) to = (AtpUri) {0};
	return to;
}

static AtpErr
any_result(const char *s, size_t n, size_t *at)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*at = any_size(n);
	return any_bool() ? ATP_OK : ATP_E_EMPTY;
}

AtpErr
atp_did_check(const char *s, size_t n, size_t *at)
{
	AtpErr		err = any_result(s, n, at);

	/* "did:" with nothing behind is no DID */
	ASSUME(err != ATP_OK || n > 4);
	return err;
}

bool
atp_did_is_plc(const char *s, size_t n)
{
	LAW(__CPROVER_r_ok(s, n));
	return any_bool();
}

AtpErr
atp_handle_check(const char *s, size_t n, size_t *at)
{
	return any_result(s, n, at);
}

AtpErr
atp_nsid_check(const char *s, size_t n, size_t *at)
{
	return any_result(s, n, at);
}

AtpErr
atp_rkey_check(const char *s, size_t n, size_t *at)
{
	return any_result(s, n, at);
}

static void
parse(AtpScheme scheme, const char *prefix, size_t prefix_n, size_t n)
{
	char		memory[7 + N];
	char	   *s = memory + 7 + N - prefix_n - n;
	AtpUri		uri;
	size_t		at;
	size_t		all;
	AtpErr		err;

	memcpy(s, prefix, prefix_n);
	n += prefix_n;
	err = atp_uri_parse(scheme, s, n, &uri, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return;
	LAW(uri.authority.ptr == s + prefix_n && uri.authority.len > 0);
	all = prefix_n + uri.authority.len;
	LAW(uri.path.ptr == NULL || uri.path.ptr == s + all);
	all += uri.path.len;
	LAW(uri.query.ptr == NULL || uri.query.ptr == s + all + 1);
	if (uri.query.ptr != NULL)
		all += 1 + uri.query.len;
	LAW(uri.fragment.ptr == NULL || uri.fragment.ptr == s + all + 1);
	if (uri.fragment.ptr != NULL)
		all += 1 + uri.fragment.len;
	LAW(all == n);
	LAW((uri.path.ptr != NULL) == (uri.segments > 0) && (uri.seg1.ptr != NULL) == (uri.segments > 0));
	LAW((uri.seg2.ptr != NULL) == (uri.segments > 1));
	if (uri.segments > 1)
		LAW(uri.seg1.len > 0 && uri.seg2.len > 0 && uri.seg2.ptr == uri.seg1.ptr + uri.seg1.len + 1);
	LAW(uri.collection.ptr == NULL || uri.collection.ptr == uri.seg1.ptr);
	LAW(uri.rkey.ptr == NULL || (uri.rkey.ptr == uri.seg2.ptr && uri.collection.ptr != NULL));
	if (uri.fragment.ptr != NULL)
		REACHED("a URI with a fragment");
}

int
main(void)
{
	parse(ATP_SCHEME_AT, "at://", 5, 0);
	parse(ATP_SCHEME_AT, "at://", 5, N);
	parse(ATP_SCHEME_NOSH, "nosh://", 7, N - 1);
	return 0;
}
