/*
 * fuzz_cid.c
 *		CIDs: converting text to binary and back, or binary to text and back, gives the same bytes.
 */
#include <stdlib.h>

#include "core/codec/cid.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;
	uint8_t		bytes[ATP_CID_MAX];
	char		text[ATP_CID_TEXT_MAX];
	size_t		n;
	size_t		at;
	AtpCid		cid;

	if (atp_cid_parse(s, size, bytes, &n, &at) == ATP_OK)
	{
		if (atp_cid_check(bytes, n, &cid, &at) != ATP_OK ||
			atp_cid_format(bytes, n, text) != size || memcmp(text, s, size) != 0)
			abort();
	}
	else if (at > size)
		abort();
	if (atp_cid_check(data, size, &cid, &at) == ATP_OK)
	{
		size_t		len = atp_cid_format(data, size, text);

		if (atp_cid_parse(text, len, bytes, &n, &at) != ATP_OK ||
			n != size || memcmp(bytes, data, n) != 0)
			abort();
	}
	else if (at > size)
		abort();
	if (atp_cid_is_blessed(data, size) && atp_cid_check(data, size, &cid, &at) != ATP_OK)
		abort();
	(void) atp_cid_is_syntax(s, size);
	return 0;
}
