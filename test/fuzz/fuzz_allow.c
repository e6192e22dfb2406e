/*
 * fuzz_allow.c
 *		Addresses and the list of allowed addresses: an address against inet_pton, and the members of a list
 *		of one word.
 *
 * Input: a list; and, after a line feed, an address.
 */
#include <arpa/inet.h>

#include "core/syntax/allow_list.h"
#include "syntax_fuzz.h"

static void
check_parse(AtpSpan text, AtpAddress *a, bool *valid)
{
	char	   *s = malloc(text.len + 1);
	uint8_t		bytes[16];
	AtpAddress	b;
	size_t		at = SIZE_MAX;
	size_t		n = 0;

	memcpy(s, text.ptr, text.len);
	s[text.len] = '\0';
	*valid = atp_address_parse(text.ptr, text.len, a, &at) == ATP_OK;
	if (strlen(s) == text.len)
		n = inet_pton(AF_INET, s, bytes) == 1 ? 4 : inet_pton(AF_INET6, s, bytes) == 1 ? 16 : 0;
	CHECK(*valid == (n != 0));
	CHECK(*valid || at <= text.len);
	if (*valid)
	{
		b = atp_address_of(bytes, n);
		CHECK(a->v4 == b.v4 && memcmp(a->bytes, b.bytes, a->v4 ? 4 : 16) == 0);
		CHECK(n == 16 || a->v4);
		CHECK(atp_address_in(a, &b, a->v4 ? 32 : 128) && atp_address_in(a, &b, 0));
	}
	free(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpSpan		list,
				text;
	AtpAddress	a;
	bool		valid;
	bool		good;
	size_t		at = SIZE_MAX;

	split(data, size, &list, &text);
	check_parse(text, &a, &valid);
	good = atp_allow_check(list.ptr, list.len, &at) == ATP_OK;
	CHECK(good || at <= list.len);
	/* these functions take any list, valid or not */
	if (valid)
		(void) atp_allow_address(list.ptr, list.len, &a);
	(void) atp_allow_host(list.ptr, list.len, (AtpSpan) {"https", 5}, text, 443);
	/* each single word of a list is a valid list */
	for (size_t i = 0; good && i < list.len; i++)
		if (list.ptr[i] == ',')
			CHECK(atp_allow_check(list.ptr, i, &at) == ATP_OK);
	return 0;
}
