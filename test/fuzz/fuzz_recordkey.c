/*
 * fuzz_recordkey.c
 *		Record keys: syntax, types, stored form, order.
 */
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "protocol/stored.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const StoredType type = {
		atp_rkey_check, atp_rkey_store, atp_rkey_text, atp_rkey_check_stored, atp_rkey_cmp,
		atp_rkey_abbrev, ATP_RKEY_MAX
	};
	AtpSpan		key;
	AtpSpan		key_type;
	size_t		at = SIZE_MAX;
	uint64_t	tid;
	bool		typed;

	check_stored_type(&type, data, size);
	split(data, size, &key, &key_type);
	typed = atp_rkey_type_check(key_type.ptr, key_type.len, &at) == ATP_OK;
	CHECK(typed || at <= key_type.len);
	if (atp_rkey_check(key.ptr, key.len, &at) != ATP_OK)
	{
		CHECK(atp_rkey_check_strict(key.ptr, key.len, &at) != ATP_OK);
		CHECK(atp_tid_parse(key.ptr, key.len, &tid, &at) != ATP_OK);
		return 0;
	}
	CHECK((atp_rkey_check_strict(key.ptr, key.len, &at) == ATP_OK) ==
		  (memchr(key.ptr, ':', key.len) == NULL));
	CHECK(atp_rkey_matches(key.ptr, key.len, "any", 3));
	if (typed)
		atp_rkey_matches(key.ptr, key.len, key_type.ptr, key_type.len);
	return 0;
}
