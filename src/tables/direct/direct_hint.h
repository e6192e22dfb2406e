/*
 * direct_hint.h
 *		Where this process last met rows of keyed tables: hints that save the way through the index.
 *
 * The caller checks under the snapshot whether the row at the hinted ctid has the wanted key.  So a
 * wrong hint does no harm: a session may have changed, moved or deleted the row, emptied the table
 * or made another table, and the transaction in which the hint was noted may have been rolled back.
 */
#ifndef ATP_DIRECT_HINT_H
#define ATP_DIRECT_HINT_H

#include "postgres.h"

#include "storage/itemptr.h"

/* False: the cache has no ctid for the key, or no longer. */
extern bool atp_tid_hint_get(Oid table, const struct varlena *key, ItemPointer place);
extern void atp_tid_hint_put(Oid table, const struct varlena *key, const ItemPointerData *place);

#endif							/* ATP_DIRECT_HINT_H */
