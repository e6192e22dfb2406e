/*
 * direct_hint.c
 *		Where this process last met rows of keyed tables.
 *
 * A table of as many places as it has, each for the keys of one hash: the last
 * one that was noted there stays.  A place is a guess: who uses it reads the row there
 * as TidNext() (nodeTidscan.c) does, and looks whether it is the one.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/compat.h"
#include "tables/direct/direct_hint.h"

/* A power of two: 1.5 MB, of which a process has only what it uses. */
#define PLACES	131072

typedef struct Place
{
	uint32		hash;			/* another one than that by which it is found */
	ItemPointerData at;			/* invalid: unused */
} Place;

static Place places[PLACES];

static uint64
hash_key(Oid table, const struct varlena *key)
{
	return hash_bytes_extended((const unsigned char *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), table);
}

bool
atp_place_guess(Oid table, const struct varlena *key, ItemPointer place)
{
	uint64		hash = hash_key(table, key);
	const Place *p = &places[hash % PLACES];

	if (p->hash != (uint32) (hash >> 32) || !ItemPointerIsValid(&p->at))
		return false;
	*place = p->at;
	return true;
}

void
atp_place_note(Oid table, const struct varlena *key, const ItemPointerData *place)
{
	uint64		hash = hash_key(table, key);

	places[hash % PLACES] = (Place) {(uint32) (hash >> 32), *place};
}
