/*
 * fuzz_labels.c
 *		Messages of com.atproto.label.subscribeLabels.
 */
#include "core/codec/cid.h"
#include "core/syntax/did.h"
#include "core/wire/labels_message.h"
#include "syntax_fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpFrame	frame;
	AtpLabelsMessage msg;
	size_t		at;

	if (atp_frame_parse(data, size, &frame, &at) != ATP_OK || frame.kind != ATP_FRAME_MESSAGE)
		return 0;
	if (atp_labels_parse(&frame, &msg, &at) != ATP_OK || msg.kind != ATP_LABELS_LABELS)
	{
		CHECK(at <= size);
		return 0;
	}
	CHECK(msg.seq > 0);
	/* the frame is well-formed, so every label announced can be read */
	for (uint64_t i = 0; i < msg.nlabels; i++)
	{
		AtpLabel	label;
		AtpCid		cid;
		AtpErr		err = atp_labels_next(&msg, &label, &at);

		CHECK(at <= size);
		CHECK(err != ATP_E_CBOR_END);
		if (err != ATP_OK)
			continue;
		CHECK(atp_did_check(label.src.ptr, label.src.len, &at) == ATP_OK);
		CHECK(label.val.len > 0 && label.val.len <= ATP_LABEL_VAL_MAX);
		CHECK(label.cid_len == 0 || atp_cid_check(label.cid, label.cid_len, &cid, &at) == ATP_OK);
	}
	return 0;
}
