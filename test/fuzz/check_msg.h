/*
 * check_msg.h
 *		The laws of a subscribeRepos message, whatever the bytes.
 */
#ifndef CHECK_MSG_H
#define CHECK_MSG_H

#include <stdlib.h>

#include "agree.h"
#include "core/wire/commit_check.h"
#include "core/wire/repos_message.h"
#include "protocol/record.h"

#define CHECK_CAP	128

static inline void
check_msg(const AtpFrame *frame, size_t size)
{
	static AtpReposMessage msg;
	AtpCarBlock blocks[CHECK_CAP];
	uint32_t	slots[2 * CHECK_CAP] = {0};
	AtpCarIndex index = {
		.blocks = blocks, .cap = CHECK_CAP, .slots = slots, .nslots = 2 * CHECK_CAP
	};
	size_t		at;
	AtpErr		err = atp_repos_parse(frame, &msg, &at);

	if (err != ATP_OK && at > size)
		abort();
	if (msg.seq < 0 || msg.seq >= ATP_SEQ_LIMIT)
		abort();
	if (err != ATP_OK)
		return;
	if (msg.kind != ATP_REPOS_UNKNOWN && msg.kind != ATP_REPOS_INFO && msg.seq == 0)
		abort();
	for (unsigned i = 0; i < msg.nops; i++)
	{
		const AtpOp *op = &msg.ops[i];

		if (op->collection.len + 1 + op->rkey.len != op->path.len ||
			(op->action == ATP_DELETE) != (op->cid.ptr == NULL))
			abort();
	}
	if (msg.kind != ATP_REPOS_COMMIT && msg.kind != ATP_REPOS_SYNC)
		return;
	err = atp_commit_check(&msg, &index, agree_sha256, &msg.blocks, &at);
	if (err != ATP_OK)
	{
		if (at > msg.blocks.len)
			abort();
		return;
	}
	for (unsigned i = 0; i < msg.nops; i++)
	{
		const AtpCarBlock *block = msg.ops[i].block;

		if ((block == NULL) != (msg.ops[i].action == ATP_DELETE))
			abort();
		if (block != NULL)
			(void) atp_record_check(block->data.ptr, block->data.len, &at);
	}
}

#endif							/* CHECK_MSG_H */
