/*
 * statements.h
 *		The consumer's SQL statements on the data tables, prepared once per
 *		process, and arrays of our types to bind to them.
 */
#ifndef ATP_STATEMENTS_H
#define ATP_STATEMENTS_H

#include "postgres.h"

#include "executor/spi.h"
#include "stream/batch.h"

typedef enum AtpStatement
{
	ATP_SQL_LOCK_REPOS,			/* did[] -> states, locked in order */
	ATP_SQL_ADD_REPOS,			/* did[] */
	ATP_SQL_SET_REPOS,			/* did[] and the other columns of ATP_SQL_LOCK_REPOS */
	ATP_SQL_PUT_RECORDS,
	ATP_SQL_DELETE_RECORDS,		/* did[], collection[], rkey[], rev[]: not what is newer */
	ATP_SQL_PUT_OLDER_RECORDS,	/* the same, but never over what is as new */
	ATP_SQL_DELETE_OLDER_RECORDS,
	ATP_SQL_OLD_RECORDS,		/* did[], collection[], rkey[], n[] -> n, rev, cid, value of those that exist */
	ATP_SQL_LAST_REV,			/* did -> the newest rev of its records */
	ATP_SQL_ERASE_RECORDS,		/* at most so many, did, up to rev */
	ATP_SQL_ERASE_KEEP,			/* and subscription, seq: with events */
	ATP_SQL_ERASE_HAND,
	ATP_SQL_LEAVE_TO_PURGE,		/* did, rev, seq: when there are any left up to it */
	ATP_SQL_PURGE_RECORDS,		/* at most so many, of any repository to be purged */
	ATP_SQL_PURGE_KEEP,			/* and subscription: with events */
	ATP_SQL_PURGE_HAND,
	ATP_SQL_LOCK_PURGED,
	ATP_SQL_PURGE_DONE,
	ATP_SQL_LOCK_RECORD,		/* -> rev */
	ATP_SQL_MARK_REPOS,			/* did[]: not in step with the network */
	ATP_SQL_ADD_EVENTS,
	ATP_SQL_HAND_EVENTS,
	ATP_SQL_TAKE_EVENTS,
	ATP_SQL_PUT_LABELS,
	ATP_SQL_ADD_MESSAGES,
	ATP_SQL_COUNT_LETTERS,		/* -> letters, bytes */
	ATP_SQL_COUNT_LETTERS_OF,	/* did -> likewise */
	ATP_SQL_FIND_FRAME,			/* digest */
	ATP_SQL_ADD_FRAME,
	ATP_SQL_REPEAT_LETTER,
	ATP_SQL_ADD_LETTER,
	ATP_SQL_REPEAT_BEYOND,		/* did, seq, how many */
	ATP_SQL_ADD_BEYOND,
	ATP_SQL_FORGET_LETTERS,		/* of records that are removed: did[], path[], seq[] */
	ATP_SQL_ADD_GAP,
	ATP_SQL_LOCK_CURSOR,		/* subscription, endpoint, shard: if nobody else has it */
	ATP_SQL_LOCK_SUBSCRIPTION,	/* subscription: likewise */
	ATP_SQL_FIND_CURSOR,		/* subscription, endpoint, shard: without a lock */
	ATP_SQL_AWAIT_CURSOR,		/* as ATP_SQL_LOCK_CURSOR: both, waiting */
	ATP_SQL_MOVE_CURSOR,
	ATP_SQL_COUNT
} AtpStatement;

/* Columns of parameters that are arrays of a type of ours. */
typedef enum AtpArrayType
{
	ATP_ARRAY_DID,
	ATP_ARRAY_NSID,
	ATP_ARRAY_RKEY,
	ATP_ARRAY_CID,
	ATP_ARRAY_TID,
	ATP_ARRAY_HANDLE,
	ATP_ARRAY_OURS,				/* so many are the extension's */
	ATP_ARRAY_JSONB = ATP_ARRAY_OURS,
	ATP_ARRAY_BYTEA,
	ATP_ARRAY_BOOL,
	ATP_ARRAY_TEXT,
	ATP_ARRAY_INT4,
	ATP_ARRAY_INT8,
	ATP_ARRAY_TIMESTAMP,
	ATP_ARRAY_COUNT
} AtpArrayType;

/*
 * Which schema's tables the statements are about, from now on.  Forgets all plans
 * and types that are remembered from before, so it is an ERROR while somebody
 * uses them: a process has one set.  A consumer keeps it; an SQL function gives it
 * back, also after an ERROR.
 */
extern void atp_statements_target(const char *schema);
extern void atp_statements_release(void);

/* What of the target schema a subscription uses. */
#define ATP_USE_REPOS		1	/* record, repo */
#define ATP_USE_EVENTS		2	/* record_event */
#define ATP_USE_LABELS		4
#define ATP_USE_MESSAGES	8

/*
 * ERROR if one of these tables is missing, or a column or key that the statements
 * need, or if the current user lacks a privilege on one.
 */
extern void atp_statements_check(int uses);

/* Run one; ERROR unless it succeeds.  Needs an open SPI connection.  Returns SPI_processed. */
extern uint64 atp_execute(AtpStatement statement, Datum *values, const char *nulls);

/*
 * Whether the table itself is what it reads or writes: not when an extension
 * plans it, which may keep the rows elsewhere.  ERROR if the current user may not
 * run it, as from the executor.  Locks the table.
 */
extern bool atp_statement_is_ordinary(AtpStatement statement);

/* A data table of the target schema; InvalidOid: there is none. */
extern Oid	atp_target_table(const char *name);

/* The type of the elements. */
extern Oid	atp_array_element(AtpArrayType type);

/* An array Datum of n elements; nulls may be NULL. */
extern Datum atp_array(AtpArrayType type, Datum *values, bool *nulls, int n);

/* A statement that inserts into record_event, and the rows removed again: how many. */
extern uint64 atp_hand_over(AtpStatement statement, Datum *args);

#endif							/* ATP_STATEMENTS_H */
