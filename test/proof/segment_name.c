/*
 * segment_name.c
 *		Names of segments: any text of the right length, and any index.
 *
 * proves: atp_segment_name_parse atp_segment_name_format is_digit_at
 * sources: core/syntax/chars.c core/errors.c
 * short: --unwind 19
 * long: --unwind 19
 */
#include "core/archive/segment_name.c"
#include "lib/proof.h"

int
main(void)
{
	char		again[ATP_SEGMENT_NAME_LEN];
	uint64_t	index;
	uint64_t	other;

	ANY_TEXT(s, n, ATP_SEGMENT_NAME_LEN);
	if (atp_segment_name_parse((AtpSpan) {s, n}, &index) == ATP_OK)
	{
		LAW(n == ATP_SEGMENT_NAME_LEN && index < ATP_SEGMENT_INDEX_LIMIT);
		LAW(memcmp(s, "seg_", 4) == 0 && memcmp(s + 14, ".jss", 4) == 0);
		for (int i = 4; i < 14; i++)
			LAW((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'z'));
		REACHED("a name");
	}
	index = any_u64();
	ASSUME(index < 36 * 36);
	atp_segment_name_format(index, again);
	LAW(atp_segment_name_parse((AtpSpan) {again, ATP_SEGMENT_NAME_LEN}, &other) == ATP_OK && other == index);
	return 0;
}
