/*
 * shapes_wire.c
 *		Messages of streams: frames, labels, Jetstream.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/json_dagcbor.h"
#include "core/wire/frame.h"
#include "core/wire/jetstream_message.h"
#include "core/wire/json_frame.h"
#include "core/wire/labels_message.h"
#include "core/wire/members.h"
#include "core/wire/repos_message.h"
#include "measure.h"
#include "unit/sha.h"

/* ------------------------------------------------------------------------
 * Frames
 * ------------------------------------------------------------------------
 */
static void
begin_frame(const char *t, uint64_t pairs)
{
	atp_cbor_put_map(&input, 2);
	atp_cbor_put_key(&input, "t");
	atp_cbor_put_key(&input, t);
	atp_cbor_put_key(&input, "op");
	atp_cbor_put_uint(&input, 1);
	atp_cbor_put_map(&input, pairs);
}

static void
put_pair(const char *key, const char *value)
{
	atp_cbor_put_key(&input, key);
	atp_cbor_put_key(&input, value);
}

static bool
read_repos(AtpReposKind kind)
{
	static AtpReposMessage msg;
	AtpFrame	frame;
	size_t		at;

	if (atp_repos_read_commit(input.buf, input.len, &frame, &msg))
		return kind == ATP_REPOS_COMMIT;
	return atp_frame_parse(input.buf, input.len, &frame, &at) == ATP_OK &&
		atp_repos_parse(&frame, &msg, &at) == ATP_OK && msg.kind == kind;
}

/* Fields that nobody knows, with keys of eight bytes, among those of a message. */
static void
make_identity(size_t n)
{
	begin_frame("#identity", 3 + n);
	put_pair("did", DID);
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	put_pair("time", "2026-01-01T00:00:00Z");
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
}

static bool
run_identity(void)
{
	return read_repos(ATP_REPOS_IDENTITY);
}

/* A header with fields that nobody knows. */
static void
make_header(size_t n)
{
	atp_cbor_put_map(&input, 2 + n);
	put_pair("t", "#info");
	atp_cbor_put_key(&input, "op");
	atp_cbor_put_uint(&input, 1);
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
	atp_cbor_put_map(&input, 1);
	put_pair("name", "x");
}

static bool
run_header(void)
{
	return read_repos(ATP_REPOS_INFO);
}

/* The message with which a server ends a stream, with fields that nobody knows. */
static void
make_error(size_t n)
{
	atp_cbor_put_map(&input, 1);
	atp_cbor_put_key(&input, "op");
	atp_cbor_put_raw(&input, (const uint8_t *) "\x20", 1);
	atp_cbor_put_map(&input, 1 + n);
	put_pair("error", "x");
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
}

static bool
run_error(void)
{
	AtpFrame	frame;
	size_t		at;

	return atp_frame_parse(input.buf, input.len, &frame, &at) == ATP_OK && frame.kind == ATP_FRAME_ERROR;
}

/* A field with arrays in arrays, as deep as they may be, again and again. */
static void
make_account(size_t n)
{
	begin_frame("#account", 5);
	put_pair("did", DID);
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	put_pair("time", "2026-01-01T00:00:00Z");
	atp_cbor_put_key(&input, "active");
	atp_cbor_put_bool(&input, true);
	atp_cbor_put_key(&input, "strange");
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		for (int depth = 2; depth < ATP_CBOR_DEPTH_MAX; depth++)
			atp_cbor_put_array(&input, 1);
		atp_cbor_put_null(&input);
	}
}

static bool
run_account(void)
{
	return read_repos(ATP_REPOS_ACCOUNT);
}

/* Operations with the longest paths, which differ at their ends; fast: as servers send them. */
static void
put_commit(size_t n, bool fast)
{
	uint8_t		cid[36] = {1, 0x71, 0x12, 32};

	begin_frame("#commit", fast ? 11 : 10);
	atp_cbor_put_key(&input, "ops");
	atp_cbor_put_array(&input, n);
	for (size_t i = n; i-- > 0;)
	{
		char		path[1024];

		(void) snprintf(path, sizeof(path), "app.bsky.feed.post/%0500zu", i);
		atp_cbor_put_map(&input, 3);
		atp_cbor_put_key(&input, "cid");
		atp_cbor_put_link(&input, cid, sizeof(cid));
		put_pair("path", path);
		put_pair("action", "create");
	}
	put_pair("rev", "3jzfcijpj2z2a");
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	put_pair("repo", DID);
	put_pair("time", "2026-01-01T00:00:00Z");
	if (fast)
	{
		atp_cbor_put_key(&input, "blobs");
		atp_cbor_put_array(&input, 0);
	}
	atp_cbor_put_key(&input, "since");
	atp_cbor_put_null(&input);
	atp_cbor_put_key(&input, "blocks");
	atp_cbor_put_bytes(&input, cid, 0);
	atp_cbor_put_key(&input, "commit");
	atp_cbor_put_link(&input, cid, sizeof(cid));
	atp_cbor_put_key(&input, "rebase");
	atp_cbor_put_bool(&input, false);
	atp_cbor_put_key(&input, "tooBig");
	atp_cbor_put_bool(&input, false);
}

static void
make_commit_fast(size_t n)
{
	put_commit(n, true);
}

static void
make_commit_slow(size_t n)
{
	put_commit(n, false);
}

static bool
run_commit(void)
{
	return read_repos(ATP_REPOS_COMMIT);
}

/* ------------------------------------------------------------------------
 * Labels
 * ------------------------------------------------------------------------
 */
static void
make_labels(size_t n)
{
	begin_frame("#labels", 2);
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	atp_cbor_put_key(&input, "labels");
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		char		val[16];

		(void) snprintf(val, sizeof(val), "%06zu", n);
		atp_cbor_put_map(&input, 4);
		put_pair("cts", "2026-01-01T00:00:00Z");
		put_pair("src", "did:web:a.b");
		put_pair("uri", "did:web:a.b");
		put_pair("val", val);
	}
}

/* The same, with members of labels that nobody knows. */
static void
make_labels_fields(size_t n)
{
	make_labels(0);
	input.len--;
	atp_cbor_put_array(&input, 1);
	atp_cbor_put_map(&input, 4 + n);
	put_pair("cts", "2026-01-01T00:00:00Z");
	put_pair("src", "did:web:a.b");
	put_pair("uri", "did:web:a.b");
	put_pair("val", "!");
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
}

/* Labels without members, and a text of 4,000 bytes for each of them. */
static void
make_labels_bad(size_t n)
{
	static char text[ATP_FRAME_MAX];

	memset(text, ' ', sizeof(text));
	begin_frame("#labels", 3);
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	atp_cbor_put_key(&input, "labels");
	atp_cbor_put_array(&input, n);
	put_times(n, "\xa0");
	atp_cbor_put_key(&input, "strange");
	atp_cbor_put_text(&input, text, 4000 * n);
}

static bool
read_labels(AtpErr wanted)
{
	AtpFrame	frame;
	AtpLabelsMessage msg;
	AtpLabel	label;
	size_t		at;

	if (atp_frame_parse(input.buf, input.len, &frame, &at) != ATP_OK || atp_labels_parse(&frame, &msg, &at) != ATP_OK)
		return false;
	for (uint64_t i = 0; i < msg.nlabels; i++)
		if (atp_labels_next(&msg, &label, &at) != wanted)
			return false;
	return true;
}

static bool
run_labels(void)
{
	return read_labels(ATP_OK);
}

static bool
run_labels_bad(void)
{
	return read_labels(ATP_E_MSG_FIELD);
}

/* ------------------------------------------------------------------------
 * Messages in JSON
 * ------------------------------------------------------------------------
 */
#define ANY_CID	"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"

static void
begin_v1(void)
{
	put("{\"did\":\"" DID "\",\"time_us\":7,\"kind\":\"commit\",\"commit\":{\"rev\":\"3jzfcijpj2z2a\","
		"\"operation\":\"create\",\"collection\":\"app.bsky.feed.post\",\"rkey\":\"a\",\"cid\":\"" ANY_CID "\"");
}

/* The CID of the record in the input, in the place of ANY_CID: a consumer converts the record and compares. */
static void
put_cid(size_t record_at, size_t record_len)
{
	size_t		size = atp_json_dagcbor_room(record_len);
	uint8_t    *room = malloc(size);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	char		text[ATP_CID_TEXT_MAX];
	AtpBytes	block;
	size_t		at;

	if (atp_json_to_dagcbor(INPUT_TEXT + record_at, record_len, room, size, &block, &at) != ATP_OK)
		exit(2);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block.ptr, block.len, sha256, NULL, cid);
	if (atp_cid_format(cid, sizeof(cid), text) != strlen(ANY_CID))
		exit(2);
	memcpy(strstr((char *) input.buf, ANY_CID), text, strlen(ANY_CID));
	free(room);
}

/* Unknown members, each with an escape. */
static void
make_v1_members(size_t n)
{
	begin_v1();
	while (n-- > 0)
		put(",\"\\t\":1");
	put(",\"record\":{}}}");
}

/* A record of empty arrays, in arrays of a thousand: a longer list of a record is refused at its limit (B-28). */
static void
make_v1_record(size_t n)
{
	size_t		at;

	begin_v1();
	put(",\"record\":");
	at = input.len;
	put("{\"$type\":\"app.bsky.feed.post\",\"a\":[[0");
	for (size_t i = 0; i < n; i++)
		put(i % 1000 == 999 ? "],[[]" : ",[]");
	put("]]}");
	put_cid(at, input.len - at);
	put("}}");
}

static AtpJetstream more;

static bool
run_v1(void)
{
	static AtpReposMessage msg;
	AtpFrame	frame;
	size_t		at;

	return atp_json_frame_bare(INPUT_TEXT, input.len, &frame, &at) == ATP_OK &&
		atp_jetstream_parse_v1(frame.payload, &msg, &more, &at) == ATP_OK && msg.nops == 1;
}

/* An event with members that nobody knows, in falling order: a consumer converts the event to DAG-CBOR. */
static void
make_v1_wrapped(size_t n)
{
	put("{\"did\":\"" DID "\",\"time_us\":7,\"kind\":\"identity\",\"identity\":{\"did\":\"" DID "\",\"seq\":7,\"time\":\"2026-01-01T00:00:00Z\"");
	while (n-- > 0)
		putf(",\"%08zu\":0", n);
	put("}}");
}

static bool
run_v1_wrapped(void)
{
	static AtpReposMessage msg;
	AtpFrame	frame;
	AtpBytes	cbor;
	uint8_t    *room;
	size_t		size;
	size_t		at;
	bool		good;

	if (atp_json_frame_bare(INPUT_TEXT, input.len, &frame, &at) != ATP_OK || atp_jetstream_parse_v1(frame.payload, &msg, &more, &at) != ATP_OK)
		return false;
	size = atp_json_dagcbor_room(more.body.len);
	room = malloc(size);
	good = atp_json_to_dagcbor(more.body.ptr, more.body.len, room, size, &cbor, &at) == ATP_OK &&
		atp_jetstream_unwrap(cbor, &msg, &at) == ATP_OK && msg.kind == ATP_REPOS_IDENTITY;
	free(room);
	return good;
}

/* Members of the frame that nobody knows, each with an escape. */
static void
make_v2_members(size_t n)
{
	put("{\"$type\":\"error\",\"error\":\"x\"");
	put_times(n, ",\"\\t\":1");
	put("}");
}

static bool
run_v2_members(void)
{
	AtpFrame	frame;
	size_t		at;

	return atp_json_frame_parse(INPUT_TEXT, input.len, &frame, &more.texts, &at) == ATP_OK && frame.kind == ATP_FRAME_ERROR;
}

/* A record of texts with escapes, in a message of version 2. */
static void
make_v2(size_t n)
{
	put("{\"$type\":\"message\",\"payload\":{\"$type\":\"" ATP_NSID_JETSTREAM "#commit\",\"did\":\"" DID "\",\"seq\":7,"
		"\"time\":\"2026-01-01T00:00:00Z\",\"rev\":\"3jzfcijpj2z2a\",\"operation\":\"create\",\"collection\":\"app.bsky.feed.post\","
		"\"rkey\":\"a\",\"cid\":\"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a\",\"record\":{\"a\":\"");
	put_times(n, "\\\"");
	put("\"}}}");
}

static bool
run_v2(void)
{
	static AtpReposMessage msg;
	AtpFrame	frame;
	size_t		at;

	return atp_json_frame_parse(INPUT_TEXT, input.len, &frame, &more.texts, &at) == ATP_OK &&
		atp_jetstream_parse_v2(frame.payload, &msg, &more, &at) == ATP_OK && msg.nops == 1;
}

/* ------------------------------------------------------------------------
 * Members that this version does not know
 * ------------------------------------------------------------------------
 */
static void
count_member(void *ctx, AtpMemberOf of, AtpSpan name, bool is_null)
{
	*(size_t *) ctx += !atp_member_qualifies(of, name) && !is_null;
}

static bool
walk_payload(AtpMemberOf of, size_t least)
{
	AtpFrame	frame;
	size_t		at;
	size_t		count = 0;

	if (atp_frame_parse_any(input.buf, input.len, &frame, &at) != ATP_OK)
		return false;
	atp_members_cbor(frame.payload, of, count_member, &count);
	return count >= least;
}

static bool
run_members(void)
{
	return walk_payload(ATP_OF_IDENTITY, 0);
}

/* Operations, which the parser of the message would refuse. */
static void
make_members_ops(size_t n)
{
	begin_frame("#commit", 2);
	atp_cbor_put_key(&input, "x");
	atp_cbor_put_uint(&input, 1);
	atp_cbor_put_key(&input, "ops");
	atp_cbor_put_array(&input, n);
	put_times(n, "\xa1\x61" "a\x80");
}

static bool
run_members_ops(void)
{
	return walk_payload(ATP_OF_COMMIT, 1);
}

static bool
run_members_json(void)
{
	size_t		count = 0;

	atp_members_json((AtpSpan) {INPUT_TEXT, input.len}, ATP_OF_JSON_FRAME, count_member, &count);
	return true;
}

const Shape wire_shapes[] = {
	{"members", ATP_FRAME_MAX / 10 - 16, 16384, make_identity, run_members},
	{"members-ops", ATP_FRAME_MAX / 4 - 16, 16384, make_members_ops, run_members_ops},
	{"members-json", ATP_FRAME_MAX / 7 - 64, 8192, make_v2_members, run_members_json},
	{"identity-fields", ATP_FRAME_MAX / 10 - 16, 16384, make_identity, run_identity},
	{"header-fields", ATP_FRAME_MAX / 10 - 8, 16384, make_header, run_header},
	{"error-fields", ATP_FRAME_MAX / 10 - 8, 16384, make_error, run_error},
	{"account-nested", ATP_FRAME_MAX / 127 - 8, 512, make_account, run_account},
	{"commit-ops", ATP_OPS_MAX, 0, make_commit_fast, run_commit},
	{"commit-ops-unusual", ATP_OPS_MAX, 0, make_commit_slow, run_commit},
	{"labels-bad", ATP_FRAME_MAX / 4002, 0, make_labels_bad, run_labels_bad},
	{"labels", ATP_FRAME_MAX / 80 - 8, 2048, make_labels, run_labels},
	{"labels-fields", ATP_FRAME_MAX / 10 - 16, 16384, make_labels_fields, run_labels},
	{"jetstream-members", ATP_FRAME_MAX / 7 - 64, 8192, make_v1_members, run_v1},
	{"jetstream-record", ATP_FRAME_MAX / 3 - 2000, 65536, make_v1_record, run_v1},
	{"jetstream-wrapped", ATP_FRAME_MAX / 13 - 16, 2048, make_v1_wrapped, run_v1_wrapped},
	{"jetstream2-members", ATP_FRAME_MAX / 7 - 64, 8192, make_v2_members, run_v2_members},
	{"jetstream2-escapes", ATP_FRAME_MAX / 2 - 256, 65536, make_v2, run_v2},
	{NULL}
};
