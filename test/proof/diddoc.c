/*
 * diddoc.c
 *		DID documents: one entry, key, service, alias and array, with any JSON; and whole documents of a few items.
 *
 * proves: atp_diddoc_parse read_array take_key take_service take_alias read_key read_endpoint read_doc_entry is_did
 * sources: test/proof/lib/any_json.c
 * short: -DN=5 -DANY_TEXT_MAX=8 --unwind 7 --unwindset any_json_text.0:9,atp_json_text.0:9,memcpy.0:66,memcmp.0:37,strlen.0:34,atp_json_members.0:6
 * long: -DN=8 -DANY_TEXT_MAX=12 --unwind 10 --unwindset atp_json_text.0:13,memcpy.0:66,memcmp.0:37,strlen.0:34
 * assumes: JSON's readers do what lib/any_json.c says; the readers of keys, hosts and handles what their own harnesses prove
 */
#include "core/wire/diddoc.c"
#include "lib/proof.h"

AtpErr
atp_multikey_parse(const char *s, size_t n, uint8_t key[ATP_MULTIKEY_LEN], size_t *at)
{
	LAW(__CPROVER_r_ok(s, n) && __CPROVER_w_ok(key, ATP_MULTIKEY_LEN));
	key[0] = any_bool() ? 0xe7 : 0x80;
	return any_bool() ? ATP_OK : ATP_E_KEY_TYPE;
}

AtpErr
atp_multikey_parse_bare(const char *s, size_t n, AtpCurve curve, uint8_t key[ATP_MULTIKEY_LEN], uint8_t point[ATP_POINT_LONG_LEN], size_t *len, size_t *at)
{
	LAW(__CPROVER_r_ok(s, n) && __CPROVER_w_ok(key, ATP_MULTIKEY_LEN) && __CPROVER_w_ok(point, ATP_POINT_LONG_LEN));
	*len = any_bool() ? ATP_POINT_LEN : ATP_POINT_LONG_LEN;
	return any_bool() ? ATP_OK : ATP_E_KEY_TYPE;
}

bool
atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port)
{
	LAW(__CPROVER_r_ok(s, n) && __CPROVER_w_ok(out, ATP_HOST_MAX));
	*len = any_size(n < ATP_HOST_MAX ? n : ATP_HOST_MAX);
	return *len > 0 && any_bool();
}

AtpErr
atp_handle_check(const char *s, size_t n, size_t *at)
{
	LAW(__CPROVER_r_ok(s, n));
	return n > 0 && n <= ATP_HANDLE_MAX && any_bool() ? ATP_OK : ATP_E_HANDLE_LABELS;
}

void
atp_handle_normalize(const char *s, size_t n, char *out)
{
	LAW(__CPROVER_r_ok(s, n) && __CPROVER_w_ok(out, n));
}

static bool
point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	LAW((curve == ATP_K256 || curve == ATP_P256) && __CPROVER_r_ok(point, n));
	return any_bool();
}

int
main(void)
{
	AtpDidDoc	doc;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_diddoc_parse(s, n, (AtpSpan) {"did:x:y", 7}, point, NULL, &doc, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(doc.pds_len <= ATP_HOST_MAX && doc.handle_len <= ATP_HANDLE_MAX);
	if (err == ATP_OK && doc.handle_len > 0)
		REACHED("a document with a handle");
	return 0;
}
