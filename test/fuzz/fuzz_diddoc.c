/*
 * fuzz_diddoc.c
 *		DID documents: for every text, the values taken from the document keep their rules.
 *
 * Input: a document of did:plc:ewvi7nxzyoun6zhxrhs64oiz.
 */
#include "core/wire/diddoc.h"
#include "core/codec/json.h"
#include "syntax_fuzz.h"

/* Accepts any x: the arithmetic of curves is not tested here. */
static bool
is_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	CHECK((n == ATP_POINT_LEN && (point[0] == 2 || point[0] == 3)) || (n == ATP_POINT_LONG_LEN && point[0] == 4));
	return (point[1] & 1) == 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char did[] = "did:plc:ewvi7nxzyoun6zhxrhs64oiz";
	const char *s = (const char *) data;
	AtpJsonReader r;
	AtpJsonItem item;
	AtpDidDoc	doc;
	char		text[64];
	size_t		n;
	size_t		at = SIZE_MAX;
	AtpErr		read;
	AtpErr		err;

	atp_json_init(&r, s, size, ATP_JSON_DEPTH_DEFAULT);
	while ((read = atp_json_next(&r, &item, &at)) == ATP_OK)
	{
		CHECK(at <= size && r.depth <= ATP_JSON_DEPTH_DEFAULT);
		if ((item.kind == ATP_JSON_KEY || item.kind == ATP_JSON_TEXT) && atp_json_text(&item, text, sizeof(text), &n))
		{
			CHECK(n <= item.raw.len && n <= sizeof(text) && atp_json_is(&item, text, n));
			CHECK(!(n < sizeof(text) && atp_json_is(&item, text, n + 1)));
		}
	}
	CHECK(at <= size);

	err = atp_diddoc_parse(s, size, (AtpSpan) {did, sizeof(did) - 1}, is_point, NULL, &doc, &at);
	if (err != ATP_OK)
	{
		CHECK(at <= size);
		return 0;
	}
	CHECK(read == ATP_E_JSON_END);
	CHECK(!doc.has_key || ((doc.key[2] == 2 || doc.key[2] == 3) && (doc.key[3] & 1) == 0));
	CHECK(!doc.has_label_key || doc.label_key[2] == 2 || doc.label_key[2] == 3);
	CHECK(doc.handle_len == 0 || atp_handle_check(doc.handle, doc.handle_len, &at) == ATP_OK);
	for (size_t i = 0; doc.has_pds && i < doc.pds_len; i++)
		CHECK((doc.pds[i] >= 'a' && doc.pds[i] <= 'z') || (doc.pds[i] >= '0' && doc.pds[i] <= '9') ||
			  doc.pds[i] == '-' || doc.pds[i] == '.');
	CHECK(!doc.has_pds || (doc.pds_len > 0 && doc.pds_port > 0));
	return 0;
}
