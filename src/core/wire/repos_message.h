/*
 * repos_message.h
 *		The messages of com.atproto.sync.subscribeRepos (F-01 to F-15):
 *		parsed in place from a frame's payload, then checked.
 */
#ifndef ATP_REPOS_MESSAGE_H
#define ATP_REPOS_MESSAGE_H

#include "core/atp.h"
#include "core/repo/car.h"
#include "core/codec/field.h"
#include "core/wire/frame.h"

#define ATP_OPS_MAX			200 /* F-01 */
#define ATP_BLOCKS_MAX		2000000 /* bytes of #commit.blocks */

typedef enum AtpReposKind
{
	ATP_REPOS_UNKNOWN,			/* unknown t: ignored (E-22) */
	ATP_REPOS_COMMIT,
	ATP_REPOS_SYNC,
	ATP_REPOS_IDENTITY,
	ATP_REPOS_ACCOUNT,
	ATP_REPOS_INFO
} AtpReposKind;

typedef enum AtpAction
{
	ATP_CREATE,
	ATP_UPDATE,
	ATP_DELETE
} AtpAction;

typedef struct AtpOp
{
	AtpAction	action;
	AtpSpan		path;			/* collection '/' rkey */
	AtpSpan		collection;
	AtpSpan		rkey;
	AtpBytes	cid;			/* binary; ptr NULL for delete */
	AtpBytes	prev;			/* binary; ptr NULL when absent */
	const AtpCarBlock *block;	/* set by atp_commit_check() */
} AtpOp;

typedef struct AtpReposMessage
{
	AtpReposKind	kind;
	int64_t		seq;			/* 0 for #info and unknown messages without */
	AtpSpan		did;			/* repo of #commit */
	AtpSpan		time;
	/* #commit, #sync */
	uint64_t	rev;
	bool		has_since;
	uint64_t	since;
	AtpBytes	commit;			/* binary CID */
	AtpBytes	data;			/* MST root, set by atp_commit_check() */
	AtpBytes	block;			/* the signed commit, likewise: of this account and revision */
	AtpBytes	prev_data;		/* ptr NULL when absent */
	AtpBytes	blocks;
	/* #identity: ptr NULL when absent */
	AtpSpan		handle;
	/* #account */
	bool		active;			/* what counts (D29) */
	AtpSpan		status;			/* any text (D26) */
	/* #info */
	AtpSpan		name;
	AtpSpan		message;
	unsigned	nops;
	AtpOp		ops[ATP_OPS_MAX];
	uint8_t		order[ATP_OPS_MAX]; /* their numbers in the order of the tree */
} AtpReposMessage;

_Static_assert(ATP_OPS_MAX <= UINT8_MAX + 1, "an operation's number fits into a byte");

/*
 * Parse the payload of a frame of kind ATP_FRAME_MESSAGE.
 *
 * msg->kind is set first; msg->seq is set whenever the message carries a valid
 * one, also when another error is returned.  ATP_E_SEQ_MISSING and
 * ATP_E_SEQ_RANGE are fatal to the connection (E-40, E-50); every other error
 * rejects this message alone (E-50), and msg->kind, seq and did (when they
 * could be read) serve its dead letter.  *at counts from the frame's start.
 */
extern AtpErr atp_repos_parse(const AtpFrame *frame, AtpReposMessage *msg, size_t *at);

/*
 * Parse an event that another stream has wrapped.  Its seq is nothing to that stream, and any number: 0 in an
 * event that the stream's server has made itself.
 */
extern AtpErr atp_repos_parse_wrapped(const AtpFrame *frame, AtpReposMessage *msg, size_t *at);

/*
 * The same for a whole frame, atp_frame_parse() included, when it is that of a
 * #commit in the shape in which servers send it.  False: it is not, or something is
 * wrong with it, and those two say what; frame and msg are nothing then.
 */
extern bool atp_repos_read_commit(const uint8_t *buf, size_t len, AtpFrame *frame, AtpReposMessage *msg);

/* One more operation, which is behind the last one: its path must not have come before. */
extern AtpErr atp_repos_add_op(AtpReposMessage *msg);

/*
 * F-07: create has a cid and no prev, update has both, delete has a prev
 * alone.  Events from before prevData had no prev either (F-09).
 */
extern AtpErr atp_repos_check_ops(const AtpReposMessage *msg);

/* A #commit's "ops" alone, as DAG-CBOR: sets msg->ops.  *at counts from its start. */
extern AtpErr atp_repos_parse_ops(const uint8_t *buf, size_t n, AtpReposMessage *msg, size_t *at);

#endif							/* ATP_REPOS_MESSAGE_H */
