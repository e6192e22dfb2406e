/*
 * link_path.c
 *		Paths of links: what is written is valid, stays in its room, and the name comes back.
 *
 * proves: atp_link_path_name atp_link_path_element atp_link_path_is_valid atp_link_path_take
 * sources: core/repo/link.c core/syntax/uri_parse.c core/syntax/did.c core/syntax/handle.c core/syntax/nsid.c
 *	core/syntax/recordkey.c core/syntax/tid.c core/syntax/base32.c core/syntax/chars.c core/codec/dagcbor.c
 *	core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=3 --unwind 12 --unwindset strchr.0:7
 * long: -DN=5 --unwind 18
 */
#include "core/repo/link.h"
#include "lib/proof.h"

int
main(void)
{
	AtpLinkPath path = {.len = 0};
	AtpSpan		rest;
	AtpSpan		again;
	char		buf[3 * N + 1];

	ANY_TEXT(name, n, N);
	atp_link_path_name(&path, (AtpSpan) {name, n});
	LAW(path.len > 0 && path.len <= 3 * N + 1);
	rest = (AtpSpan) {path.text, path.len};
	LAW(atp_link_path_is_valid(rest));
	LAW(atp_link_path_take(&rest, buf, &again) && rest.ptr == NULL);
	LAW(same_bytes(name, n, again.ptr, again.len));
	if (path.len == 3 * N)
		REACHED("a name of which each character is written %HH");

	/* a path that is nearly full */
	path.len = ATP_LINK_PATH_MAX - any_size(4);
	atp_link_path_name(&path, (AtpSpan) {name, n});
	atp_link_path_element(&path, (AtpSpan) {n > 0 ? name : NULL, n});
	if (path.len > ATP_LINK_PATH_MAX)
		REACHED("a path that is too long");
	return 0;
}
