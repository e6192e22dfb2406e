/*
 * record_path.c
 *		The texts of an account and of a record's place, from SQL values: see record_path.h.
 */
#include "postgres.h"

#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "data/record_path.h"
#include "types/types.h"

AtpSpan
atp_did_span(const struct varlena *did)
{
	char	   *text = palloc(ATP_DID_MAX + 1);
	size_t		n = atp_did_copy(did, text);

	text[n] = '\0';
	return (AtpSpan) {text, n};
}

AtpSpan
atp_record_path(const struct varlena *collection, const struct varlena *rkey)
{
	AtpSpan		name = atp_nsid_span(collection);
	size_t		n = name.len;
	char	   *text = palloc(n + 1 + ATP_RKEY_MAX);

	memcpy(text, name.ptr, n);
	text[n] = '/';
	return (AtpSpan) {text, n + 1 + atp_rkey_copy(rkey, text + n + 1)};
}
