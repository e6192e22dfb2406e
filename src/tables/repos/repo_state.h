/*
 * repo_state.h
 *		The state of a repository as its row has it and events change it: what
 *		repo.c reads and writes, and repo_state.c moves.
 */
#ifndef ATP_REPO_STATE_H
#define ATP_REPO_STATE_H

#include "identity/identity.h"
#include "tables/direct/direct_insert.h"
#include "tables/repos/repo.h"

/* V-37: are the records in the tables those of the account? */
typedef enum AtpSync
{
	ATP_SYNC_PARTIAL,			/* what is there is true; older records may be missing */
	ATP_SYNC_UNPROVEN,			/* they were, until commits came of which nobody can tell */
	ATP_SYNC_DESYNCHRONIZED,	/* changes were missed */
	ATP_SYNC_RESYNCING,			/* an export is on its way into the tables */
	ATP_SYNC_SYNCHRONIZED		/* they are */
} AtpSync;

/* State of a repository, as its row has it and the events change it. */
typedef struct AtpRepoState
{
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	bool		has_first;
	uint64		first_rev;		/* of what was before nothing is known */
	struct varlena *commit;
	struct varlena *data;
	bytea	   *rev_paths;		/* of the operations of rev that were taken, 8 bytes each; NULL: all of them were */
	bool		active;
	text	   *status;
	bool		has_status;		/* an #account event was seen */
	TimestampTz status_at;		/* never far in the future, whatever the event says */
	text	   *status_endpoint;	/* the stream that said so ... */
	bool		has_status_seq;
	int64		status_seq;		/* ... and which event of it */
	text	   *host;
	struct varlena *handle;
	bool		has_handle_at;
	TimestampTz handle_at;		/* as status_at */
	text	   *sync;
	text	   *hold;			/* why events of it wait; NULL: they do not */
	bool		has_synced;
	TimestampTz synced_at;		/* an export of it came into the tables */
	bool		verified;		/* at level full: the account has signed the commit */
	bool		deleted;		/* at some time, with all records up to deleted_rev */
	uint64		deleted_rev;
	text	   *refill_by;		/* id of the subscription that reads the repository again; NULL: none */
	bool		refilled;		/* as far as refill_rev */
	uint64		refill_rev;
	struct varlena *refill_data;	/* root of the tree there */
	text	   *refill_sync;	/* what sync was when the refill first wrote records; NULL: it has written none */
	bool		has_refill_to;
	uint64		refill_to;		/* rev when refill() was called ... */
	bool		has_refill_at;
	TimestampTz refill_at;		/* ... and when that was */
	TimestampTz updated_at;
	bool		audited;		/* the row was one that the fetcher audits (V-27) */
	bool		found;
	ItemPointerData place;		/* when it was read directly */
	bool		changed;

	/* judge.c: events of it that are held in the table, when it says so */
	int64		nheld;			/* behind which those of this subscription wait (held_by.h) */
	int64		nown;			/* of these, those that this subscription received */
	int64		nothers;		/* behind which they do not: those of a higher level, or of another role */
	int64		nunread;		/* of nheld, those that a batch of what has waited does not have: some may come before its events */
	int64		nbeyond;		/* of nheld, those that a full batch of what has waited had no room for: they come after its events */
	uint64		first_held;
	bool		any_gap;		/* one of all these waits for a commit before it */
	bool		waits;			/* there are some: what comes from the stream waits, too */
	bool		follows;		/* some of them come now ... */
	bool		stays;			/* ... but go on waiting from here on; so does what comes */
	bool		gap;			/* the first of those that wait does so for a commit before it: that is not to wait */
	bool		adds;			/* in this transaction, some are added to those that wait */
} AtpRepoState;

struct AtpRepos
{
	AtpApply   *apply;
	const AtpColumn **columns;	/* of the rows */
	int			ncolumns;
	int			first;			/* event */
	AtpRepoState **of_event;	/* from the first one on; not set when it is ignored */
	AtpRepoState *repos;		/* by DID */
	int			nrepos;
	text	   *subscription;
	text	   *subscription_id;
	text	   *endpoint;
	AtpHeap    *heap;			/* the table repo; NULL: with statements */
	AtpIdentity *identities;	/* of each of them; NULL: below level full */
	TimestampTz now;			/* when these were read */
	bool		judged;			/* the events are, from before */
	List	   *others;			/* see union.h */
};

/* Its state is this one from now on; true: it was another. */
extern bool atp_repo_set_sync(AtpRepoState *repo, AtpSync sync);

/* It is not read again any more: refill_by and what belongs to it are forgotten. */
extern void atp_repo_forget_refill(AtpRepoState *repo);

/* Does it wait, for this (identity, gap, resync, release)? */
extern bool atp_repo_is_held(const AtpRepoState *repo, const char *why);

/* Who takes what has waited need not be the subscription that it came by. */
extern bool atp_repos_came_by_others(const AtpRepos *s, const AtpEvent *event);

/* Of a commit that is not newer than the repository: is it read again (atproto.refill()) ... */
extern bool atp_repo_is_refilled(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event);

/* ... is it another of the same revision (V-15) ... */
extern bool atp_repo_is_forked(const AtpRepoState *repo, const AtpEvent *event);

/* ... is it one of which nothing can be taken any more ... */
extern bool atp_repo_is_old(const AtpRepoState *repo, const AtpEvent *event);

/* ... does it tell that the tables lack what was before their first one? */
extern bool atp_repo_lacks(const AtpRepoState *repo, const AtpEvent *event);

/* ... or has what comes in parts overtaken it?  Then nobody knows whether all of its own have come. */
extern bool atp_repo_is_overtaken(const AtpRepoState *repo, const AtpEvent *event);

/* No commit from this revision on does so. */
extern uint64 atp_repo_floor(const AtpRepoState *repo);

/* Its server is to be asked, because of this event, whether it is as the state says (V-39, V-47). */
extern void atp_repo_doubt(const AtpRepoState *repo, AtpEvent *event);

/*
 * Is the account inactive, as of the event?  One that has waited is judged by the status at its place in its stream
 * an #account that came after it hides its records, and does not keep them out.
 */
extern bool atp_repo_is_inactive(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event);

/* At which level is the event judged?  One that has waited, at that of the subscription that received it. */
extern AtpVerify atp_event_level(const AtpRepos *s, const AtpEvent *event);

/* Is a row with this state one that the fetcher audits by itself (ATP_IS_AUDITED)? */
extern bool atp_repo_is_audited(const AtpRepoState *repo);

/* Has its account been deleted, and does nobody doubt that any more? */
extern bool atp_repo_is_deleted(const AtpRepoState *repo);

/* An event of it is held: what follows for those that come. */
extern void atp_repo_note_held(AtpRepoState *repo, const AtpEvent *event);

/* By its DID; NULL: it is not among them. */
extern AtpRepoState *atp_repo_of(const AtpRepos *s, struct varlena *did);

#endif							/* ATP_REPO_STATE_H */
