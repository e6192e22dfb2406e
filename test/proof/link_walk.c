/*
 * link_walk.c
 *		Links in a record: the second walk needs no more types than the first has counted.
 *
 * proves: atp_link_types atp_link_walk_items
 * sources: core/repo/link.c core/syntax/uri_parse.c core/syntax/did.c core/syntax/handle.c core/syntax/nsid.c
 *	core/syntax/recordkey.c core/syntax/tid.c core/syntax/base32.c core/syntax/chars.c core/codec/dagcbor.c
 *	core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=4 --unwind 8 --unwindset strlen.0:8,memmove.0:33,memmove.1:33
 * long: -DN=6 --unwind 10
 * wraps: atp_utf8_unplain
 * assumes: libcbor does what lib/libcbor.c says
 * not proved: texts that are links (longer than the bound)
 */
#include "core/repo/link.h"
#include "lib/proof.h"

static void
found(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
{
	LAW(false);
}

int
main(void)
{
	AtpLinkType types[N];
	AtpLinkWalk walk;
	size_t		count;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	err = atp_link_types(s, n, types, N, NULL, &count, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(count < N);
	atp_link_walk_begin(&walk, found, NULL);
	/* the last types of the memory: one more would lie behind it */
	memmove(types + N - count, types, count * sizeof(types[0]));
	atp_link_walk_items(&walk, s, n, types + N - count);
	if (count > 1)
		REACHED("two elements that are maps");
	return 0;
}
