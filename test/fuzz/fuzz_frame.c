/*
 * fuzz_frame.c
 *		A whole frame, as the socket delivers it.
 */
#include "check_msg.h"
#include "core/wire/members.h"
#include "protocol/one_go.h"
#include "tiny_cbor.h"

typedef struct Input
{
	const uint8_t *data;
	size_t		size;
} Input;

/* A name lies in the input. */
static void
see(void *ctx, AtpMemberOf of, AtpSpan name, bool is_null)
{
	const Input *input = ctx;

	if ((const uint8_t *) name.ptr < input->data || (const uint8_t *) name.ptr + name.len > input->data + input->size ||
		atp_member_is_known(of, name))
		abort();
}

/* E-61, S-11: the other framing, and the members that are not known. */
static void
check_any(const uint8_t *data, size_t size)
{
	Input		input = {data, size};
	AtpFrame	frame;
	size_t		at;

	atp_members_cbor((AtpBytes) {data, size}, ATP_OF_COMMIT, see, &input);
	if (atp_frame_parse_v1(data, size, &frame, &at) != ATP_OK)
	{
		if (at > size)
			abort();
	}
	else if (frame.kind == ATP_FRAME_MESSAGE)
	{
		if (frame.t.ptr == NULL || frame.payload.ptr != data + frame.payload_at || frame.payload_at + frame.payload.len > size)
			abort();
		check_msg(&frame, size);
	}
	else if (frame.kind == ATP_FRAME_ERROR && frame.error.ptr == NULL)
		abort();
}

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpFrame	frame;
	size_t		at;
	uint64_t	hash;
	bool		taken;

	check_any(data, size);
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
