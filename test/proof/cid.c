/*
 * cid.c
 *		CIDs, binary and as text: a CID has one text, and the parts lie in the bytes.
 *
 * proves: atp_cid_check atp_cid_prefix atp_cid_parse atp_cid_format atp_cid_is_raw atp_cid_is_node atp_cid_is_syntax
 * sources: core/codec/cid.c
 * short: -DN=7 -DM=9 --unwind 11
 * by hand: 8 s
 * long: -DN=12 -DM=20 --unwind 22
 */
#include "core/codec/cid.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		bytes[M];
	char		text[M + 8];
	AtpCid		cid;
	size_t		len = 0;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(b, n, N);
	err = atp_cid_prefix(b, n, &cid, &len, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK)
	{
		LAW(len <= n && cid.digest.ptr >= b && cid.digest.ptr + cid.digest.len == b + len);
		LAW((atp_cid_check(b, n, &cid, &at) == ATP_OK) == (len == n));
		LAW(!atp_cid_is_node((AtpBytes) {b, n}));
		REACHED("a binary CID");
	}
	atp_cid_is_raw((AtpBytes) {b, n});

	ANY_TEXT(s, m, M);
	atp_cid_is_syntax(s, m);
	err = atp_cid_parse(s, m, bytes, &len, &at);
	LAW_OF_ERRORS(err, at, m);
	if (err != ATP_OK)
		return 0;
	LAW(atp_cid_check(bytes, len, &cid, &at) == ATP_OK);
	LAW(atp_cid_format(bytes, len, text) == m && memcmp(text, s, m) == 0);
	REACHED("the text of a CID");
	return 0;
}
