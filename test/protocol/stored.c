/*
 * stored.c
 *		Is this the stored form of a valid value?
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"
#include "stored.h"

AtpErr
atp_did_check_stored(const uint8_t *stored, size_t n, size_t *at)
{
	const char *s = (const char *) stored;
	AtpErr		err;

	if (n > 0 && stored[0] == ATP_DID_TAG)
		return n == ATP_DID_PLC_STORED ? ATP_OK : atp_fail(ATP_E_STORED, 0, at);
	err = atp_did_check(s, n, at);
	if (err == ATP_OK && atp_did_is_plc(s, n))
		return atp_fail(ATP_E_STORED, 0, at);
	return err;
}

AtpErr
atp_rkey_check_stored(const uint8_t *stored, size_t n, size_t *at)
{
	const char *s = (const char *) stored;
	uint64_t	tid;
	size_t		unused;
	AtpErr		err;

	if (n > 0 && stored[0] == ATP_RKEY_TAG)
		return n == ATP_RKEY_TID_STORED ? ATP_OK : atp_fail(ATP_E_STORED, 0, at);
	err = atp_rkey_check(s, n, at);
	if (err == ATP_OK && atp_tid_parse(s, n, &tid, &unused) == ATP_OK)
		return atp_fail(ATP_E_STORED, 0, at);
	return err;
}

/*
 * A stored form is right if it is what its text is stored as.  So it is
 * unpacked, as far as that can be done safely, and the text is parsed.
 */
AtpErr
atp_uri_check_stored(AtpScheme scheme, const uint8_t *stored, size_t n, size_t *at)
{
	char		text[ATP_URI_MAX + ATP_DID_PLC_TEXT + ATP_URI_PATH_MAX + 1 + ATP_TID_TEXT];
	uint8_t		again[ATP_URI_MAX];
	const uint8_t *p = stored;
	const uint8_t *end = stored + n;
	const uint8_t *path;
	const uint8_t *tag;
	size_t		text_len;
	size_t		again_n;
	size_t		i = 0;
	AtpUri		uri;
	AtpErr		err;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_URI_MAX - atp_uri_prefix_len(scheme))
		return atp_fail(ATP_E_URI_LONG, ATP_URI_MAX - atp_uri_prefix_len(scheme), at);
	if (*p == ATP_URI_TAG_PLC)
	{
		if (n < ATP_DID_PLC_STORED)
			return atp_fail(ATP_E_STORED, 0, at);
		p += ATP_DID_PLC_STORED;
	}
	path = atp_uri_path_tag(stored, end);
	tag = memchr(p, ATP_URI_TAG_TID, end - p);
	if (tag != NULL && end - tag < ATP_URI_TID_STORED)
		return atp_fail(ATP_E_STORED, tag - stored, at);

	text_len = atp_uri_text(scheme, stored, n, text);
	err = atp_uri_parse(scheme, text, text_len, &uri, at);
	if (err != ATP_OK)
	{
		/* the offset in the text, brought back to the stored form */
		size_t		offset = *at - atp_uri_prefix_len(scheme);

		if (stored[0] == ATP_URI_TAG_PLC)
			offset -= ATP_DID_PLC_TEXT - ATP_DID_PLC_STORED;
		if (path != NULL && offset > (size_t) (path - stored))
		{
			size_t		more = atp_uri_path[*path - ATP_URI_TAG_PATH].len - 1;

			offset = offset > (size_t) (path - stored) + more ? offset - more : (size_t) (path - stored);
		}
		if (tag != NULL && offset > (size_t) (tag - stored) + ATP_TID_TEXT)
			offset -= 1 + ATP_TID_TEXT - ATP_URI_TID_STORED;
		return atp_fail(err, offset < n ? offset : n, at);
	}
	again_n = atp_uri_store_parsed(&uri, text, text_len, again);
	while (i < n && i < again_n && again[i] == stored[i])
		i++;
	return i == n && i == again_n ? ATP_OK : atp_fail(ATP_E_STORED, i, at);
}
