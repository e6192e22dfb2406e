/*
 * handle_txt.c
 *		The TXT records of a handle's domain, string by string; and its file.
 *
 * proves: atp_handle_txt_begin atp_handle_txt_string atp_handle_txt_end atp_handle_file
 * sources: core/syntax/handle_txt.c core/syntax/did.c core/syntax/chars.c core/syntax/base32.c
 * short: -DN=6 -DSTRINGS=3 --unwind 19
 * long: -DN=9 -DSTRINGS=4 --unwind 37
 * assumes: the state before a string is one that strings of any length can lead to, not only those of the bound
 */
#include "core/syntax/handle_txt.h"
#include "lib/proof.h"

int
main(void)
{
	AtpHandleTxt txt;
	AtpHandleFound found;
	AtpSpan		did;

	ANY_TEXT(file, n, N);
	did = atp_handle_file(file, n);
	LAW(did.ptr == NULL || (did.ptr >= file && did.len <= n && did.ptr + did.len <= file + n));

	atp_handle_txt_begin(&txt);
	/* a record that has grown to any length so far, of which only the last bytes are followed */
	txt.record_len = any_size(sizeof(txt.record) + 1);
	ASSUME(txt.record_len == 0 || txt.record_len >= sizeof(txt.record) - 2);
	for (int i = 0; i < STRINGS; i++)
	{
		ANY_TEXT(s, len, N);
		atp_handle_txt_string(&txt, s, len, txt.record_len >= sizeof(txt.record) - 2 ? false : any_bool());
		LAW(txt.record_len <= sizeof(txt.record) + 1);
	}
	if (txt.record_len == sizeof(txt.record) + 1)
		REACHED("a record that is too long");
	if (txt.record_len > 20)
		return 0;
	found = atp_handle_txt_end(&txt);
	LAW(found == ATP_HANDLE_NONE || txt.did_len >= 7);
	if (found == ATP_HANDLE_DID)
		REACHED("a DID in several strings");
	return 0;
}
