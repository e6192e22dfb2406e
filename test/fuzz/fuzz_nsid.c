/*
 * fuzz_nsid.c
 *		NSIDs and patterns: parts, normal form, matching, stored form.
 */
#include "core/syntax/nsid.h"
#include "core/syntax/nsid_code.h"
#include "syntax_fuzz.h"

/* Any bytes as a stored form: refused, the text itself, or the code of a valid name, which has no other. */
static void
check_stored(const uint8_t *data, size_t size)
{
	AtpSpan		text;
	uint8_t		again[ATP_NSID_MAX];
	size_t		at;

	if (!atp_nsid_text(data, size, &text))
		CHECK(atp_nsid_is_code(data, size));
	else if (atp_nsid_is_code(data, size))
	{
		CHECK(atp_nsid_check(text.ptr, text.len, &at) == ATP_OK);
		CHECK(atp_nsid_store(text.ptr, text.len, again) == size && memcmp(again, data, size) == 0);
	}
	else
		CHECK((const uint8_t *) text.ptr == data && text.len == size);
}

/* A valid text comes back from its stored form. */
static void
check_store(AtpSpan s)
{
	uint8_t    *stored = malloc(s.len);
	size_t		n = atp_nsid_store(s.ptr, s.len, stored);
	AtpSpan		text;

	CHECK(n <= s.len);
	CHECK(atp_nsid_text(stored, n, &text) && text_order(text, s) == 0);
	CHECK(atp_nsid_text_cmp(text, s) == 0);
	free(stored);
}

/* The order of any two texts, and of their abbreviations. */
static void
check_order(AtpSpan a, AtpSpan b)
{
	int			order = text_order(a, b);
	uint64_t	x = atp_nsid_text_abbrev(a);
	uint64_t	y = atp_nsid_text_abbrev(b);

	CHECK(sign(atp_nsid_text_cmp(a, b)) == order);
	CHECK(!(x < y && order >= 0) && !(x > y && order <= 0));
}

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

	check_stored(data, size);
	split(data, size, &s, &pattern);
	if (s.len > 0 && pattern.len > 0)
		check_order(s, pattern);
	if (atp_nsid_check(s.ptr, s.len, &at) != ATP_OK)
	{
		CHECK(at <= s.len);
		return 0;
	}
	check_store(s);
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
