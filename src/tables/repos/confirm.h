/*
 * confirm.h
 *		M-40: commits signed by a former key of the account, and confirmed by later events.
 *
 * The thief of a former key can sign a commit with any revision, at any time, and the account need not have made a commit
 * since the key was replaced.  So neither the revision nor a place behind the stored commit proves a commit.  A later commit
 * does: the waiting events of an account are judged together, and a commit counts if the events behind the commit continue its
 * tree, hash by hash, up to a commit signed by the present key, or up to the stored commit, whose signature was verified.  Each
 * commit between needs the signature of a key that was the account's at the time of the commit's revision.
 *
 * So each stored record is the account's, if the subscription keeps all actions; otherwise no former key counts.  But a thief who also
 * sends the stream can insert commits whose changes the next commits undo: such changes appear in table record_event, and in triggers.
 */
#ifndef ATP_CONFIRM_H
#define ATP_CONFIRM_H

#include "tables/repos/repo_state.h"

/* The former key that has signed the held event, if later events confirm the event; else NULL.  In the batch's memory. */
extern bytea *atp_confirmed_key(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event, const uint8_t present[ATP_MULTIKEY_LEN]);

/* Is the event the stored commit, whose signature was verified? */
extern bool atp_is_verified_commit(const AtpRepoState *repo, const AtpEvent *event);

/* The text of a letter about an event signed by a former key and not confirmed; NULL: no former key has signed.  In the batch's memory. */
extern const char *atp_unconfirmed_text(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event);

#endif							/* ATP_CONFIRM_H */
