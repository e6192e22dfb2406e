/*
 * repos_commit.c
 *		Reads the frame of a #commit in the shape in which servers send it, in
 *		one pass.  Any other frame is left to repos_message.c, which must give
 *		the same result.
 */
#include <stddef.h>

#include "core/syntax/did.h"
#include "core/repo/path.h"
#include "core/wire/repos_message.h"
#include "core/codec/shape.h"
#include "core/syntax/tid.h"
#include "core/syntax/utf8.h"

#define HEADER	"\xa2\x61t\x67#commit\x62op\x01"

static bool
read_tid(AtpShape *s, uint64_t *tid)
{
	AtpSpan		text;
	size_t		at;

	return atp_shape_text(s, &text) && atp_tid_parse(text.ptr, text.len, tid, &at) == ATP_OK;
}

/* Reads a text without U+0000. */
static bool
read_text(AtpShape *s, AtpSpan *text)
{
	AtpBytes	bytes;
	bool		has_nul = false;

	if (!atp_shape_string(s, 3, &bytes) ||
		(!atp_is_short_plain(bytes.ptr, bytes.len) && atp_utf8_valid(bytes.ptr, bytes.len, &has_nul) != bytes.len))
		return false;
	*text = (AtpSpan) {(const char *) bytes.ptr, bytes.len};
	return !has_nul;
}

/* Reads cid and path, perhaps prev, and action. */
static bool
read_op(AtpShape *s, AtpOp *op)
{
	uint64_t	pairs;

	*op = (AtpOp) {0};
	if (!atp_shape_head(s, 5, &pairs) ||
		!ATP_SHAPE_IS(s, "\x63" "cid") || (!ATP_SHAPE_IS(s, "\xf6") && !atp_shape_link(s, &op->cid)) ||
		!ATP_SHAPE_IS(s, "\x64path") || !atp_shape_text(s, &op->path))
		return false;
	if (pairs == 4 ?
		!ATP_SHAPE_IS(s, "\x64prev") || (!ATP_SHAPE_IS(s, "\xf6") && !atp_shape_link(s, &op->prev)) :
		pairs != 3)
		return false;
	if (ATP_SHAPE_IS(s, "\x66" "action\x66" "create"))
		op->action = ATP_CREATE;
	else if (ATP_SHAPE_IS(s, "\x66" "action\x66update"))
		op->action = ATP_UPDATE;
	else if (ATP_SHAPE_IS(s, "\x66" "action\x66" "delete"))
		op->action = ATP_DELETE;
	else
		return false;
	/* atp_path_split() accepts only ASCII: no check of UTF-8 is needed. */
	return atp_path_split(op->path, &op->collection, &op->rkey) == ATP_OK;
}

static bool
read_ops(AtpShape *s, AtpReposMessage *msg)
{
	uint64_t	n;

	if (!atp_shape_head(s, 4, &n) || n > ATP_OPS_MAX)
		return false;
	while (msg->nops < n)
	{
		if (!read_op(s, &msg->ops[msg->nops]) || atp_repos_add_op(msg) != ATP_OK)
			return false;
	}
	return true;
}

static bool
read_seq(AtpShape *s, int64_t *seq)
{
	uint64_t	u;

	if (!atp_shape_head(s, 0, &u) || u < 1 || u >= (uint64_t) ATP_SEQ_LIMIT)
		return false;
	*seq = (int64_t) u;
	return true;
}

static bool
read_did(AtpShape *s, AtpSpan *did)
{
	size_t		at;

	return atp_shape_text(s, did) && atp_did_check(did->ptr, did->len, &at) == ATP_OK;
}

static bool
read_blocks(AtpShape *s, AtpBytes *blocks)
{
	return atp_shape_string(s, 2, blocks) && blocks->len <= ATP_BLOCKS_MAX;
}

/* A boolean that no reader needs any more: rebase, tooBig. */
static bool
read_flag(AtpShape *s)
{
	return ATP_SHAPE_IS(s, "\xf4") || ATP_SHAPE_IS(s, "\xf5");
}

bool
atp_repos_read_commit(const uint8_t *buf, size_t len, AtpFrame *frame, AtpReposMessage *msg)
{
	AtpShape	s = {buf, buf + len};
	uint64_t	pairs;
	uint64_t	found = 10;

	if (len > ATP_FRAME_MAX || !ATP_SHAPE_IS(&s, HEADER))
		return false;
	memset(msg, 0, offsetof(AtpReposMessage, ops));
	msg->kind = ATP_REPOS_COMMIT;
	*frame = (AtpFrame) {
		.kind = ATP_FRAME_MESSAGE,
		.op_u = 1,
		.t = {(const char *) buf + 4, sizeof("#commit") - 1},
		.payload = {s.p, (size_t) (s.end - s.p)},
		.payload_at = sizeof(HEADER) - 1
	};

	/* The order of the literals is the order of keys in DAG-CBOR: by length, then bytes. */
	if (!atp_shape_head(&s, 5, &pairs) ||
		!ATP_SHAPE_IS(&s, "\x63ops") || !read_ops(&s, msg) ||
		!ATP_SHAPE_IS(&s, "\x63rev") || !read_tid(&s, &msg->rev) ||
		!ATP_SHAPE_IS(&s, "\x63seq") || !read_seq(&s, &msg->seq) ||
		!ATP_SHAPE_IS(&s, "\x64repo") || !read_did(&s, &msg->did) ||
		!ATP_SHAPE_IS(&s, "\x64time") || !read_text(&s, &msg->time) ||
		!ATP_SHAPE_IS(&s, "\x65" "blobs\x80") ||
		!ATP_SHAPE_IS(&s, "\x65since"))
		return false;
	if (!ATP_SHAPE_IS(&s, "\xf6"))
	{
		if (!read_tid(&s, &msg->since))
			return false;
		msg->has_since = true;
	}
	if (!ATP_SHAPE_IS(&s, "\x66" "blocks") || !read_blocks(&s, &msg->blocks) ||
		!ATP_SHAPE_IS(&s, "\x66" "commit") || !atp_shape_node_link(&s, &msg->commit) ||
		!ATP_SHAPE_IS(&s, "\x66rebase") || !read_flag(&s))
		return false;
	if (ATP_SHAPE_IS(&s, "\x66tooBig"))
	{
		if (!read_flag(&s))
			return false;
		found++;
	}
	if (ATP_SHAPE_IS(&s, "\x68prevData"))
	{
		if (!atp_shape_node_link(&s, &msg->prev_data))
			return false;
		found++;
	}
	return pairs == found && s.p == s.end && atp_repos_check_ops(msg) == ATP_OK;
}
