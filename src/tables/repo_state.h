/*
 * repo_state.h
 *		The state of a repository as its row has it and events change it: what
 *		repo.c reads and writes, and repo_state.c moves.
 */
#ifndef ATP_REPO_STATE_H
#define ATP_REPO_STATE_H

#include "tables/heap.h"
#include "tables/repo.h"

/* V-37: are the records in the tables those of the account? */
typedef enum AtpSync
{
	ATP_SYNC_PARTIAL,			/* what is there is true; older records may be missing */
	ATP_SYNC_UNPROVEN,			/* they were, until commits came of which nobody can tell */
	ATP_SYNC_DESYNCHRONIZED,	/* changes were missed */
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
	bool		active;
	text	   *status;
	bool		has_status;		/* an #account event was seen */
	TimestampTz status_at;		/* never in the future, whatever the event says */
	text	   *status_endpoint;	/* the stream that said so ... */
	bool		has_status_seq;
	int64		status_seq;		/* ... and which event of it */
	text	   *host;
	struct varlena *handle;
	text	   *sync;
	bool		deleted;		/* at some time, with all records up to deleted_rev */
	uint64		deleted_rev;
	text	   *refill_by;		/* subscription that reads the repository again; NULL: none */
	bool		refilled;		/* as far as refill_rev */
	uint64		refill_rev;
	TimestampTz updated_at;
	bool		found;
	ItemPointerData place;		/* when it was read directly */
	bool		changed;
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
	text	   *endpoint;
	AtpHeap    *heap;			/* the table repo; NULL: with statements */
};

/* Its state is this one from now on; true: it was another. */
extern bool atp_repo_set_sync(AtpRepoState *repo, AtpSync sync);

#endif							/* ATP_REPO_STATE_H */
