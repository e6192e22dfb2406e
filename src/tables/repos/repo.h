/*
 * repo.h
 *		The rows of the table repo: read the states of repositories, let events change them, write them.
 *
 * Each function runs within the caller's transaction.  repo_state.h has the state itself.
 */
#ifndef ATP_REPO_H
#define ATP_REPO_H

#include "tables/base/sink.h"

typedef struct AtpRepos AtpRepos;

/* Changes of further tables demanded by an event. */
typedef struct AtpEffect
{
	bool		rows;			/* apply the event's rows */
	bool		reread;			/* these rows were applied before: the event is read again, after atproto.refill() */
	bool		erase;			/* delete all records of the repository */
	bool		has_rev;		/* erase: delete records up to rev; false: up to the newest record */
	uint64		rev;
	bool		replace;		/* H-31, H-43: a #sync: delete the records up to rev within the subscription's filter */
	bool		unkept;			/* H-43: what is deleted need not be kept */
	bool		beyond;			/* erase: newer records, too, which may be of an export that was given up */
	bool		undo;			/* delete the records up to undo_rev that the refill has written: the refill's chain is broken */
	uint64		undo_rev;
	TimestampTz undo_since;		/* when refill() was called */
} AtpEffect;

/*
 * Read the states of the repositories of events [lo, hi), and prepare admission (admission.h).  all: each repository gets its row;
 * false: only those whose events make one (H-34).
 */
extern AtpRepos *atp_repos_load(AtpApply *apply, int lo, int hi, bool all);

/* Keep the verdicts on the events that this transaction has reached already: atp_repos_take() does not judge again. */
extern void atp_repos_judged(AtpRepos *states);

/* Judge an event, which must not be ignored, and change the state of the repository. */
extern AtpEffect atp_repos_take(AtpRepos *states, int event);

/* Where an event stands relative to the state that was read (sink.h). */
extern AtpStanding atp_repos_standing(AtpRepos *states, int event);

/*
 * Write the states; once in a transaction, before any other row.  The transaction that locks a repository's row first
 * may write the repository's records: two consumers would otherwise mix their records.
 */
extern void atp_repos_store(AtpRepos *states);

/* F-15: does the event say that the account was deleted? */
extern bool atp_is_deletion(const AtpEvent *event);

/*
 * SQL, in the SET of an update of rows of the table repo: no refill reads the repository any more.  _BEFORE: for a table of
 * an earlier version, to which create_tables() has not added refill_first.
 */
#define ATP_SQL_NO_REFILL_BEFORE \
	"refill_by = NULL, refill_rev = NULL, refill_data = NULL, refill_sync = NULL, refill_to = NULL, refill_at = NULL"
#define ATP_SQL_NO_REFILL	ATP_SQL_NO_REFILL_BEFORE ", refill_first = NULL"

/* Set sync of the repository's row to desynchronized. */
extern void atp_repo_mark(AtpApply *a, struct varlena *did);

/* Wait for the locks of the repositories' rows, and set sync to desynchronized. */
extern void atp_repo_mark_all(AtpApply *a, struct varlena *const *dids, int n);

/*
 * the caller is about to drop held events of these repositories.  Locks the rows without waiting, removes the
 * DIDs of rows locked elsewhere from dids, and returns the number of locked rows.  Rows with a stored commit, or with
 * hold resync or gap, are set to desynchronized; *marked has the DIDs of these rows, sorted.
 */
extern int	atp_repos_mark_dropped(AtpApply *a, struct varlena **dids, int n, struct varlena ***marked, int *nmarked);

/*
 * Wait for the locks of these rows, then set the rows with a stored commit, or with hold resync or gap, to
 * desynchronized.  *marked has the DIDs of these rows, sorted; returns the number of rows.
 */
extern int	atp_repos_mark_left(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked);

/*
 * Mark repositories with dead letters that are about to be deleted, like atp_repos_mark_left(); *marked has only rows that
 * were not desynchronized before.  exported: those of the repositories with a letter about a record of an export.  A repository without such a
 * letter became synchronized after its letters, or is going to be audited (unproven).
 */
extern int	atp_repos_mark_lettered(AtpApply *a, struct varlena *const *dids, int n, struct varlena *const *exported, int nexported,
									struct varlena ***marked);

/* Delete the repositories' rows, except rows with more information than the DID. */
extern void atp_repos_forget(AtpApply *a, struct varlena *const *dids, int n);

/* Clear hold in the rows of these repositories (NULL: all repositories) if the repository has no held events. */
extern void atp_repos_unhold(AtpApply *a, struct varlena *const *dids, int n);

/* The fetches of these repositories, whose rows the caller has locked, were given up (atp_repo_give_up()). */
extern void atp_repos_give_up(AtpApply *a, struct varlena *const *dids, int n);

/* Find up to max repositories with hold = release that the subscription follows; returns their number. */
extern int	atp_repos_released(const AtpSubscription *sub, AtpStatements *set, struct varlena **dids, int max);

/* Leave the repository's records up to rev to atp_purge(); false: there are no such records, so nothing is left to do. */
extern bool atp_repo_leave_to_purge(AtpApply *a, const AtpEvent *event, uint64 rev);

/* Clear purge_rev of the repositories whose records up to purge_rev are all deleted. */
extern void atp_repo_end_purge(AtpApply *a);

/*
 * Remove the records up to purge_rev of these repositories without waiting for atp_purge().  The caller has locked the rows of
 * table repo.  An archive may bring a new record of revision purge_rev or of an older revision (H-33): atp_purge() would remove the
 * new record, too.
 */
extern void atp_repos_purge_now(AtpApply *a, struct varlena *const *dids, int n);

/* Does the repository of a deleted account still have records to purge? */
extern bool atp_repo_is_purged(AtpApply *a, struct varlena *did);

#endif							/* ATP_REPO_H */
