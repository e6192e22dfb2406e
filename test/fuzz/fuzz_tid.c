/*
 * fuzz_tid.c
 *		TIDs: formatting a parsed TID gives the same text, and TIDs sort as their texts.
 */
#include "core/syntax/tid.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpSpan		s[2];
	uint64_t	tid[2] = {0, 0};
	bool		valid = true;

	split(data, size, &s[0], &s[1]);
	for (int i = 0; i < 2; i++)
	{
		char		text[ATP_TID_TEXT];
		size_t		at = SIZE_MAX;

		if (atp_tid_parse(s[i].ptr, s[i].len, &tid[i], &at) != ATP_OK)
		{
			CHECK(at <= s[i].len);
			valid = false;
			continue;
		}
		CHECK(s[i].len == ATP_TID_TEXT);
		atp_tid_format(tid[i], text);
		CHECK(memcmp(text, s[i].ptr, sizeof(text)) == 0);
		CHECK(atp_tid_make(atp_tid_micros(tid[i]), atp_tid_clock(tid[i])) == tid[i]);
	}
	if (valid)
		CHECK(text_order(s[0], s[1]) == (tid[0] > tid[1]) - (tid[0] < tid[1]));

	/* any eight bytes are a TID */
	if (size == 8)
	{
		char		text[ATP_TID_TEXT];
		uint64_t	any;
		uint64_t	again;
		size_t		at;

		memcpy(&any, data, 8);
		atp_tid_format(any, text);
		CHECK(atp_tid_parse(text, sizeof(text), &again, &at) == ATP_OK && again == any);
	}
	return 0;
}
