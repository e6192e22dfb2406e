/*
 * dead_letter.h
 *		Dead letters: the rows of atproto.dead_letter and atproto.dead_frame.
 *
 * This file writes and removes dead letters; dead_letter_retry.c replays them.
 */
#ifndef ATP_DEAD_LETTER_H
#define ATP_DEAD_LETTER_H

#include "config/spi.h"
#include "tables/base/rows.h"
#include "tables/base/sink.h"

/* SQL: does the dead letter say that the tables lack something of a repository? */
#define ATP_SQL_LACKING	"stage IN ('commit', 'record', 'apply', 'beyond') AND (seq IS NULL OR path NOT LIKE '#%')"

/*
 * Store the batch's letters (a List of AtpDeadLetter).  Raises ATP_ERRCODE_STOP when the limit of the subscription is
 * reached: the consumer stops rather than pass over an event without a letter.
 */
extern void atp_dead_letters_store(AtpApply *a, List *letters);

/*
 * Remove the letters that newer events have made obsolete.  Columns of overtaken: did, path (NULL: all paths), seq,
 * whether the event is newer than all exports, the subscription that received the event, and the event's stream.  Only
 * letters of this subscription and stream can be older than seq.
 */
extern void atp_dead_letters_forget(AtpApply *a, const AtpRows *overtaken);

/*
 * The account is deleted, as its own server or the directory says: remove the letters of the subscription about the
 * account that are older than the status.  The status came with sequence number seq in stream endpoint; isnull: without
 * a number, then all letters are older.  For callers outside of a batch.
 */
extern void atp_dead_letters_forget_account(const char *subscription, struct varlena *did, AtpArg endpoint, AtpArg seq);

/*
 * Note in the letters of all subscriptions of the target that these records have been removed since.  Columns of
 * removed: did, path (NULL: all records of the repository), rev.
 */
extern void atp_dead_letters_supersede(AtpApply *a, const AtpRows *removed);

/*
 * Note in the letters about an account's records within the subscription's filter that a #sync has named the records left at this
 * revision (H-43).
 */
extern void atp_dead_letters_supersede_within(AtpApply *a, struct varlena *did, uint64 rev);

/* Note in the letters about a repository's records that an export of revision rev has been applied since. */
extern void atp_dead_letters_supersede_repo(AtpApply *a, struct varlena *did, uint64 rev);

/* Remove the letters about a repository's commits and records: importing an export writes new letters for what cannot be stored. */
extern void atp_dead_letters_forget_repo(AtpApply *a, struct varlena *did);

/* Set sync of the repository's row to desynchronized; if the database refuses, continue without an error. */
extern void atp_mark_repo(AtpApply *a, struct varlena *did);

#endif							/* ATP_DEAD_LETTER_H */
