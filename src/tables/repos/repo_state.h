/*
 * repo_state.h
 *		The state of a repository in memory.  Private to src/tables/repos and src/tables/export.
 *
 * repo.c reads the state from the repository's row and writes it back; repo_effect.c, repo_refill.c and admission.c change
 * it.  Columns of the row that no event changes (ATP_APART) are not part of the state.
 */
#ifndef ATP_REPO_STATE_H
#define ATP_REPO_STATE_H

#include "identity/identity.h"
#include "tables/direct/direct.h"
#include "tables/repos/hold.h"
#include "tables/repos/repo.h"

/* V-37: do the tables have the account's records?  The column sync. */
typedef enum AtpSync
{
	ATP_SYNC_PARTIAL,			/* the records are true, but older records may be missing */
	ATP_SYNC_UNPROVEN,			/* synchronized until a commit came whose operations could not be checked completely */
	ATP_SYNC_DESYNCHRONIZED,	/* changes were missed */
	ATP_SYNC_RESYNCING,			/* an export is on its way into the tables */
	ATP_SYNC_SYNCHRONIZED		/* the tables have all records of the account */
} AtpSync;

/* The last commit processed. */
typedef struct AtpRepoHead
{
	bool		has_rev;
	uint64		rev;
	bool		has_first;
	uint64		first_rev;		/* the tables may lack commits before this revision */
	struct varlena *commit;
	struct varlena *data;
	bytea	   *sig;			/* O-02: the signature in the commit */
	bytea	   *commit_block;	/* the commit itself, if columns do not make it again (commit_keep.h) */
	bytea	   *rev_paths;		/* the operations of rev that were applied (repo_paths.h); NULL: all */
	bool		verified;		/* at level full: the account has signed the commit */
	bytea	   *former_key;		/* M-40: ... with this former key; NULL: with the present key */
	bool		has_history;
	uint64		history_rev;	/* the newest revision, or time of a deletion, shown by an archive */
} AtpRepoHead;

/* What the streams, or the account's server, say of the account. */
typedef struct AtpRepoAccount
{
	bool		active;
	text	   *status;
	bool		has_status;		/* an #account event was seen */
	TimestampTz status_at;		/* never far in the future, whatever the event's time is: see own_time() */
	text	   *status_endpoint;	/* the stream of the last #account event ... */
	bool		has_status_seq;
	int64		status_seq;		/* ... and the event's sequence number */
	text	   *host;
	bool		deleted;		/* the account was deleted at some time, with all records up to deleted_rev */
	uint64		deleted_rev;
	struct varlena *handle;
	bool		has_handle_at;
	TimestampTz handle_at;		/* limited like status_at */
} AtpRepoAccount;

/* Do the tables have the account's records? */
typedef struct AtpRepoSync
{
	text	   *word;			/* the column sync: a word for an AtpSync */
	bool		has_synced;
	TimestampTz synced_at;		/* when an export of the repository was last applied */
} AtpRepoSync;

/* P-40: what was proven of the repository (proved_claim.h). */
typedef struct AtpRepoProved
{
	bool		has_set;
	int64		set;			/* these collections (proved_set.h) ... */
	bool		has_rev;
	uint64		rev;			/* ... were complete as of this revision */
} AtpRepoProved;

/* The refill that reads the repository again (atproto.refill()). */
typedef struct AtpRepoRefill
{
	text	   *by;				/* id of the subscription; NULL: no refill */
	bool		has_rev;		/* the refill has reached rev */
	uint64		rev;
	struct varlena *data;		/* root of the tree at rev */
	bool		has_first;
	uint64		first;			/* the refill's events form a chain from this revision on up to rev */
	text	   *sync;			/* the column sync before the refill first wrote records; NULL: no records written */
	bool		has_to;
	uint64		to;				/* the repository's revision when refill() was called ... */
	bool		has_at;
	TimestampTz at;				/* ... and when refill() was called */
} AtpRepoRefill;

/* The row of the table repo. */
typedef struct AtpRepoRow
{
	bool		found;
	ItemPointerData place;		/* where the row was, if the row was read without a statement */
	bool		audited;		/* the state as read fulfilled ATP_IS_AUDITED */
	bool		synchronized;	/* sync was synchronized in the row as read */
	bool		active;			/* the account in the row as read */
	text	   *status;
	struct varlena *handle;
	bool		changed;		/* the row has to be written */
	bool		needed;			/* an event of the batch makes a row, where there is none (H-34) ... */
	bool		wanted;			/* ... and has come, or there was a row before the batch */
	bool		added;			/* the row was inserted for this batch */
	TimestampTz updated_at;
} AtpRepoRow;

/* The state of a repository. */
typedef struct AtpRepoState
{
	struct varlena *did;
	AtpRepoHead head;
	AtpRepoAccount account;
	AtpRepoSync sync;
	AtpRepoProved proved;
	AtpRepoRefill refill;
	AtpRepoHold hold;			/* why events of the repository wait */
	AtpRepoRow	row;
} AtpRepoState;

/* Private to confirm.c. */
typedef struct AtpConfirmation AtpConfirmation;

struct AtpRepos
{
	AtpApply   *apply;
	const AtpColumn **columns;	/* columns of the rows that are read and written */
	int			ncolumns;
	int			first;			/* index of the first event of the range */
	AtpRepoState **of_event;	/* for each event of the range; not set for ignored events */
	AtpRepoState *repos;		/* sorted by DID */
	int			nrepos;
	text	   *subscription;
	text	   *subscription_id;
	text	   *endpoint;
	AtpDirect  *direct;			/* direct access to the table repo; NULL: statements are used */
	AtpIdentity *identities;	/* in the order of repos; NULL: below level full */
	AtpConfirmation **confirmations;	/* in the order of repos (confirm.c); NULL: not needed so far */
	TimestampTz now;			/* when the identities were read */
	bool		judged;			/* the events have verdicts already */
	List	   *others;			/* cache for atp_multi_source_has_other() */
	bool		asked_filled;	/* is filled set? */
	bool		filled;			/* H-34: an older status of an account may come after an active status */
	List	   *followers;		/* cache of proved_claim.c: the running subscriptions of the target; NIL: not read yet */
};

/* The word for sync in the column sync, and the reverse. */
extern text *atp_sync_word(AtpSync sync);
extern bool atp_is_sync_word(const text *word, AtpSync sync);

extern bool atp_repo_is_sync(const AtpRepoState *repo, AtpSync sync);

/* Set sync; returns whether sync has changed. */
extern bool atp_repo_set_sync(AtpRepoState *repo, AtpSync sync);

/* Commits and their records were missed: set sync to desynchronized, and count. */
extern void atp_repo_note_break(AtpRepos *s, AtpRepoState *repo);

/*
 * From which revision on do the tables have all commits, if the event is the first one of a chain?  A #sync (F-12) names a
 * revision without its records, so after a #sync it is the next revision.
 */
extern uint64 atp_event_first(const AtpEvent *event);

/* The tables have all commits from the revision first on: lower first_rev to this revision. */
extern void atp_repo_note_first(AtpRepoState *repo, uint64 first);

/*
 * The fetch of the repository was given up: its held events are released, and sync tells that the tables may lack
 * records.  False: no fetch had begun.
 */
extern bool atp_repo_give_up(AtpApply *a, AtpRepoState *repo);

/* false if a held event was dropped during the fetch, so that sync is no longer resyncing. */
extern bool atp_repo_fetch_is_whole(const AtpRepoState *repo);

/* Was the event held by a different subscription than s->subscription, which judges the event now? */
extern bool atp_repos_came_by_others(const AtpRepos *s, const AtpEvent *event);

/* V-15: has the event the repository's revision, but a different commit? */
extern bool atp_repo_is_forked(const AtpRepoState *repo, const AtpEvent *event);

/* Is the event's revision too old for any operation of the event to be applied? */
extern bool atp_repo_is_old(const AtpRepoState *repo, const AtpEvent *event);

/* Is the event a commit older than first_rev, so that the tables may lack its records? */
extern bool atp_repo_lacks(const AtpRepoState *repo, const AtpEvent *event);

/*
 * V-38: the account is inactive, so the event is ignored.  Do the tables then lack changes of the account, which may
 * become active again?  Of a deleted account nothing is missed.
 */
extern bool atp_repo_misses(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event);

/*
 * Is the event older than a newer commit that came in separate messages?  Then the messages of the event's own commit
 * may not all have come.
 */
extern bool atp_repo_is_overtaken(const AtpRepoState *repo, const AtpEvent *event);

/* The revision below which atp_repo_lacks() is true; 0: never. */
extern uint64 atp_repo_floor(const AtpRepoState *repo);

/* Because of this event, request a look-up of the account's status at its server (V-39, V-47). */
extern void atp_repo_doubt(const AtpRepoState *repo, AtpEvent *event);

/*
 * Was the account inactive when the event was sent?  A held event is judged by the status at the event's place in the
 * stream: a later #account event hides the records of the held event, but does not keep them out of the
 * tables.
 */
extern bool atp_repo_is_inactive(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event);

/* The level at which the event is judged.  For a held event, the level of the subscription that received the event. */
extern AtpVerify atp_event_level(const AtpRepos *s, const AtpEvent *event);

/*
 * The effect of a row of an archive (AtpEvent.archived) on the repository's state, while other sources fill the same tables: H-34,
 * H-43, H-44.  The verdict is always true: the row waits for nothing.
 */
extern void atp_repo_take_archived(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect);

/*
 * Note that an archive has shown this revision of the account.  False: the tables are known to have everything up to the revision,
 * so the row is passed over.
 */
extern bool atp_repo_note_archived(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, uint64 rev);

/*
 * H-43: an archive has told of a status of the past, and the account goes on in another stream: the account is active again, before
 * the archive's later statuses come.
 */
extern void atp_repo_revive(const AtpRepos *s, AtpRepoState *repo, const AtpEvent *event);

/* Take the status of an #account event, unless a newer status is known.  What a deletion does to records is left to the caller. */
extern bool atp_repo_take_status(AtpRepos *s, AtpRepoState *repo, AtpEvent *event);

/* Take an #account event: the status, and what a deletion does to records and held events. */
extern void atp_repo_take_account(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect);

/*
 * Has the table records of an export that was given up, and no commit that tells whether they are still the account's?
 * Also while records of a deleted account are being removed: some of them may be of such an export (erase_export()).
 */
extern bool atp_repo_has_remains(AtpRepos *s, const AtpRepoState *repo);

/*
 * Delete the records of the repository.  The tables may have records newer than the repository's revision: the slices of
 * an export write such records, and they stay if the fetch is given up before its last slice.  task_status.c has the same
 * rule for deletions that are confirmed later.
 */
extern void atp_repo_erase(const AtpRepoState *repo, AtpEffect *effect);

/* Take the handle of an #identity event. */
extern void atp_repo_take_identity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event);

/*
 * The time of an #account, as the account's server has written it.  A Jetstream may have seen the #account hours later, after the
 * account's next life had begun.  A time later than the Jetstream's is wrong, and the Jetstream's time counts.
 */
extern int64 atp_repo_written_at(const AtpEvent *event);

/* The largest revision possible at the time of the event: a deletion of the account stands for this revision. */
extern uint64 atp_repo_event_bound(const AtpEvent *event);

/* Does the status come from this stream, so that sequence numbers can be compared? */
extern bool atp_repo_has_status_of(const AtpRepoState *repo, const text *endpoint);

/* Has the repository no records, because none came yet or because the account was deleted?  Then only a first commit continues it. */
extern bool atp_repo_is_empty(const AtpRepoState *repo);

/* Does the fetcher audit a repository with this state without a request by a session (ATP_IS_AUDITED)? */
extern bool atp_repo_is_audited(const AtpRepoState *repo);

/* Has the account been deleted, and is the deletion confirmed? */
extern bool atp_repo_is_deleted(const AtpRepoState *repo);

/* The state of the repository with this DID; NULL: the DID is not in the set. */
extern AtpRepoState *atp_repo_of(const AtpRepos *s, struct varlena *did);

/*
 * Does the event make a row of repo, where its account has none?  H-34: a subscription with collections would otherwise make a row
 * for each account of the network, since a Jetstream sends the handles and statuses of all.  A commit makes a row, whatever its
 * collections are (F-14), but a row of an archive does not: an archive has statuses of all accounts, and brings a status again, with
 * the records.  In a stream, also one that follows an archive, a status that is not active makes a row, because it hides the records
 * that may come; an active status makes a row where an older status may follow.
 */
extern bool atp_repo_makes_row(AtpRepos *s, const AtpEvent *event);

/* H-34: is this an event of an account of which the tables have nothing, and are to have nothing? */
extern bool atp_repo_is_stranger(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event);

#endif							/* ATP_REPO_STATE_H */
