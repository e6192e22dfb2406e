/*
 * fuzz_jetstream.c
 *		Messages in JSON: framing, and the messages of Jetstream (J-20 to J-26).  Accepted values lie in the
 *		message, or in the memory for texts, and are valid; a fault is at a byte of the message.
 *
 * Input: a byte that chooses the version, and the text.
 */
#include <stdlib.h>

#include "core/syntax/did.h"
#include "core/codec/field.h"
#include "core/wire/jetstream_message.h"
#include "core/codec/json_dagcbor.h"
#include "core/wire/json_frame.h"
#include "core/repo/path.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static AtpReposMessage msg;
static AtpJetstream more;

/* Is a span of the text, or of the memory, or absent. */
static bool
is_within(AtpSpan span, AtpBytes text)
{
	const char *start = (const char *) text.ptr;

	return span.ptr == NULL || (span.ptr >= start && span.ptr + span.len <= start + text.len) ||
		(span.ptr >= more.texts.buf && span.ptr + span.len <= more.texts.buf + more.texts.used);
}

static void
check_message(AtpErr err, AtpBytes payload)
{
	const AtpOp *op = &msg.ops[0];
	AtpSpan		collection;
	AtpSpan		rkey;
	size_t		at;

	CHECK(msg.seq >= 0 && msg.seq < ATP_SEQ_LIMIT);
	CHECK(is_within(msg.did, payload) && is_within(msg.time, payload) && is_within(msg.name, payload) && is_within(more.body, payload));
	CHECK(msg.did.ptr == NULL || atp_did_check(msg.did.ptr, msg.did.len, &at) == ATP_OK);
	if (err != ATP_OK)
		return;
	if (msg.kind == ATP_REPOS_COMMIT)
	{
		CHECK(msg.did.ptr != NULL && msg.nops == 1 && is_within(op->path, payload));
		CHECK(atp_path_split(op->path, &collection, &rkey) == ATP_OK && collection.len == op->collection.len);
		CHECK((more.body.ptr == NULL) == (op->action == ATP_DELETE) && (op->cid.ptr == NULL) == (op->action == ATP_DELETE));
	}
	if (more.body.ptr != NULL)
		CHECK(more.body.len >= 2 && more.body.ptr[0] == '{' && (more.body.ptr[more.body.len - 1] == '}' || more.body.ptr[more.body.len - 1] == ']'));
}

static void
check_body(void)
{
	size_t		size = atp_json_dagcbor_room(more.body.len);
	uint8_t    *room = malloc(size);
	AtpBytes	cbor;
	size_t		at;
	int64_t		seq = msg.seq;
	AtpErr		err = atp_json_to_dagcbor(more.body.ptr, more.body.len, room, size, &cbor, &at);

	CHECK(at <= more.body.len);
	if (err == ATP_OK && msg.kind != ATP_REPOS_COMMIT)
	{
		CHECK(atp_jetstream_unwrap(cbor, &msg, &at) != ATP_E_SEQ_MISSING && at <= cbor.len);
		CHECK(msg.seq == seq);
	}
	free(room);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool		is_v1;
	AtpFrame	frame;
	size_t		at = 0;
	AtpErr		err;

	if (size == 0)
		return 0;
	is_v1 = data[0] % 2 == 1;
	data++;
	size--;
	err = is_v1 ? atp_json_frame_bare((const char *) data, size, &frame, &at)
		: atp_json_frame_parse((const char *) data, size, &frame, &more.texts, &at);
	CHECK(at <= size);
	if (err == ATP_OK && frame.kind == ATP_FRAME_ERROR)
		CHECK(is_within(frame.error, (AtpBytes) {data, size}) && is_within(frame.message, (AtpBytes) {data, size}));
	if (err != ATP_OK || frame.kind != ATP_FRAME_MESSAGE)
		return 0;
	CHECK(frame.payload.ptr == data + frame.payload_at && frame.payload_at + frame.payload.len <= size);
	err = is_v1 ? atp_jetstream_parse_v1(frame.payload, &msg, &more, &at) : atp_jetstream_parse_v2(frame.payload, &msg, &more, &at);
	CHECK(at <= frame.payload.len);
	check_message(err, frame.payload);
	if (err == ATP_OK && more.body.ptr != NULL)
		check_body();
	return 0;
}
