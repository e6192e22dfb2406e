/*
 * direct_hint.h
 *		Where this process last met rows of keyed tables: guesses, that spare it
 *		the way through the index.
 *
 * Whoever follows one looks whether the row that he wanted is there, as of his
 * snapshot.  So it does not matter who has changed, moved or removed it, emptied
 * the table or made another, nor whether what was noted was rolled back.
 */
#ifndef ATP_DIRECT_HINT_H
#define ATP_DIRECT_HINT_H

#include "postgres.h"

#include "storage/itemptr.h"

/* False: nothing is known of the key, or not any more. */
extern bool atp_place_guess(Oid table, const struct varlena *key, ItemPointer place);
extern void atp_place_note(Oid table, const struct varlena *key, const ItemPointerData *place);

#endif							/* ATP_DIRECT_HINT_H */
