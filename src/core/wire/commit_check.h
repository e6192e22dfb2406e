/*
 * commit_check.h
 *		Checks the blocks of a #commit or #sync message against its signed commit and its operations.  The
 *		signature itself is not verified here: see sig.h.
 */
#ifndef ATP_COMMIT_CHECK_H
#define ATP_COMMIT_CHECK_H

#include "core/repo/car.h"
#include "core/repo/invert.h"
#include "core/wire/repos_message.h"

/*
 * F-01, F-02, F-07: reads msg->blocks into index, which must be empty; checks every block's hash; finds the
 * signed commit and compares its did and rev with the message's.  Sets msg->data, msg->block and each op's
 * block.  *at counts from the start of msg->blocks.
 */
extern AtpErr atp_commit_check(AtpReposMessage *msg, AtpCarIndex *index,
							   AtpSha256Fn sha256, void *ctx, size_t *at);

/*
 * As atp_commit_check(), and V-18: with an inversion that was begun, finds out in the same walk whether the
 * operations lead from msg->prev_data to msg->data.
 */
extern AtpErr atp_commit_invert(AtpReposMessage *msg, AtpCarIndex *index, AtpInversion *inversion,
								AtpSha256Fn sha256, void *ctx, size_t *at);

#endif							/* ATP_COMMIT_CHECK_H */
