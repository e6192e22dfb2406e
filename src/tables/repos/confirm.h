/*
 * confirm.h
 *		M-40: commits that a former key of the account has signed, and that later events confirm.
 *
 * The thief of a former key can sign a commit with any revision, at any time, and the account need not have made a commit
 * since it has the present key.  So the revision proves nothing, nor does a commit's place behind the stored commit.  What
 * proves is what comes after: events that wait for the account's key are judged together, and a commit counts if the events
 * behind it continue its tree, hash by hash, up to a commit that the present key has signed, or up to the stored commit, whose
 * signature was verified.  Each commit between needs the signature of a key that was the account's at the time of its revision.
 *
 * This keeps each record as the account has signed it.  It does not keep a thief who also sends the stream from inserting
 * commits whose changes the next commits undo: such changes appear in table record_event, and in triggers.
 */
#ifndef ATP_CONFIRM_H
#define ATP_CONFIRM_H

#include "tables/repos/repo_state.h"

/* The former key that has signed the held event, if later events confirm the event; else NULL.  In the batch's memory. */
extern bytea *atp_confirmed_key(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event, const uint8_t present[ATP_MULTIKEY_LEN]);

/* For a letter: that a former key has signed the event, which is not confirmed; NULL: no former key has.  In the batch's memory. */
extern const char *atp_unconfirmed_text(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event);

#endif							/* ATP_CONFIRM_H */
