/*
 * test_frame.c
 *		Event-stream frames (E-20, E-21, E-22, E-23, E-24, E-26, E-27), whole and mutilated.
 */
#include "core/codec/json_dagcbor.h"
#include "core/wire/commit_check.h"
#include "core/wire/frame.h"
#include "core/wire/repos_message.h"
#include "hex.h"
#include "repo.h"

static AtpReposMessage msg;

/* A consumer's verdict on a frame, in the words of the vectors. */
static const char *
verdict(const uint8_t *buf, size_t len, AtpErr *err, size_t *at)
{
	AtpFrame	frame;

	*at = 0;
	if ((*err = atp_frame_parse(buf, len, &frame, at)) != ATP_OK)
		return "fatal";
	if (frame.kind == ATP_FRAME_ERROR)
		return "error";
	if (frame.kind == ATP_FRAME_UNKNOWN)
		return "ignore";
	*err = atp_repos_parse(&frame, &msg, at);
	if (*err == ATP_E_SEQ_MISSING || *err == ATP_E_SEQ_RANGE)
		return "fatal";
	if (*err != ATP_OK)
		return "rejected";
	return msg.kind == ATP_REPOS_UNKNOWN ? "ignore" : "message";
}

static void
vector(char *line, size_t n, void *arg)
{
	char	   *expected = field(&line);
	char	   *hex = field(&line);
	AtpBytes	b;
	const char *found;
	AtpErr		err;
	size_t		at;

	if (strcmp(expected, "verdict") == 0)
		return;
	b = unhex(hex);
	found = verdict(b.ptr, b.len, &err, &at);
	ok(strcmp(found, expected) == 0 && at <= b.len, "E-29, E-30: %s: %s, %s", line, found,
	   atp_err_text(err));
	free((void *) b.ptr);
}

static void
check(const char *rule, const char *hex, AtpErr expected, size_t expected_at)
{
	AtpBytes	b = unhex(hex);
	AtpFrame	frame;
	size_t		at = 0;
	AtpErr		err = atp_frame_parse(b.ptr, b.len, &frame, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at), "%s: %s: %s at %zu", rule,
	   show(hex, strlen(hex)), atp_err_text(err), at);
	free((void *) b.ptr);
}

static void
rules(void)
{
	check("E-20", "", ATP_E_FRAME_EMPTY, 0);
	check("E-20", "a2617463" "23696e626f7001", ATP_E_FRAME_NO_PAYLOAD, 11);
	check("E-20", "a2617463" "23696e626f7001" "a0", ATP_OK, 0);
	check("E-20", "a2617463" "23696e626f7001" "a0a0", ATP_E_FRAME_TRAILING, 12);
	check("E-21", "80a0", ATP_E_FRAME_HEADER, 0);
	check("E-21", "a0a0", ATP_E_FRAME_OP, 0);
	check("E-21", "a1626f70f6a0", ATP_E_FRAME_OP, 4);
	check("E-21", "a1626f7001a0", ATP_E_FRAME_T, 0);
	check("E-21", "a2617400626f7001a0", ATP_E_FRAME_T, 0);
	check("E-21", "a2617480626f7001a0", ATP_E_FRAME_T, 0);
	check("E-22, D14", "a1626f7002", ATP_OK, 0);
	check("E-22", "a1626f7002ff00", ATP_OK, 0);
	check("E-22", "a1626f701bffffffffffffffff", ATP_OK, 0);
	check("E-22", "a2617480626f7002", ATP_OK, 0);
	check("E-23", "a36174617861788180626f7001a0", ATP_OK, 0);
	check("E-24", "a1626f7002" "", ATP_OK, 0);
	check("E-26", "a2617461" "23626f700180", ATP_E_FRAME_PAYLOAD, 9);
	check("E-27", "a1626f7020a1656572726f726161", ATP_OK, 0);
	check("E-27", "a1626f7020a0", ATP_E_FRAME_ERROR, 5);
	check("E-27", "a1626f7020a1656572726f7200", ATP_E_FRAME_ERROR, 12);
	check("E-27", "a1626f7020a2656572726f726161676d65737361676500", ATP_E_FRAME_ERROR, 22);
	check("E-27", "a2617480626f7020a1656572726f726161", ATP_OK, 0);
}

/* A depth bomb, in the payload and in the header. */
static void
bombs(void)
{
	size_t		n = 1000000;
	uint8_t    *b = malloc(n);
	AtpFrame	frame;
	size_t		at;

	memset(b, 0x81, n);
	memcpy(b, "\xa2\x61t\x61#\x62op\x01\xa1\x61x", 12);
	ok(atp_frame_parse(b, n, &frame, &at) == ATP_E_CBOR_DEPTH && at < 200,
	   "B-10: arrays without end in the payload");
	memcpy(b, "\xa1\x61x", 3);
	memset(b + 3, 0x81, 12);
	ok(atp_frame_parse(b, n, &frame, &at) == ATP_E_CBOR_DEPTH && at < 200,
	   "B-10: arrays without end in the header");
	free(b);

	/* bytes beyond the limit are not read: they are no CBOR */
	b = malloc(ATP_FRAME_MAX + 1);
	memset(b, 0xff, ATP_FRAME_MAX + 1);
	memcpy(b, "\xa1\x62op\x02", 5);
	ok(atp_frame_parse(b, ATP_FRAME_MAX, &frame, &at) == ATP_OK, "E-11: 5,000,000 bytes");
	ok(atp_frame_parse(b, ATP_FRAME_MAX + 1, &frame, &at) == ATP_E_FRAME_SIZE, "E-11: one more");
	ok(atp_frame_parse_v1(b, ATP_FRAME_MAX + 1, &frame, &at) == ATP_E_FRAME_SIZE, "E-11: one more, in one object");
	free(b);
}

/* Reads a frame in the steps of a consumer. */
static AtpErr
consume(const uint8_t *buf, size_t len, bool *offset_good)
{
	static Index ix;
	AtpFrame	frame;
	size_t		at = 0;
	AtpErr		err;

	if ((err = atp_frame_parse(buf, len, &frame, &at)) == ATP_OK)
	{
		if (frame.kind != ATP_FRAME_MESSAGE)
			err = ATP_E_FRAME_OP;
		else if ((err = atp_repos_parse(&frame, &msg, &at)) == ATP_OK)
		{
			index_clear(&ix);
			err = atp_commit_check(&msg, &ix.index, sha256, NULL, &at);
		}
	}
	*offset_good = at <= len;
	return err;
}

/*
 * Every cut of a valid frame is refused.  Every flipped bit is refused, except in data that the frame itself
 * cannot prove: the digits of seq and time, the digest in prevData, the names of optional fields.
 */
static void
mutilate(void)
{
	static const char *const paths[] = {
		"app.bsky.feed.post/3jt5tsfbx2s2a", "com.example.a/1", "com.example.a/2"
	};
	static Repo repo;
	static uint8_t frame[REPO_ROOM];
	size_t		len;
	size_t		accepted = 0;
	size_t		in_blocks = 0;
	size_t		blocks_at;
	bool		good;
	bool		all_good = true;

	repo_make(&repo, paths, 3);
	len = repo_frame(&repo, paths[1], 1000, frame, sizeof(frame));
	ok(consume(frame, len, &good) == ATP_OK, "a frame of %zu bytes is accepted: %s", len,
	   atp_err_text(consume(frame, len, &good)));
	blocks_at = (size_t) (msg.blocks.ptr - frame);
	ok(msg.seq == 1000 && msg.nops == 1 && msg.ops[0].block != NULL &&
	   msg.data.len == sizeof(repo.root) && memcmp(msg.data.ptr, repo.root, msg.data.len) == 0,
	   "F-02: its commit, tree and record are found");

	for (size_t cut = 0; cut < len; cut++)
	{
		uint8_t    *copy = copy_of(frame, cut);

		accepted += consume(copy, cut, &good) == ATP_OK;
		all_good = all_good && good;
		free(copy);
	}
	ok(accepted == 0, "no cut of it is accepted");
	accepted = 0;
	for (size_t bit = 0; bit < 8 * len; bit++)
	{
		uint8_t    *copy = copy_of(frame, len);

		copy[bit / 8] ^= 1 << bit % 8;
		if (consume(copy, len, &good) == ATP_OK)
		{
			accepted++;
			if (bit / 8 >= blocks_at && bit / 8 < blocks_at + repo.len)
				in_blocks++;
		}
		all_good = all_good && good;
		free(copy);
	}

	/* B-40: the digest of a CID proves the block, and a codec that the protocol does not have is refused */
	ok(in_blocks == 0, "bits of the blocks that may be flipped: %zu", in_blocks);
	ok(accepted < 600, "bits of the frame that may be flipped: %zu", accepted);
	ok(all_good, "every fault lies in the frame");
}

/* E-61: the framing of one object. */
static void
one_object(void)
{
	static const struct
	{
		const char *json;
		AtpErr		err;
		AtpFrameKind kind;
		const char *t;
	}			cases[] = {
		{"{\"$type\":\"message\",\"payload\":{\"$type\":\"com.example.x#commit\",\"seq\":1}}", ATP_OK, ATP_FRAME_MESSAGE, "#commit"},
		{"{\"$type\":\"message\",\"payload\":{\"$type\":\"com.example.x\"},\"more\":[1]}", ATP_OK, ATP_FRAME_MESSAGE, "com.example.x"},
		{"{\"$type\":\"error\",\"error\":\"FutureCursor\",\"message\":\"x\"}", ATP_OK, ATP_FRAME_ERROR, NULL},
		{"{\"$type\":\"heartbeat\",\"payload\":1}", ATP_OK, ATP_FRAME_UNKNOWN, NULL},
		{"{\"$type\":\"error\"}", ATP_E_FRAME_ERROR, ATP_FRAME_ERROR, NULL},
		{"{\"$type\":\"message\"}", ATP_E_FRAME_PAYLOAD, ATP_FRAME_MESSAGE, NULL},
		{"{\"$type\":\"message\",\"payload\":[]}", ATP_E_FRAME_PAYLOAD, ATP_FRAME_MESSAGE, NULL},
		{"{\"$type\":\"message\",\"payload\":{\"seq\":1}}", ATP_E_FRAME_T, ATP_FRAME_MESSAGE, NULL},
		{"{\"$type\":1,\"payload\":{}}", ATP_E_FRAME_OP, ATP_FRAME_UNKNOWN, NULL},
		{"{\"payload\":{}}", ATP_E_FRAME_OP, ATP_FRAME_UNKNOWN, NULL},
		{"{\"op\":1,\"$type\":\"message\",\"t\":\"#x\",\"payload\":{\"$type\":\"x\"}}", ATP_E_FRAME_NO_PAYLOAD, ATP_FRAME_MESSAGE, "#x"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		static uint8_t room[4096];
		AtpBytes	cbor = {NULL, 0};
		AtpFrame	frame;
		size_t		at;
		AtpErr		err = atp_json_to_dagcbor(cases[i].json, strlen(cases[i].json), room, sizeof(room), &cbor, &at);

		err = err == ATP_OK ? atp_frame_parse_any(cbor.ptr, cbor.len, &frame, &at) : err;
		ok(err == cases[i].err && frame.kind == cases[i].kind && at <= cbor.len &&
		   (cases[i].t == NULL ? frame.t.ptr == NULL : frame.t.ptr != NULL && atp_span_is(frame.t, cases[i].t)) &&
		   (err != ATP_OK || frame.kind != ATP_FRAME_MESSAGE ||
			(frame.payload.ptr == cbor.ptr + frame.payload_at && frame.payload.ptr[0] >> 5 == 5)),
		   "E-61: %s: %s", cases[i].json, atp_err_text(err));
		/* a byte less, or one more, is no frame */
		ok(cbor.len == 0 || atp_frame_parse_any(cbor.ptr, cbor.len - 1, &frame, &at) != ATP_OK, "cut");
		memcpy(room, cbor.ptr, cbor.len);
		room[cbor.len] = 0xa0;
		ok(atp_frame_parse_any(room, cbor.len + 1, &frame, &at) != ATP_OK || cases[i].err == ATP_E_FRAME_NO_PAYLOAD, "with something behind");
	}
}

/* S-10: a type may name the Lexicon of another stream. */
static void
lexicons(void)
{
	static const struct
	{
		const char *type;
		bool		own;
	}			cases[] = {
		{"com.example.x#commit", true}, {"#commit", true}, {"com.example.x", true}, {"com.example.y#commit", false},
		{"com.example.x.y#commit", false}, {"com.example.x#a#commit", true}, {"com.example#commit", false}
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		char		json[128];
		static uint8_t room[4096];
		AtpBytes	cbor;
		AtpFrame	frame;
		size_t		at;

		snprintf(json, sizeof(json), "{\"$type\":\"message\",\"payload\":{\"$type\":\"%s\"}}", cases[i].type);
		ok(atp_json_to_dagcbor(json, strlen(json), room, sizeof(room), &cbor, &at) == ATP_OK &&
		   atp_frame_parse_v1(cbor.ptr, cbor.len, &frame, &at) == ATP_OK &&
		   atp_frame_is_of(&frame, "com.example.x") == cases[i].own && atp_span_is(atp_frame_type(&frame), cases[i].type),
		   "S-10: %s is%s of the stream", cases[i].type, cases[i].own ? "" : " not");
	}
	ok(atp_frame_is_of(&(AtpFrame) {.t = {"#commit", 7}}, "com.example.x"), "S-10: a frame of two objects is of its stream");
}

int
main(void)
{
	one_object();
	lexicons();
	each_line(VECTORS "derived/frames.tsv", vector, NULL);
	rules();
	bombs();
	mutilate();
	return done_testing();
}
