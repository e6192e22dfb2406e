/*
 * json_text.c
 *		Texts of JSON with escapes, decoded; and integers.
 *
 * proves: atp_json_text atp_json_take_text atp_json_integer atp_json_seq
 * sources: core/codec/json.c core/codec/json_text.c core/syntax/utf8.c core/syntax/chars.c
 * short: -DN=8 -DM=20 --unwind 22
 * long: -DN=14 -DM=24 --unwind 26
 * wraps: has_zero plain_text read_text atp_utf8_unplain
 */
#include "core/codec/json_text.h"
#include "lib/proof.h"

int
main(void)
{
	char		out[N];
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		room = any_size(N);
	size_t		len;
	size_t		at;
	int64_t		value;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	ASSUME(n > 0 && s[0] == '"');
	atp_json_init(&r, s, n, 1);
	if (atp_json_next(&r, &item, &at) == ATP_OK && atp_json_text(&item, out + N - room, room, &len))
	{
		LAW(len <= room && len <= item.raw.len);
		if (item.escaped && len > 2)
			REACHED("a text with an escape");
	}

	ANY_TEXT(d, m, M);
	ASSUME(m > 0 && (d[0] == '-' || (d[0] >= '0' && d[0] <= '9')) && d[m - 1] != '-');
	err = atp_json_integer((AtpSpan) {d, m}, &value);
	if (err == ATP_OK && value == INT64_MIN)
		REACHED("the smallest integer");
	LAW(err != ATP_OK || (value < 0) == (d[0] == '-'));
	return 0;
}
