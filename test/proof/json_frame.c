/*
 * json_frame.c
 *		Frames in JSON: the payload lies in the message.
 *
 * proves: atp_json_frame_parse atp_json_frame_bare atp_json_read_object
 * sources: core/wire/json_frame.c core/codec/json.c core/codec/json_text.c core/syntax/utf8.c core/syntax/chars.c
 * short: -DN=3 --unwind 12 --unwindset strncmp.0:9
 * long: -DN=5 --unwind 14
 * wraps: has_zero plain_text read_text atp_utf8_unplain
 * assumes: the text begins with the member "payload"
 */
#include "core/wire/json_frame.h"
#include "lib/proof.h"

int
main(void)
{
	char		s[11 + N];
	size_t		n = 11 + any_size(N);
	char	   *text = s + sizeof(s) - n;
	static const char *const names[] = {"payload"};
	AtpJsonItem value;
	AtpFrame	frame;
	size_t		at;
	AtpErr		err;

	memcpy(text, "{\"payload\":", 11);
	err = atp_json_read_object((AtpBytes) {(const uint8_t *) text, n}, names, 1, &value, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	if (value.kind == ATP_JSON_OBJECT)
	{
		LAW(value.raw.ptr >= text + 11 && value.raw.ptr + value.raw.len < text + n && value.raw.len >= 2);
		REACHED("a payload");
	}
	LAW(atp_json_frame_bare(text, n, &frame, &at) == ATP_OK && frame.payload.len == n);
	return 0;
}
