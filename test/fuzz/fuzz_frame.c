/*
 * fuzz_frame.c
 *		A whole frame, as the socket delivers it.
 */
#include "check_msg.h"
#include "protocol/one_go.h"
#include "tiny_cbor.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpFrame	frame;
	size_t		at;
	uint64_t	hash;
	bool		taken;

	if (!one_go_agrees(data, size, &taken))
		abort();
	if (atp_frame_parse(data, size, &frame, &at) != ATP_OK)
	{
		if (at > size)
			abort();
		return 0;
	}
	if (!tiny_read(data, frame.payload_at, 128, &hash) ||
		frame.payload.ptr != data + frame.payload_at ||
		frame.payload_at + frame.payload.len != size)
		abort();
	if (frame.kind == ATP_FRAME_UNKNOWN)
		return 0;
	if (!tiny_read(frame.payload.ptr, frame.payload.len, 128, &hash))
		abort();
	if (frame.kind == ATP_FRAME_MESSAGE)
		check_msg(&frame, size);
	else if (frame.error.ptr == NULL)
		abort();
	return 0;
}
