/*
 * direct_hint.c
 *		Where this process last met rows of keyed tables, as a cache of ctids.
 *
 * The cache is a direct-mapped table: each slot serves all keys with one hash, and keeps the ctid
 * noted last.  A ctid is only a hint: the caller reads the row there as TidNext() (nodeTidscan.c)
 * does, and compares the key.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/compat.h"
#include "tables/direct/direct_hint.h"

/* A power of two: 1.5 MB, of which the process touches only the used pages. */
#define PLACES	131072

typedef struct HintSlot
{
	uint32		hash;			/* upper half of the hash; the lower half selects the slot */
	ItemPointerData at;			/* invalid: the slot is unused */
} HintSlot;

static HintSlot places[PLACES];

static uint64
hash_key(Oid table, const struct varlena *key)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), table);
}

bool
atp_tid_hint_get(Oid table, const struct varlena *key, ItemPointer place)
{
	uint64		hash = hash_key(table, key);
	const HintSlot *p = &places[hash % PLACES];

	if (p->hash != (uint32) (hash >> 32) || !ItemPointerIsValid(&p->at))
		return false;
	*place = p->at;
	return true;
}

void
atp_tid_hint_put(Oid table, const struct varlena *key, const ItemPointerData *place)
{
	uint64		hash = hash_key(table, key);

	places[hash % PLACES] = (HintSlot) {(uint32) (hash >> 32), *place};
}
