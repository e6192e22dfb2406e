/*
 * diddoc.c
 *		Parts of a DID document, with any JSON: a key, a service and an alias of an entry with any members.
 *
 * proves: take_key take_service take_alias read_key read_endpoint is_did is_text
 * sources: test/proof/lib/any_json.c
 * short: -DANY_TEXT_MAX=12 -DANY_TEXT_FILLS --unwind 13 --unwindset strlen.0:34,memcmp.0:16,memcpy.0:66,any_entry.0:6
 * long: -DANY_TEXT_MAX=14 --unwind 15 --unwindset strlen.0:34,memcmp.0:16,memcpy.0:66
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

static void
any_entry(DocEntry *entry)
{
	for (int i = 0; i < NFIELDS; i++)
		entry->field[i].kind = any_bool() ? ATP_JSON_TEXT : any_bool() ? ATP_JSON_NULL : ATP_JSON_OBJECT;
}

int
main(void)
{
	AtpDidDoc	doc = {0};
	DocReader	d = {.did = {"did:x:y", 7}, .doc = &doc, .point = point};
	DocEntry	entry;
	AtpJsonItem alias = {.kind = any_bool() ? ATP_JSON_TEXT : ATP_JSON_NULL};

	any_entry(&entry);
	take_key(&d, &entry);
	LAW(!doc.has_key || entry.field[KEY].kind == ATP_JSON_TEXT);
	any_entry(&entry);
	take_service(&d, &entry);
	LAW(!doc.has_pds || (d.pds_seen && doc.pds_len <= ATP_HOST_MAX));
	take_alias(&d, &alias);
	LAW(doc.handle_len <= ATP_HANDLE_MAX && (doc.handle_len == 0 || alias.kind == ATP_JSON_TEXT));
	if (doc.has_key && doc.has_pds && doc.handle_len == 4)
		REACHED("a key, a PDS and a handle");
	return 0;
}
