/*
 * fuzz_nsid.c
 *		NSIDs and patterns: parts, normal form, matching.
 */
#include "core/syntax/nsid.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpSpan		s;
	AtpSpan		pattern;
	AtpSpan		name;
	AtpSpan		domain;
	char		normal[ATP_NSID_MAX];
	char		again[ATP_NSID_MAX];
	size_t		at = SIZE_MAX;
	size_t		unused;

	split(data, size, &s, &pattern);
	if (atp_nsid_check(s.ptr, s.len, &at) != ATP_OK)
	{
		CHECK(at <= s.len);
		return 0;
	}
	name = atp_nsid_name(s.ptr, s.len);
	domain = atp_nsid_domain(s.ptr, s.len);
	CHECK(domain.ptr == s.ptr && domain.ptr[domain.len] == '.');
	CHECK(name.ptr == s.ptr + domain.len + 1 && name.len == s.len - domain.len - 1);
	CHECK(name.len >= 1 && name.len <= 63 && memchr(name.ptr, '.', name.len) == NULL);
	CHECK(memchr(domain.ptr, '.', domain.len) != NULL);

	atp_nsid_normalize(s.ptr, s.len, normal);
	CHECK(atp_nsid_check(normal, s.len, &at) == ATP_OK);
	CHECK(memcmp(normal + domain.len, s.ptr + domain.len, name.len + 1) == 0);
	atp_nsid_normalize(normal, s.len, again);
	CHECK(memcmp(normal, again, s.len) == 0);

	CHECK(atp_nsid_pattern_check(s.ptr, s.len, &at) == ATP_OK);
	CHECK(atp_nsid_matches(s.ptr, s.len, s.ptr, s.len));
	CHECK(atp_nsid_matches(s.ptr, s.len, "*", 1));
	at = SIZE_MAX;
	if (atp_nsid_pattern_check(pattern.ptr, pattern.len, &at) != ATP_OK)
		CHECK(at <= pattern.len);
	else if (pattern.len > 1 && pattern.ptr[pattern.len - 1] == '*')
		CHECK(atp_nsid_matches(s.ptr, s.len, pattern.ptr, pattern.len) ==
			  (s.len >= pattern.len && memcmp(s.ptr, pattern.ptr, pattern.len - 1) == 0));
	else if (pattern.len > 1)
		CHECK(atp_nsid_check(pattern.ptr, pattern.len, &unused) == ATP_OK);
	return 0;
}
