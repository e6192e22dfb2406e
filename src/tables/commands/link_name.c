/*
 * link_name.c
 *		How a function's caller names a source of links: "collection:path".
 */
#include "postgres.h"

#include "common/compat.h"
#include "common/quotable.h"
#include "core/repo/link.h"
#include "core/syntax/nsid.h"
#include "tables/commands/link_name.h"
#include "utils/builtins.h"

AtpLinkName
atp_link_name(const text *source)
{
	AtpSpan		whole = {VARDATA_ANY(source), VARSIZE_ANY_EXHDR(source)};
	const char *colon = memchr(whole.ptr, ':', whole.len);
	size_t		n = colon == NULL ? whole.len : (size_t) (colon - whole.ptr);
	size_t		at;

	if (colon == NULL && atp_nsid_check(whole.ptr, n, &at) == ATP_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("source of links \"%s\" has no path", atp_quotable(text_to_cstring(source))),
				 errhint("Add where in the record the link is, as in app.bsky.feed.like:subject.uri or app.bsky.graph.follow:subject; the table link_source has the collections and paths.")));
	if (colon == NULL || atp_nsid_check(whole.ptr, n, &at) != ATP_OK ||
		!atp_link_path_is_valid((AtpSpan) {colon + 1, whole.len - n - 1}))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid source of links: \"%s\"", atp_quotable(text_to_cstring(source))),
				 errhint("Use a collection and a path, such as app.bsky.feed.like:subject.uri.")));
	return (AtpLinkName) {{whole.ptr, n}, {whole.ptr + n + 1, whole.len - n - 1}};
}
