/*
 * table_repo.h
 *		The statements on the table repo.  Private to src/tables/repos.
 *
 * repo.c runs the statements for the states of a batch, repo_marks.c those for marks.
 */
#ifndef ATP_TABLE_REPO_H
#define ATP_TABLE_REPO_H

#include "tables/base/table.h"

/* At most this many columns are read with a row. */
#define ATP_REPO_COLUMNS_MAX	40

/* Indexes in atp_repo_table.statements. */
typedef enum AtpRepoStatement
{
	ATP_LOCK_REPOS,				/* did[] -> states, locked in order */
	ATP_ADD_REPOS,				/* did[] */
	ATP_SET_REPOS,
	ATP_MARK_REPO,				/* did: set sync to desynchronized */
	ATP_LOCK_FREE_REPOS,		/* did[] -> did: lock the rows without waiting, skip locked rows */
	ATP_MARK_DROPPED,			/* did[] -> did */
	ATP_MARK_LETTERED,			/* did[], did[] with letters of an export -> did */
	ATP_LEAVE_TO_PURGE,			/* did, rev, seq: if the table record has a record up to rev */
	ATP_LOCK_PURGED,
	ATP_END_PURGE,
	ATP_IS_PURGED,				/* did */
	ATP_FIND_PURGED,			/* did[] -> did, purge_rev, purge_seq */
	ATP_FORGET_PURGE,			/* did */
	ATP_FIND_HOLDING,			/* did[] or null -> did: repositories that may have held events */
	ATP_FIND_RELEASED,			/* did[] or null -> did */
	ATP_LOCK_HOLDING,			/* did[] */
	ATP_END_HOLD,				/* did[] */
	ATP_FORGET_REPOS			/* did[]: delete rows without information */
} AtpRepoStatement;

#endif							/* ATP_TABLE_REPO_H */
