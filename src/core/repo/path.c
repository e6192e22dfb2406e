/*
 * path.c
 *		Paths of records in a repository, rule B-65: collection '/' record key.
 */
#include "core/repo/mst.h"
#include "core/syntax/nsid.h"
#include "core/repo/path.h"
#include "core/syntax/recordkey.h"

AtpErr
atp_path_check(AtpSpan collection, AtpSpan rkey)
{
	AtpSpan		domain;
	size_t		at;

	if (collection.len + 1 + rkey.len > ATP_MST_KEY_MAX ||
		atp_nsid_check(collection.ptr, collection.len, &at) != ATP_OK ||
		atp_rkey_check(rkey.ptr, rkey.len, &at) != ATP_OK)
		return ATP_E_PATH;

	/*
	 * B-65: a collection in a path is in normal form, with the domain in lower
	 * case (I-04).  Otherwise two spellings would be two collections.
	 */
	domain = atp_nsid_domain(collection.ptr, collection.len);
	for (size_t i = 0; i < domain.len; i++)
	{
		if (domain.ptr[i] >= 'A' && domain.ptr[i] <= 'Z')
			return ATP_E_PATH;
	}
	return ATP_OK;
}

AtpErr
atp_path_split(AtpSpan path, AtpSpan *collection, AtpSpan *rkey)
{
	const char *slash = memchr(path.ptr, '/', path.len);

	if (slash == NULL)
		return ATP_E_PATH;
	*collection = (AtpSpan) {path.ptr, slash - path.ptr};
	*rkey = (AtpSpan) {slash + 1, path.len - collection->len - 1};
	return atp_path_check(*collection, *rkey);
}
