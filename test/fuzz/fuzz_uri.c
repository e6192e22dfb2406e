/*
 * fuzz_uri.c
 *		AT and NOSH URIs: the laws of uri_laws.h; and URIs from what people paste.
 */
#include "core/syntax/uri_from.h"

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

/* The URI of an account, in normal form, which is known as itself. */
static void
check_known(const char *uri, size_t n)
{
	static char again[ATP_URI_MAX];
	AtpUri		parts;
	size_t		an;
	size_t		at;

	CHECK(atp_uri_parse(ATP_SCHEME_AT, uri, n, &parts, &at) == ATP_OK && parts.kind != ATP_AUTHORITY_OPAQUE);
	CHECK(atp_uri_normal_form(ATP_SCHEME_AT, uri, n, again, &an) == ATP_OK && same_bytes(uri, n, again, an));
	CHECK(atp_uri_from(uri, n, again, &an) && same_bytes(uri, n, again, an));
}

/* A text as the only thing that is pasted, and as an address; a pair also as a pattern and its URI. */
static void
check_pasted(AtpSpan a, AtpSpan b)
{
	static const AtpSpan pattern = {"https://a.b/{authority}/c/{rkey}", 32};
	static const AtpSpan target = {"at://{authority}/a.b.c/{rkey}", 29};
	static char uri[ATP_URI_MAX];
	AtpUri		parts;
	unsigned	places;
	unsigned	target_places;
	size_t		n;
	size_t		at = 0;

	if (atp_uri_from(a.ptr, a.len, uri, &n))
		check_known(uri, n);
	if (atp_uri_from_web(a.ptr, a.len, pattern, target, uri, &n))
	{
		check_known(uri, n);
		CHECK(atp_uri_parse(ATP_SCHEME_AT, uri, n, &parts, &at) == ATP_OK);
		CHECK(atp_span_is(parts.collection, "a.b.c") && parts.rkey.ptr != NULL);
	}
	if (atp_web_pattern_check(a, &places, &at) == ATP_OK && atp_web_uri_check(b, &target_places, &at) == ATP_OK &&
		places == target_places)
	{
		/* a pattern without placeholders is an address that fits */
		CHECK(atp_uri_from_web(a.ptr, a.len, a, b, uri, &n) == (places == 0));
		if (places == 0)
			check_known(uri, n);
	}
	CHECK(at <= a.len || at <= b.len);
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
	check_pasted(a, b);
	check_pasted(b, a);
	return 0;
}
