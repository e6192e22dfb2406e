/*
 * blocked.h
 *		Blocked accounts: rows of atproto.blocked_account, of which no process makes a row in the target again.
 *
 * Each process keeps the whole table in memory, and reads the table again after a change (atp_blocks_changed()).  erase()
 * commits the row of the account, and then waits for the transactions that have the target's tables locked as writers.  A
 * later transaction locks the tables first, which takes in the message of the change, and then asks this file.  So a process
 * that asks with the tables locked either sees the block, or is waited for.
 */
#ifndef ATP_BLOCKED_H
#define ATP_BLOCKED_H

#include "postgres.h"

#include "tables/base/sink.h"

/* Is the account blocked in the target?  The caller has locked the table repo or label of the target as a writer does. */
extern bool atp_is_blocked(const char *target, const struct varlena *did);

/* The same for a caller without such a lock: takes the lock on the table repo first. */
extern bool atp_is_blocked_now(const char *target, const struct varlena *did);

/* The same as atp_is_blocked(), about the account in a URI or about a DID, as text. */
extern bool atp_subject_is_blocked(const char *target, const text *subject);

/* SQL: the account in the URI of label x, or the DID, as atp_subject_is_blocked() finds it. */
#define ATP_SQL_LABEL_SUBJECT \
	"split_part(split_part(split_part(CASE WHEN starts_with(x.uri, 'at://') THEN substr(x.uri, 6) ELSE x.uri END, '/', 1), '#', 1), '?', 1)"

/* Is any account blocked, in any target? */
extern bool atp_blocks_any(void);

/*
 * Pass over the events of blocked accounts from a->lo on, their dead letters, and labels by or about these accounts.  Counted
 * in the skips of the batch.  The function locks the tables of the target first, in a transaction that has not locked them.
 */
extern void atp_blocks_apply(AtpApply *a);

#endif							/* ATP_BLOCKED_H */
