/*
 * record.h
 *		The table record: records are put, removed, and removed with their accounts.
 */
#ifndef ATP_RECORD_H
#define ATP_RECORD_H

#include "tables/base/sink.h"

/* Statements on the table record. */
typedef enum AtpRecordStatement
{
	ATP_PUT_RECORDS,
	ATP_CREATE_RECORDS,			/* plain INSERT, for keys the table does not have */
	ATP_PUT_OLDER_RECORDS,		/* ATP_PUT_RECORDS, but not over an equal revision */
	ATP_PUT_CHANGED_RECORDS,	/* ATP_PUT_RECORDS, but not over an equal row */
	ATP_DELETE_RECORDS,			/* keys, rev[]: deletes no newer record */
	ATP_DELETE_OLDER_RECORDS,
	ATP_OLD_RECORDS,			/* keys, n[] -> n, rev, cid, value, raw where value is null, of existing records */
	ATP_LAST_REV,				/* did -> the newest rev of the repository's records */
	ATP_ERASE_RECORDS,			/* limit, did, rev: deletes records up to rev */
	ATP_ERASE_RECORDS_TOLD,		/* limit, did, rev, seq: returns the deleted records, too */
	ATP_PURGE_RECORDS,			/* limit: deletes records of any repository to be purged */
	ATP_PURGE_RECORDS_TOLD,
	ATP_UNDO_RECORDS,
	ATP_UNDO_RECORDS_TOLD,
	ATP_LOCK_RECORD,			/* key -> rev, and locks the record */
	ATP_FIND_RECORD,			/* key -> rev, without a lock */
	ATP_FORCE_RECORDS,			/* put records over any revision */
	/* the rows of a repository in key order */
	ATP_FIRST_COLLECTION,		/* did -> collection */
	ATP_NEXT_COLLECTION,		/* did, the collection before -> collection */
	ATP_ROWS_OF,				/* did, collection -> rkey, cid */
	ATP_ROWS_AFTER				/* did, collection, rkey before -> rkey, cid */
} AtpRecordStatement;

/* Operations on records, collected to be written together. */
typedef struct AtpRecords AtpRecords;

/* For at most n operations between two flushes. */
extern AtpRecords *atp_records_begin(AtpApply *a, int n);

/* Queue an operation, in the order of the events.  again: the event is read again. */
extern void atp_records_queue(AtpRecords *r, const AtpRecordRow *row, int64 seq, bool again);
extern void atp_records_flush(AtpRecords *r);

/* Has the repository a record? */
extern bool atp_records_any(AtpApply *a, struct varlena *did);

/* The newest revision of a repository's records; false: no record. */
extern bool atp_records_last_rev(AtpApply *a, struct varlena *did, uint64 *rev);

/* Remove some records of a deleted account up to a revision; seq is the event of the deletion. */
extern void atp_records_erase(AtpApply *a, struct varlena *did, uint64 rev, int64 seq);

/* Remove all records of a deleted account up to a revision, however many. */
extern void atp_records_erase_all(AtpApply *a, struct varlena *did, uint64 rev, int64 seq);

/*
 * Remove at most so many records of the account, of any revision, and tell the derived tables of each of these
 * subscriptions.  Returns how many; sets a->sub.
 */
extern uint64 atp_records_forget(AtpApply *a, struct varlena *did, int64 max, const List *subs);

/*
 * Remove records up to a revision, of a repository without a commit, or newer than the last commit: an export that was
 * given up wrote them.  False: more are left, because a batch may not take minutes.
 */
extern bool atp_records_erase_export(AtpApply *a, struct varlena *did, uint64 rev, int64 seq);

/*
 * Remove records up to a revision that were indexed since a time: a refill wrote them, and has then come to an event
 * that breaks the chain of commits.
 */
extern void atp_records_undo(AtpApply *a, struct varlena *did, uint64 rev, TimestampTz since, int64 seq);

/* Remove some of the records due to be purged; false: no record is left. */
extern bool atp_records_purge(AtpApply *a);

/* Lock the record of a key and compare it with row: ATP_STANDING_NEW, _OBSOLETE or _MISSING. */
extern AtpStanding atp_record_standing(AtpApply *a, const AtpRecordRow *row);

/*
 * May the table lack an effect of this commit, which precedes the repository's newest commit?  A record that a later
 * commit has removed counts as lacking, too.
 */
extern bool atp_records_lack(AtpApply *a, const AtpEvent *event);

#endif							/* ATP_RECORD_H */
