/*
 * frame.c
 *		Frames of event streams: the payload lies in the message, and a message has all that its kind needs.
 *
 * proves: atp_frame_parse
 * sources: core/wire/frame.c core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=3 --unwind 9
 * long: -DN=6 --unwind 13
 * wraps: atp_utf8_unplain atp_fields_next
 * assumes: libcbor does what lib/libcbor.c says; the header is {op: one byte, t: one character}
 */
#include "core/wire/frame.h"
#include "lib/proof.h"

#define HEAD	"\xa2\x61t\x61#\x62op\x01"
#define HEAD_LEN	(sizeof(HEAD) - 1)

int
main(void)
{
	uint8_t		s[HEAD_LEN + N];
	size_t		n = HEAD_LEN + any_size(N);
	uint8_t    *text = s + sizeof(s) - n;
	AtpFrame	frame;
	size_t		at;
	AtpErr		err;

	memcpy(text, HEAD, HEAD_LEN);
	text[HEAD_LEN - 1] = any_byte();
	err = atp_frame_parse(text, n, &frame, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(frame.payload.ptr == text + frame.payload_at && frame.payload_at + frame.payload.len == n);
	LAW(frame.kind != ATP_FRAME_MESSAGE || frame.t.ptr != NULL);
	LAW(frame.kind != ATP_FRAME_ERROR || frame.error.ptr != NULL);
	if (frame.kind == ATP_FRAME_MESSAGE && frame.payload.len == N)
		REACHED("a message");
	return 0;
}
