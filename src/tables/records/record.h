/*
 * record.h
 *		The table record: records are put, removed, and go with their accounts.
 */
#ifndef ATP_RECORD_H
#define ATP_RECORD_H

#include "tables/base/sink.h"

/* Statements of the table. */
typedef enum AtpRecordStatement
{
	ATP_PUT_RECORDS,
	ATP_CREATE_RECORDS,				/* that are not there */
	ATP_PUT_OLDER_RECORDS,			/* the same, but never over what is as new */
	ATP_DELETE_RECORDS,				/* keys, rev[]: not what is newer */
	ATP_DELETE_OLDER_RECORDS,
	ATP_OLD_RECORDS,				/* keys, n[] -> n, rev, cid, value, raw where there is no value, of those that exist */
	ATP_LAST_REV,					/* did -> the newest rev of its records */
	ATP_ERASE_RECORDS,				/* at most so many, did, up to rev */
	ATP_ERASE_RECORDS_TOLD,			/* and seq */
	ATP_PURGE_RECORDS,				/* at most so many, of any repository to be purged */
	ATP_PURGE_RECORDS_TOLD,
	ATP_UNDO_RECORDS,
	ATP_UNDO_RECORDS_TOLD,
	ATP_LOCK_RECORD,				/* -> rev */
	ATP_FIND_RECORD,				/* likewise, but not locked */
	ATP_FORCE_RECORDS,				/* put them, whatever is there */
	/* a repository's rows in order */
	ATP_FIRST_COLLECTION,			/* did -> collection */
	ATP_NEXT_COLLECTION,			/* did, the one before */
	ATP_ROWS_OF,					/* did, collection -> rkey, cid */
	ATP_ROWS_AFTER					/* and rkey */
} AtpRecordStatement;

/* Operations that wait to be written together. */
typedef struct AtpRecords AtpRecords;

/* For at most n of them between two flushes. */
extern AtpRecords *atp_records_begin(AtpApply *a, int n);

/* In the order of the events; again: it is read again. */
extern void atp_records_queue(AtpRecords *r, const AtpRecordRow *row, int64 seq, bool again);
extern void atp_records_flush(AtpRecords *r);

/* The newest revision of a repository's records; false: there are none. */
extern bool atp_records_last_rev(AtpApply *a, struct varlena *did, uint64 *rev);

/* Remove some of the records up to a revision, of a deleted account; with the event that said so. */
extern void atp_records_erase(AtpApply *a, struct varlena *did, uint64 rev, int64 seq);

/* Remove those up to a revision that were indexed since then: a refill wrote them, which has come to an event that breaks its chain. */
extern void atp_records_undo(AtpApply *a, struct varlena *did, uint64 rev, TimestampTz since, int64 seq);

/* Remove some of those that are left to be purged; false: there are none. */
extern bool atp_records_purge(AtpApply *a);

/* What is there of a record, which is locked then: ATP_STANDING_NEW, _OBSOLETE or _MISSING. */
extern AtpStanding atp_record_standing(AtpApply *a, const AtpRecordRow *row);

/* May something that a commit has done, before the newest one, be missing in the table?  What was removed since looks so, too. */
extern bool atp_records_lack(AtpApply *a, const AtpEvent *event);

#endif							/* ATP_RECORD_H */
