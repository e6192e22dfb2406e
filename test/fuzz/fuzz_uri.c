/*
 * fuzz_uri.c
 *		AT and NOSH URIs: the laws of uri_laws.h.
 */
#include "syntax_fuzz.h"
#include "uri_laws.h"

static void
check_law(const char *law)
{
	if (law != NULL)
	{
		fprintf(stderr, "not so: %s\n", law);
		abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpSpan		a;
	AtpSpan		b;

	split(data, size, &a, &b);
	for (AtpScheme scheme = ATP_SCHEME_AT; scheme <= ATP_SCHEME_NOSH; scheme++)
	{
		check_law(broken_text_law(scheme, a.ptr, a.len));
		check_law(broken_text_law(scheme, b.ptr, b.len));
		check_law(broken_pair_law(scheme, a.ptr, a.len, b.ptr, b.len));
		check_law(broken_stored_law(scheme, data, size));
	}
	return 0;
}
