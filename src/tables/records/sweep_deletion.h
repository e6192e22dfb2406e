/*
 * sweep_deletion.h
 *		The table sweep_deletion: deletions that are kept while a sweep runs (H-43).
 *
 * The row of a record that was deleted is gone, and nothing in the table record tells which facts are older than the deletion.
 * While an archive and other streams fill the same tables, each writer notes deletions here, and passes over older facts.
 *
 * Each function runs in the transaction that has locked the repository's row.
 */
#ifndef ATP_SWEEP_DELETION_H
#define ATP_SWEEP_DELETION_H

#include "config/spi.h"
#include "tables/base/sink.h"
#include "tables/records/record_same.h"

/*
 * Look up n operations.  passed[i]: the record of rows[i], or all records of the account, were deleted at this revision or later, so
 * that a put and a deletion are both known, or of the past.
 */
extern void atp_sweep_find(AtpApply *a, const AtpRecordRow *const *rows, int n, bool *passed);

/* Keep n deletions of records, with distinct keys. */
extern void atp_sweep_keep(AtpApply *a, const AtpRecordRow *const *rows, int n);

/* Keep the deletion of an account: records up to this revision are gone. */
extern void atp_sweep_keep_account(AtpApply *a, struct varlena *did, uint64 rev);

/* The same for the fetcher, which has locked the repository's row. */
extern void atp_sweep_keep_gone(const char *target, AtpArg did, AtpArg rev);

/* Keep a #sync: within the subscription's filter, facts of the account up to this revision count no more. */
extern void atp_sweep_keep_sync(AtpApply *a, struct varlena *did, uint64 rev);

/*
 * Remove the account's records up to this revision, and within the subscription's filter, as a #sync does.  An archive has no
 * record whose collection or key is longer than ATP_ARCHIVE_NAME_MAX bytes, so its #sync says nothing about such a record.  rev
 * ATP_TID_MAX_CANONICAL: of any revision.  same: records that stay.
 */
extern void atp_records_replace(AtpApply *a, struct varlena *did, uint64 rev, int64 seq, AtpSameRecords same);

/* Longest collection, and longest record key, of a row of an archive. */
#define ATP_ARCHIVE_NAME_MAX	255

/* SQL: may an archive have a record with this collection and record key, which are texts, within a filter (atp_sweep_filter())? */
#define ATP_SQL_ARCHIVED(collection, rkey, filter) \
	"octet_length(" collection ") <= " CppAsString2(ATP_ARCHIVE_NAME_MAX) " AND octet_length(" rkey ") <= " CppAsString2(ATP_ARCHIVE_NAME_MAX) \
	" AND (" filter " IS NULL OR EXISTS (SELECT FROM unnest(" filter "::text[]) p" \
	" WHERE p = " collection " OR (right(p, 1) = '*' AND starts_with(" collection ", left(p, -1)))))"

/* The filter of a subscription as the text of an array; NULL: all collections. */
extern text *atp_sweep_filter(const AtpSettings *settings);

/* Empty the table, or remove the deletions kept before a time (DT_NOEND: all); returns their number. */
extern uint64 atp_sweep_empty(AtpStatements *set, TimestampTz before);

/*
 * The accounts with more than n kept deletions of records, at most max of them, in the order of their DIDs; returns their number.
 */
extern int atp_sweep_large(AtpStatements *set, int64 n, struct varlena **dids, int max);

/* Remove the kept deletions of an account's records; returns their number. */
extern uint64 atp_sweep_drop(AtpStatements *set, struct varlena *did);

/* The number of kept deletions, at most max. */
extern int64 atp_sweep_count(AtpStatements *set, int64 max);

#endif							/* ATP_SWEEP_DELETION_H */
