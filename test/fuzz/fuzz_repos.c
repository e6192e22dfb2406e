/*
 * fuzz_repos.c
 *		Each message type of subscribeRepos: the first byte chooses it, the rest
 *		is the payload.
 */
#include "check_msg.h"
#include "core/codec/dagcbor.h"
#include "protocol/cbor.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = {
		"#commit", "#sync", "#identity", "#account", "#info", "#handle"
	};
	AtpFrame	frame = {.kind = ATP_FRAME_MESSAGE};
	size_t		at;

	if (size < 2 || data[1] >> 5 != 5 ||
		atp_cbor_check(data + 1, size - 1, ATP_CBOR_DEPTH_DEFAULT, &at) != ATP_OK)
		return 0;
	frame.t.ptr = types[data[0] % 6];
	frame.t.len = strlen(frame.t.ptr);
	frame.payload = (AtpBytes) {data + 1, size - 1};
	frame.payload_at = 1;
	check_msg(&frame, size);
	return 0;
}
