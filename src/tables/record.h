/*
 * record.h
 *		Events into tables: repository states and records.  See AtpFamily in stream/family.h.
 */
#ifndef ATP_TABLES_RECORD_H
#define ATP_TABLES_RECORD_H

#include "stream/family.h"

extern void atp_apply_repos(Apply *a, int lo, int hi);
extern bool atp_accepts_repos(Apply *a, int event);
extern void atp_apply_repos_row(Apply *a, int row, int event);
extern void atp_apply_repos_rest(Apply *a, int event, int unused);
extern AtpSpan atp_name_repos(const AtpEvent *event);
extern void atp_settle_repos(Apply *a);

/* Some records of accounts that were deleted; false when none are left. */
extern bool atp_purge_repos(const AtpSubscription *sub);

#endif							/* ATP_TABLES_RECORD_H */
