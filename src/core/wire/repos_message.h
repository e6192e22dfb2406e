/*
 * repos_message.h
 *		Parser of the messages of com.atproto.sync.subscribeRepos (F-01 to F-15), in place from a frame's
 *		payload.  Blocks and signatures are checked elsewhere (commit_check.h, sig.h).
 */
#ifndef ATP_REPOS_MESSAGE_H
#define ATP_REPOS_MESSAGE_H

#include "core/atp.h"
#include "core/repo/car.h"
#include "core/codec/field.h"
#include "core/wire/frame.h"

#define ATP_NSID_REPOS		"com.atproto.sync.subscribeRepos"
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
	AtpReposKind kind;
	int64_t		seq;			/* 0 for #info, and for unknown messages without a seq */
	AtpSpan		did;			/* "repo" of a #commit, "did" of other messages */
	AtpSpan		time;
	/* #commit, #sync */
	uint64_t	rev;
	bool		has_since;
	uint64_t	since;
	AtpBytes	commit;			/* binary CID */
	AtpBytes	data;			/* MST root, set by atp_commit_check() */
	AtpBytes	block;			/* the signed commit, set by atp_commit_check(): of this account and revision */
	AtpBytes	sig;			/* O-02: the signature in it */
	bool		plain;			/* AtpCommit.plain of the block */
	AtpBytes	prev_data;		/* ptr NULL when absent */
	AtpBytes	blocks;
	/* #identity: ptr NULL when absent */
	AtpSpan		handle;
	/* #account */
	bool		active;			/* decides, whatever status says (D29) */
	AtpSpan		status;			/* any text (D26); a text longer than ATP_STATUS_MAX bytes counts as absent */
	/* #info */
	AtpSpan		name;
	AtpSpan		message;
	unsigned	nops;
	AtpOp		ops[ATP_OPS_MAX];
	uint8_t		order[ATP_OPS_MAX]; /* numbers of the operations, in the order of their paths */
} AtpReposMessage;

_Static_assert(ATP_OPS_MAX <= UINT8_MAX + 1, "an operation's number fits into a byte");

/*
 * Parse the payload of a frame of kind ATP_FRAME_MESSAGE.
 *
 * msg->kind is set first.  msg->seq is set whenever the message has a valid seq, also when an error is
 * returned.  ATP_E_SEQ_MISSING and ATP_E_SEQ_RANGE are fatal to the connection (E-40, E-50).  Every other
 * error rejects only this message (E-50), and its dead letter uses msg->kind, and seq and did as far as they
 * could be read.  *at counts from the frame's start.
 */
extern AtpErr atp_repos_parse(const AtpFrame *frame, AtpReposMessage *msg, size_t *at);

/*
 * Parses an event that another stream has wrapped.  The event's own seq means nothing in this other stream,
 * and may be any number: servers send 0 in events that they have made themselves.
 */
extern AtpErr atp_repos_parse_wrapped(const AtpFrame *frame, AtpReposMessage *msg, size_t *at);

/*
 * Reads a whole frame, like atp_frame_parse() and atp_repos_parse() together, if it is a #commit in the shape
 * in which servers send it.  False: another shape, or a fault.  Then frame and msg are undefined, and the
 * caller must call these two functions.
 */
extern bool atp_repos_read_commit(const uint8_t *buf, size_t len, AtpFrame *frame, AtpReposMessage *msg);

/* Counts the operation at msg->ops[msg->nops]; an error if its path is repeated. */
extern AtpErr atp_repos_add_op(AtpReposMessage *msg);

/*
 * F-07: create has a cid and no prev, update has both, delete has only a prev.  Events from before prevData
 * had no prev at all (F-09).
 */
extern AtpErr atp_repos_check_ops(const AtpReposMessage *msg);

/* Reads only a #commit's "ops", as DAG-CBOR, into msg->ops.  *at counts from the start of buf. */
extern AtpErr atp_repos_parse_ops(const uint8_t *buf, size_t n, AtpReposMessage *msg, size_t *at);

#endif							/* ATP_REPOS_MESSAGE_H */
