/*
 * one_go.h
 *		What atp_repos_read_commit() takes is what the general readers take, and as
 *		what they do.
 */
#ifndef ONE_GO_H
#define ONE_GO_H

#include "core/wire/repos_message.h"

/* The same bytes at the same place. */
#define SAME(a, b)	((a).ptr == (b).ptr && (a).len == (b).len)

static inline bool
same_op(const AtpOp *a, const AtpOp *b)
{
	return a->action == b->action && SAME(a->path, b->path) && SAME(a->collection, b->collection) &&
		SAME(a->rkey, b->rkey) && SAME(a->cid, b->cid) && SAME(a->prev, b->prev) && a->block == b->block;
}

static inline bool
same_message(const AtpReposMessage *a, const AtpReposMessage *b)
{
	for (unsigned i = 0; i < a->nops && i < b->nops; i++)
	{
		if (!same_op(&a->ops[i], &b->ops[i]) || a->order[i] != b->order[i])
			return false;
	}
	return a->kind == b->kind && a->seq == b->seq && SAME(a->did, b->did) && SAME(a->time, b->time) &&
		a->rev == b->rev && a->has_since == b->has_since && a->since == b->since && SAME(a->commit, b->commit) &&
		SAME(a->data, b->data) && SAME(a->block, b->block) && SAME(a->prev_data, b->prev_data) &&
		SAME(a->blocks, b->blocks) && SAME(a->handle, b->handle) && a->active == b->active &&
		SAME(a->status, b->status) && SAME(a->name, b->name) && SAME(a->message, b->message) && a->nops == b->nops;
}

static inline bool
same_frame(const AtpFrame *a, const AtpFrame *b)
{
	return a->kind == b->kind && a->op_negative == b->op_negative && a->op_u == b->op_u && SAME(a->t, b->t) &&
		SAME(a->payload, b->payload) && a->payload_at == b->payload_at && SAME(a->error, b->error) &&
		SAME(a->message, b->message);
}

#undef SAME

/* Whatever the bytes; *taken: they are the frame of a #commit in its usual shape. */
static inline bool
one_go_agrees(const uint8_t *buf, size_t len, bool *taken)
{
	static AtpReposMessage quick;
	static AtpReposMessage msg;
	AtpFrame	quick_frame;
	AtpFrame	frame;
	size_t		at;

	*taken = atp_repos_read_commit(buf, len, &quick_frame, &quick);
	return !*taken ||
		(atp_frame_parse(buf, len, &frame, &at) == ATP_OK && same_frame(&quick_frame, &frame) &&
		 atp_repos_parse(&frame, &msg, &at) == ATP_OK && same_message(&quick, &msg));
}

#endif							/* ONE_GO_H */
