/*
 * repo_parts.h
 *		A transfer that fetches only the subscription's collections (P-30), in place of the whole repository:
 *		the reading of repo_transfer.h.
 *
 * P-20: the records come into the tables like those of an export: the same job, held events, merge and release.  P-21: the
 * commit is compared with the repository's revision before records are fetched.  P-32: a subscription can forbid the whole.
 * Where parts are refused, or the whole is cheaper, the same transfer goes on with the whole repository (P-61), with its
 * job and its held events.
 */
#ifndef ATP_REPO_PARTS_H
#define ATP_REPO_PARTS_H

#include "fetch/repositories/repo_transfer.h"

/*
 * Create the first requests; nothing is sent yet.  The transfer's subscription has been read.  False: the limits forbid a
 * request now.
 */
extern bool atp_parts_start(AtpTransfer *t, long *wait_ms);

/* Read some, or name records whose values are needed.  As atp_transfer_move_on(). */
extern bool atp_parts_read(AtpTransfer *t);

/* Start the request for the whole repository, as soon as the limits allow. */
extern bool atp_parts_start_whole(AtpTransfer *t);

/* The whole repository is good: if the host had refused parts, it is not asked for parts for a day (P-61). */
extern void atp_parts_whole_is_good(const AtpTransfer *t);

#endif							/* ATP_REPO_PARTS_H */
