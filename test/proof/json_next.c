/*
 * json_next.c
 *		The reader of JSON on any bytes: each call but the last moves on, and each item lies in the text.
 *
 * proves: atp_json_init atp_json_next atp_json_finish
 * sources: core/codec/json.c core/syntax/utf8.c core/syntax/chars.c
 * short: -DN=3 --unwind 6
 * long: -DN=9 --unwind 13
 * wraps: has_zero plain_text read_text atp_utf8_unplain
 */
#include "core/codec/json.h"
#include "lib/proof.h"

int
main(void)
{
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	size_t		last = 0;
	bool		nested = false;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	atp_json_init(&r, s, n, 2);
	while ((err = atp_json_next(&r, &item, &at)) == ATP_OK)
	{
		LAW(r.pos > last && r.pos <= n && r.depth <= 2);
		if (item.kind == ATP_JSON_KEY || item.kind == ATP_JSON_TEXT || item.kind == ATP_JSON_NUMBER)
			LAW(item.raw.ptr >= s && item.raw.ptr + item.raw.len <= s + n);
		last = r.pos;
		nested |= r.depth == 1;
	}
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_E_JSON_END || (r.pos == n && r.depth == 0));
	if (err == ATP_E_JSON_END && nested)
		REACHED("a container");
	return 0;
}
