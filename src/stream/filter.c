/*
 * filter.c
 *		A subscription's filters, applied before a record is decoded (F-14).  A
 *		commit is verified before, with all its operations (V-04).
 */
#include "postgres.h"

#include "core/syntax/nsid.h"
#include "stream/format.h"
#include "types/types.h"

bool
atp_wants_did(const AtpSettings *settings, const struct varlena *did)
{
	if (settings->slice.of > 0 && atp_did_slice(did, settings->slice.of) != settings->slice.number)
		return false;
	return settings->ndids < 0 ||
		(settings->ndids > 0 &&
		 bsearch(&did, settings->dids, settings->ndids, sizeof(struct varlena *), atp_compare_did_refs) != NULL);
}

bool
atp_wants_collection(const AtpSettings *settings, AtpSpan collection)
{
	if (settings->ncollections < 0)
		return true;
	for (int i = 0; i < settings->ncollections; i++)
		if (atp_nsid_matches(collection.ptr, collection.len,
							 settings->collections[i], strlen(settings->collections[i])))
			return true;
	return false;
}
