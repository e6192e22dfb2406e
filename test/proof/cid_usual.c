/*
 * cid_usual.c
 *		The CIDs of the protocol, 36 bytes: the shortcut for them agrees with the general parser, and text and bytes are
 *		each other's only form.
 *
 * proves: atp_cid_prefix atp_cid_is_blessed atp_cid_is_node atp_cid_is_raw atp_cid_format atp_cid_parse atp_cid_of
 * sources: core/codec/cid.c test/proof/lib/sha256.c
 * short: --unwind 60
 * long: --unwind 60
 */
#include "core/codec/cid.h"
#include "lib/proof.h"
#include "lib/sha256.h"

int
main(void)
{
	uint8_t		b[ATP_CID_BLESSED_LEN];
	uint8_t		again[ATP_CID_MAX];
	uint8_t		block[1] = {0};
	char		text[ATP_CID_TEXT_MAX];
	AtpCid		cid;
	size_t		len;
	size_t		n;
	size_t		at;

	/* the shortcut reads a codec of one byte only */
	if (atp_cid_check(b, sizeof(b), &cid, &at) == ATP_OK)
		LAW(b[1] < 0x80 ? cid.codec == b[1] : b[2] >= 0x80 || cid.codec == ((b[1] & 0x7f) | (uint64_t) b[2] << 7));
	if (atp_cid_is_blessed(b, sizeof(b)))
	{
		LAW(atp_cid_check(b, sizeof(b), &cid, &at) == ATP_OK && cid.codec == b[1] && cid.digest.ptr == b + 4 && cid.digest.len == 32);
		LAW(atp_cid_is_raw((AtpBytes) {b, sizeof(b)}) != atp_cid_is_node((AtpBytes) {b, sizeof(b)}));
		n = atp_cid_format(b, sizeof(b), text);
		LAW(n == 59);
		LAW(atp_cid_parse(text, n, again, &len, &at) == ATP_OK && same_bytes(b, sizeof(b), again, len));
		REACHED("a CID of the protocol");
	}
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block, sizeof(block), proof_sha256, NULL, b);
	LAW(atp_cid_is_node((AtpBytes) {b, sizeof(b)}));
	return 0;
}
