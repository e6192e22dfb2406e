/*
 * commit.h
 *		A commit in the making: operations on an account's repository, and then
 *		the #commit message that tells of them.
 */
#ifndef SIM_COMMIT_H
#define SIM_COMMIT_H

#include "core/codec/cbor_write.h"
#include "network.h"

#define BATCH_MAX	10			/* operations of one commit */

/* Makes a commit with so many operations; the first is of this kind. */
extern void commit_write(Network *net, Account *account, Kind kind, unsigned nops, AtpCborWriter *frame);

/* Of who has just joined: a profile, and whom it follows at once. */
extern void commit_first(Network *net, Account *account, AtpCborWriter *frame);

/*
 * A new revision: of the tree as it is, or of one that has lost a record without
 * a #commit.
 */
extern void sync_write(Network *net, Account *account, AtpCborWriter *frame);

#endif							/* SIM_COMMIT_H */
