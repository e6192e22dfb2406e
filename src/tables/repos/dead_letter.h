/*
 * dead_letter.h
 *		Dead letters, as atproto.dead_letter and atproto.dead_frame keep them.
 */
#ifndef ATP_DEAD_LETTER_H
#define ATP_DEAD_LETTER_H

#include "tables/base/rows.h"
#include "tables/base/sink.h"

/*
 * Keep these letters (of AtpLetter) of the batch.  ATP_ERRCODE_STOP when there is
 * no room: nothing is passed over without a letter.
 */
extern void atp_letters_store(AtpApply *a, List *letters);

/* Forget letters that newer events overtook: did, path (NULL: all), seq, whether the event is newer than any export. */
extern void atp_letters_forget(AtpApply *a, const AtpRows *overtaken);

/* Note in letters of any subscription of the target that these records have been removed since: did, path (NULL: all of the repository), rev. */
extern void atp_letters_supersede(AtpApply *a, const AtpRows *removed);

/* Note in those of a repository that an export of this revision has come. */
extern void atp_letters_supersede_repo(AtpApply *a, struct varlena *did, uint64 rev);

/* Forget those about a repository's commits and records: an export says anew what cannot be stored. */
extern void atp_letters_forget_repo(AtpApply *a, struct varlena *did);

/* The repository's tables are not what the network has. */
extern void atp_mark_repo(AtpApply *a, struct varlena *did);

#endif							/* ATP_DEAD_LETTER_H */
