/*
 * commit_check.h
 *		The blocks of a #commit or #sync message, checked against its signed
 *		commit and its operations.
 */
#ifndef ATP_COMMIT_CHECK_H
#define ATP_COMMIT_CHECK_H

#include "core/repo/car.h"
#include "core/repo/invert.h"
#include "core/wire/repos_message.h"

/*
 * F-01, F-02, F-07 of a #commit or #sync: reads msg->blocks into index, checks
 * every block's hash, finds the signed commit, compares its did and rev with
 * the message's, sets msg->data and msg->block, and each op's block.  index must be empty.
 * *at counts from the start of msg->blocks.
 */
extern AtpErr atp_commit_check(AtpReposMessage *msg, AtpCarIndex *index,
							   AtpSha256Fn sha256, void *ctx, size_t *at);

/*
 * The same, and V-18: with an inversion that was begun, whether the operations
 * lead from msg->prev_data to msg->data.
 */
extern AtpErr atp_commit_invert(AtpReposMessage *msg, AtpCarIndex *index, AtpInversion *inversion,
								AtpSha256Fn sha256, void *ctx, size_t *at);

#endif							/* ATP_COMMIT_CHECK_H */
