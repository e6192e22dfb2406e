/*
 * test_jetstream.c
 *		Messages in JSON: framing (E-60, J-20 to J-23), and those of Jetstream (F-40 to F-42, J-24 to J-26).
 */
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/wire/jetstream_message.h"
#include "core/codec/json_dagcbor.h"
#include "core/wire/json_frame.h"
#include "hex.h"

#define DID_TEXT	"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define CID_TEXT	"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"
#define RECORD		"{\"$type\":\"a.b.c\",\"x\":[\"}\",{\"y\":\"\\\"]\"}]}"
#define COMMIT		"\"rev\":\"3mptbypluud2a\",\"operation\":\"create\",\"collection\":\"a.b.c\",\"rkey\":\"k\",\"record\":" RECORD ",\"cid\":\"" CID_TEXT "\""
#define V1(commit)	"{\"did\":\"" DID_TEXT "\",\"time_us\":1783175888085434,\"kind\":\"commit\",\"commit\":{" commit "}}"
#define V2(kind, rest) \
	"{\"$type\":\"message\",\"payload\":{\"$type\":\"network.bsky.jetstream.subscribeEvents#" kind "\",\"seq\":7,\"did\":\"" DID_TEXT "\"," \
	"\"time\":\"2026-07-04T14:38:08.000000Z\"," rest "}}"

static AtpReposMessage msg;
static AtpJetstream more;
static AtpFrame frame;
static char *text;				/* of the last message, in memory of exactly its length */

static AtpErr
cut(const char *s, size_t n)
{
	static AtpJsonTexts texts;
	size_t		at = 0;
	AtpErr		err;

	free(text);
	text = (char *) copy_of(s, n);
	err = atp_json_frame_parse(text, n, &frame, &texts, &at);
	if (at > n && err != ATP_E_FRAME_SIZE)
		exit(2);
	return err;
}

static AtpErr
cut_text(const char *s)
{
	return cut(s, strlen(s));
}

/* Reads the message as a server frames it.  A fault of the framing is reported first. */
static AtpErr
read_message(int version, const char *s, size_t n)
{
	size_t		at = 0;
	AtpErr		err;

	if (version == 2)
		err = cut(s, n);
	else
	{
		free(text);
		text = (char *) copy_of(s, n);
		err = atp_json_frame_bare(text, n, &frame, &at);
	}
	if (err != ATP_OK)
		return err;
	err = version == 1 ? atp_jetstream_parse_v1(frame.payload, &msg, &more, &at) : atp_jetstream_parse_v2(frame.payload, &msg, &more, &at);
	if (at > frame.payload.len)
		exit(2);
	return err;
}

static AtpErr
v1(const char *s)
{
	return read_message(1, s, strlen(s));
}

static AtpErr
v2(const char *s)
{
	return read_message(2, s, strlen(s));
}

static void
framing(void)
{
	static const char *const broken[] = {
		"", "{", "[]", "null", "\"text\"", "x", "{}x", "{}{}", "{\"$type\":\"message\",\"payload\":{}", "{\"$type\":\"message\",\"payload\":{\"a\":\"}}",
		"{\"$type\":\"message\",\"payload\":{\"a\":\"\\\"}}", "{\"$type\":\"message\" \"payload\":{}}", "\xff\xfe{}",
	};
	static char large[ATP_FRAME_MAX + 1];

	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
	{
		AtpErr		err = cut(broken[i], strlen(broken[i]));
		size_t		at;

		ok(err != ATP_OK, "J-20: %s: %s", show(broken[i], strlen(broken[i])), atp_err_text(err));
		ok(atp_json_frame_bare(broken[i], strlen(broken[i]), &frame, &at) != ATP_OK, "J-20: nor without framing");
	}
	ok(cut_text("{\"a\":1}") == ATP_E_JSON_FRAME && cut_text("{\"$type\":1}") == ATP_E_JSON_FRAME, "J-22: no $type");
	ok(cut_text("{\"$type\":\"error\",\"$type\":\"error\",\"error\":\"x\"}") == ATP_E_JSON_TWICE, "J-20: two of them");
	ok(cut_text("{\"$type\":\"message\"}") == ATP_E_FRAME_PAYLOAD && cut_text("{\"$type\":\"message\",\"payload\":[]}") == ATP_E_FRAME_PAYLOAD,
	   "J-22: a payload that is no object");
	ok(cut_text(" {\"payload\": {\"a\":[1]} , \"\\u0024type\":\"mess\\u0061ge\"}\n") == ATP_OK && frame.kind == ATP_FRAME_MESSAGE &&
	   frame.payload_at == 13 && frame.payload.len == 9 && memcmp(frame.payload.ptr, "{\"a\":[1]}", 9) == 0, "J-22: in another order, with spaces and escapes");
	ok(cut_text("{\"$type\":\"error\",\"error\":\"FutureCursor\",\"message\":\"caf\\u00e9\"}") == ATP_OK && frame.kind == ATP_FRAME_ERROR &&
	   atp_span_is(frame.error, "FutureCursor") && atp_span_is(frame.message, "caf\xc3\xa9"), "E-27: an error");
	ok(cut_text("{\"$type\":\"error\",\"error\":\"x\"}") == ATP_OK && frame.message.ptr == NULL, "E-27: without a message");
	ok(cut_text("{\"$type\":\"error\",\"message\":\"x\"}") == ATP_E_FRAME_ERROR, "E-27: without a name");
	ok(cut_text("{\"$type\":\"other\",\"payload\":1}") == ATP_OK && frame.kind == ATP_FRAME_UNKNOWN, "E-22: another type");
	memset(large, ' ', sizeof(large));
	ok(cut(large, sizeof(large)) == ATP_E_FRAME_SIZE, "E-11: too large");
	memset(large, '[', 400000);
	memset(large + 400000, ']', 400000);
	memcpy(large, "{\"$type\":\"message\",\"payload\":{\"a\":", 34);
	memcpy(large + 800000 - 34, "}}", 2);
	memset(large + 800000 - 32, ' ', 32);
	ok(cut(large, 800000) == ATP_OK, "J-21: whatever is in a payload, at whatever depth");
	ok(cut_text("{\"$type\":\"message\",\"payload\":{\"a\" [}{]}}") == ATP_OK, "J-21: also what is no JSON");
}

static void
commits(void)
{
	ok(v1(V1(COMMIT)) == ATP_OK && msg.kind == ATP_REPOS_COMMIT && msg.seq == INT64_C(1783175888085434) && more.time == msg.seq &&
	   atp_span_is(msg.did, DID_TEXT) && msg.nops == 1 && msg.ops[0].action == ATP_CREATE &&
	   atp_span_is(msg.ops[0].path, "a.b.c/k") && atp_span_is(msg.ops[0].collection, "a.b.c") && atp_span_is(msg.ops[0].rkey, "k") &&
	   msg.ops[0].cid.len == ATP_CID_BLESSED_LEN && atp_span_is(more.body, RECORD), "F-40: a commit of version 1");
	ok(v2(V2("commit", COMMIT)) == ATP_OK && msg.kind == ATP_REPOS_COMMIT && msg.seq == 7 && more.time == 0 &&
	   atp_span_is(msg.time, "2026-07-04T14:38:08.000000Z") && atp_span_is(msg.ops[0].path, "a.b.c/k") && atp_span_is(more.body, RECORD),
	   "F-42: a commit of version 2");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"comm\\u0069t\",\"cursor\":9,\"commit\":{\"rkey\":\"\\u006b\",\"collection\":\"a.b\\u002ec\","
		  "\"operation\":\"delete\",\"rev\":\"3mptbypluud2a\",\"record\":null,\"other\":{}}}") == ATP_OK && msg.seq == 5 &&
	   msg.ops[0].action == ATP_DELETE && atp_span_is(msg.ops[0].path, "a.b.c/k") && more.body.ptr == NULL, "J-25: a deletion, with escapes");
#define FAULT(what, version, message, expected, has_seq) \
	ok(version(message) == expected && (msg.seq != 0) == has_seq, "%s: %s", what, atp_err_text(expected))
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"kind\":\"commit\"}", ATP_E_SEQ_MISSING, false);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":\"5\",\"kind\":\"commit\"}", ATP_E_SEQ_MISSING, false);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":1.5,\"kind\":\"commit\"}", ATP_E_SEQ_MISSING, false);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":-5,\"kind\":\"commit\"}", ATP_E_SEQ_RANGE, false);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":9007199254740992,\"kind\":\"commit\"}", ATP_E_SEQ_RANGE, false);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":99999999999999999999,\"kind\":\"commit\"}", ATP_E_SEQ_RANGE, false);
	FAULT("J-24", v1, "{\"did\":\"nobody\",\"time_us\":5,\"kind\":\"commit\",\"commit\":{}}", ATP_E_MSG_DID, true);
	FAULT("J-24", v1, "{\"time_us\":5,\"kind\":\"commit\",\"commit\":{}}", ATP_E_MSG_FIELD, true);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"commit\":{}}", ATP_E_MSG_TYPE, true);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"commit\"}", ATP_E_MSG_FIELD, true);
	FAULT("J-24", v1, "{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"commit\",\"commit\":{\"rev\" 1}}", ATP_E_JSON_SYNTAX, true);
	FAULT("J-20", v1, V1(COMMIT ",\"rev\":\"3mptbypluud2a\""), ATP_E_JSON_TWICE, true);
	FAULT("J-20", v2, V2("commit", COMMIT ",\"seq\":8"), ATP_E_JSON_TWICE, true);
	FAULT("J-24", v2, "{\"$type\":\"message\",\"payload\":{\"seq\":7}}", ATP_E_JSON_TYPE, true);
	FAULT("J-25", v1, V1("\"rev\":\"no\""), ATP_E_MSG_REV, true);
	FAULT("J-25", v1, V1("\"operation\":\"create\""), ATP_E_MSG_FIELD, true);
	FAULT("J-25", v1, V1("\"rev\":\"3mptbypluud2a\""), ATP_E_OP_FIELD, true);
	FAULT("J-25", v1, V1("\"rev\":\"3mptbypluud2a\",\"operation\":\"replace\""), ATP_E_OP_ACTION, true);
#define OP(operation, collection, rkey) \
	"\"rev\":\"3mptbypluud2a\",\"operation\":\"" operation "\",\"collection\":\"" collection "\",\"rkey\":\"" rkey "\""
	FAULT("B-65", v1, V1(OP("delete", "a.b", "k")), ATP_E_PATH, true);
	FAULT("B-65", v1, V1(OP("delete", "A.b.c", "k")), ATP_E_PATH, true);
	FAULT("B-65", v1, V1(OP("delete", "a.b.c", "..")), ATP_E_PATH, true);
	FAULT("B-65", v1, V1(OP("delete", "a.b.c", "x/y")), ATP_E_PATH, true);
	FAULT("B-65", v1, V1(OP("delete", "a.b.c/x", "y")), ATP_E_PATH, true);
	FAULT("J-25", v1, V1(OP("delete", "a.b.c", "k") ",\"cid\":\"" CID_TEXT "\""), ATP_E_OP_CID, true);
	FAULT("J-25", v1, V1(OP("delete", "a.b.c", "k") ",\"record\":{}"), ATP_E_OP_CID, true);
	FAULT("J-25", v1, V1(OP("create", "a.b.c", "k") ",\"record\":{}"), ATP_E_OP_CID, true);
	FAULT("J-25", v1, V1(OP("create", "a.b.c", "k") ",\"cid\":\"" CID_TEXT "\""), ATP_E_OP_CID, true);
	FAULT("J-25", v1, V1(OP("update", "a.b.c", "k") ",\"cid\":\"bafy\",\"record\":{}"), ATP_E_LEX_CID, true);
	FAULT("J-25", v1, V1(OP("update", "a.b.c", "k") ",\"cid\":\"" CID_TEXT "\",\"record\":[]"), ATP_E_RECORD_MAP, true);
}

/* The body of the last message, unwrapped. */
static AtpErr
unwrap(void)
{
	static uint8_t room[1 << 16];
	AtpBytes	cbor;
	size_t		at;
	AtpErr		err = atp_json_to_dagcbor(more.body.ptr, more.body.len, room, sizeof(room), &cbor, &at);

	return err != ATP_OK ? err : atp_jetstream_unwrap(cbor, &msg, &at);
}

#define IDENTITY	"\"identity\":{\"did\":\"" DID_TEXT "\",\"seq\":31527015470,\"time\":\"2026-07-04T14:38:07.877Z\",\"handle\":\"a.example.com\"}"

static void
wrapped(void)
{
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"identity\"," IDENTITY "}") == ATP_OK && msg.kind == ATP_REPOS_IDENTITY && msg.seq == 5 &&
	   atp_span_is(msg.time, "2026-07-04T14:38:07.877Z") && more.time == 0 && unwrap() == ATP_OK && msg.seq == 5 &&
	   atp_span_is(msg.handle, "a.example.com"), "J-26: an identity");
	ok(v2(V2("identity", IDENTITY)) == ATP_OK && atp_span_is(msg.time, "2026-07-04T14:38:07.877Z") && unwrap() == ATP_OK && msg.seq == 7, "J-26: in version 2");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"account\",\"account\":{\"active\":false,\"did\":\"" DID_TEXT "\",\"seq\":3,\"status\":\"deleted\","
		  "\"time\":\"2026-07-04T14:38:07.877Z\"}}") == ATP_OK && unwrap() == ATP_OK && !msg.active && atp_span_is(msg.status, "deleted"), "J-26: an account");
	ok(v2(V2("sync", "\"sync\":{\"did\":\"" DID_TEXT "\",\"seq\":3,\"time\":\"2026-07-04T14:38:07.877Z\",\"rev\":\"3mptbypluud2a\",\"blocks\":{\"$bytes\":\"AQ\"}}")) == ATP_OK &&
	   msg.kind == ATP_REPOS_SYNC && unwrap() == ATP_OK && msg.rev != 0 && msg.blocks.len == 1, "F-42: a #sync");
	ok(v1("{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"time_us\":5,\"kind\":\"identity\"," IDENTITY "}") == ATP_OK && unwrap() == ATP_E_MSG_DID_DIFFERS,
	   "J-26: of another account");
	ok(v2(V2("sync", "\"sync\":{\"did\":\"" DID_TEXT "\",\"seq\":0,\"time\":\"2026-07-04T14:38:07.877Z\",\"rev\":\"3mptbypluud2a\",\"blocks\":{\"$bytes\":\"\"}}")) == ATP_OK &&
	   unwrap() == ATP_OK && msg.seq == 7 && msg.rev != 0 && msg.blocks.ptr != NULL && msg.blocks.len == 0, "F-42: a #sync of the server's own: without blocks, seq 0");
	ok(v2(V2("sync", "\"sync\":{\"did\":\"" DID_TEXT "\",\"seq\":0,\"time\":\"2026-07-04T14:38:07.877Z\",\"rev\":\"3mptbypluud2a\"}")) == ATP_OK &&
	   unwrap() == ATP_E_MSG_FIELD, "F-42: but not without the field");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"account\",\"account\":{\"active\":1,\"did\":\"" DID_TEXT "\",\"seq\":3,"
		  "\"time\":\"2026-07-04T14:38:07.877Z\"}}") == ATP_OK && unwrap() == ATP_E_MSG_TYPE && msg.seq == 5, "J-26: with a field of a wrong type");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"account\",\"account\":{\"active\":true,\"did\":\"" DID_TEXT "\","
		  "\"time\":\"2026-07-04T14:38:07.877Z\"}}") == ATP_OK && unwrap() == ATP_E_MSG_FIELD, "J-26: without its seq the message is wrong, not the stream");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"identity\"}") == ATP_E_MSG_FIELD && msg.seq == 5, "J-26: without it");
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"identity\",\"identity\":{}}") == ATP_E_MSG_TYPE, "J-26: without a time");
}

static void
others(void)
{
	ok(v1("{\"did\":\"" DID_TEXT "\",\"time_us\":5,\"kind\":\"sync\"," IDENTITY "}") == ATP_OK && msg.kind == ATP_REPOS_UNKNOWN && msg.seq == 5,
	   "E-22: version 1 has no #sync");
	ok(v2(V2("other", "\"a\":1")) == ATP_OK && msg.kind == ATP_REPOS_UNKNOWN && msg.seq == 7, "E-22: an unknown kind has a place");
	ok(v2("{\"$type\":\"message\",\"payload\":{\"$type\":\"com.example.stream#commit\"}}") == ATP_OK && msg.kind == ATP_REPOS_UNKNOWN && msg.seq == 0,
	   "E-22: or none; a type of another lexicon is unknown");
	ok(v2("{\"$type\":\"message\",\"payload\":{\"$type\":\"network.bsky.jetstream.subscribeEvents#info\",\"name\":\"OutdatedCursor\",\"message\":\"x\"}}") == ATP_OK &&
	   msg.kind == ATP_REPOS_INFO && msg.seq == 0 && atp_span_is(msg.name, "OutdatedCursor"), "E-42: an #info");
}

int
main(void)
{
	framing();
	commits();
	wrapped();
	others();
	return done_testing();
}
