/*
 * fuzz_multikey.c
 *		Keys as text, and what is signed of a map.
 *
 * Input: a key, a line feed, DAG-CBOR.
 */
#include "core/codec/dagcbor.h"
#include "core/repo/sig.h"
#include "protocol/cbor.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	char		own[ATP_MULTIKEY_TEXT];
	uint8_t		point[ATP_POINT_LONG_LEN];
	AtpSpan		text;
	AtpSpan		map;
	AtpBytes	sig;
	AtpCborWriter w;
	size_t		len;
	size_t		at = SIZE_MAX;

	split(data, size, &text, &map);
	if (atp_multikey_parse(text.ptr, text.len, key, &at) == ATP_OK)
	{
		CHECK(text.len <= strlen("did:key:z") + ATP_BASE58_MAX);
		CHECK(memcmp(key, atp_multikey_curve(key) == ATP_K256 ? "\xe7\x01" : "\x80\x24", 2) == 0);
		CHECK(key[2] == 2 || key[2] == 3);
		/* a key has only one text */
		CHECK(atp_multikey_text(key, own) == ATP_MULTIKEY_TEXT && text.len >= ATP_MULTIKEY_TEXT &&
			  memcmp(text.ptr + text.len - ATP_MULTIKEY_TEXT, own, ATP_MULTIKEY_TEXT) == 0);
	}
	else
		CHECK(at <= text.len);
	if (atp_multikey_parse_bare(text.ptr, text.len, ATP_P256, key, point, &len, &at) == ATP_OK)
		CHECK((len == ATP_POINT_LEN || len == ATP_POINT_LONG_LEN) && memcmp(key + 3, point + 1, 32) == 0);
	else
		CHECK(at <= text.len);

	for (int is_label = 0; is_label < 2; is_label++)
	{
		w = (AtpCborWriter) {.buf = malloc(map.len), .cap = map.len};
		if (atp_sig_cut((const uint8_t *) map.ptr, map.len, is_label, &w, &sig, &at) == ATP_OK)
		{
			/* the rest is a map without a signature */
			CHECK(w.len < map.len && atp_cbor_check(w.buf, w.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK);
			CHECK(atp_sig_cut(w.buf, w.len, is_label, &(AtpCborWriter) {NULL, 0, 0}, &sig, &at) == ATP_E_SIG_MAP);
		}
		else
			CHECK(at <= map.len);
		free(w.buf);
	}
	return 0;
}
