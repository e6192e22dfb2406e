/*
 * fuzz_handle.c
 *		Handles and at-identifiers: against the rules spelt out label by label.
 */
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "syntax_fuzz.h"

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool
is_alnum(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9');
}

/* I-10, written as its regular expression. */
static bool
is_handle(const char *s, size_t n)
{
	size_t		start = 0;
	int			labels = 0;

	if (n > 253)
		return false;
	for (size_t i = 0; i <= n; i++)
	{
		if (i < n && s[i] != '.')
		{
			if (!is_alnum(s[i]) && s[i] != '-')
				return false;
			continue;
		}
		if (i == start || i - start > 63 || !is_alnum(s[start]) || !is_alnum(s[i - 1]))
			return false;
		if (i == n && !is_letter(s[start]))
			return false;
		labels++;
		start = i + 1;
	}
	return labels >= 2;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *s = (const char *) data;
	char		normal[ATP_HANDLE_MAX];
	size_t		at = SIZE_MAX;
	bool		valid = atp_handle_check(s, size, &at) == ATP_OK;
	bool		did;

	CHECK(valid == is_handle(s, size));
	CHECK(valid || at <= size);
	did = atp_did_check(s, size, &at) == ATP_OK;
	CHECK((atp_identifier_check(s, size, &at) == ATP_OK) == (valid || did));
	if (valid)
	{
		CHECK(!did);
		atp_handle_normalize(s, size, normal);
		CHECK(atp_handle_check(normal, size, &at) == ATP_OK);
		for (size_t i = 0; i < size; i++)
			CHECK(normal[i] < 'A' || normal[i] > 'Z');
		CHECK(atp_handle_tld_allowed(s, size) == atp_handle_tld_allowed(normal, size));
	}
	return 0;
}
