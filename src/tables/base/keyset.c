/*
 * keyset.c
 *		A set of three-part keys: open addressing; clearing is one increment.
 *
 * lib/simplehash.h would clear the whole table.  A stranger's commits can repeat one key in every second row, and each
 * repetition ends a statement and clears the set: the time would be the number of rows times the size of the table.
 */
#include "postgres.h"

#include "common/compat.h"
#include "port/pg_bitutils.h"
#include "common/secret_hash.h"
#include "tables/base/keyset.h"

typedef struct KeySlot
{
	uint32		epoch;			/* the slot is in use if this equals the set's epoch */
	uint32		hash;
	AtpKey		key;
} KeySlot;

struct AtpKeySet
{
	uint32		epoch;
	uint32		nslots;			/* a power of two, at least twice the number of keys */
	KeySlot		slots[FLEXIBLE_ARRAY_MEMBER];
};

AtpKeySet *
atp_keyset_create(int n)
{
	uint32		nslots = pg_nextpower2_32(Max(n, 8) * 2);
	AtpKeySet  *set = palloc0(offsetof(AtpKeySet, slots) + nslots * sizeof(KeySlot));

	set->nslots = nslots;
	set->epoch = 1;
	return set;
}

static uint32
hash_key(const AtpKey *key)
{
	uint64		h = 0;

	/* accounts choose the keys of their records: without a secret, they could choose colliding keys */
	for (int i = 0; i < 3; i++)
		h = atp_secret_hash(VARDATA_ANY(key->part[i]), VARSIZE_ANY_EXHDR(key->part[i]), h);
	return (uint32) h;
}

static bool
same_key(const AtpKey *a, const AtpKey *b)
{
	for (int i = 0; i < 3; i++)
		if (VARSIZE_ANY_EXHDR(a->part[i]) != VARSIZE_ANY_EXHDR(b->part[i]) ||
			memcmp(VARDATA_ANY(a->part[i]), VARDATA_ANY(b->part[i]), VARSIZE_ANY_EXHDR(a->part[i])) != 0)
			return false;
	return true;
}

bool
atp_keyset_add(AtpKeySet *set, AtpKey key)
{
	uint32		h = hash_key(&key);

	for (uint32 i = h & (set->nslots - 1);; i = (i + 1) & (set->nslots - 1))
	{
		KeySlot    *slot = &set->slots[i];

		if (slot->epoch != set->epoch)
		{
			*slot = (KeySlot) {set->epoch, h, key};
			return true;
		}
		if (slot->hash == h && same_key(&slot->key, &key))
			return false;
	}
}

void
atp_keyset_clear(AtpKeySet *set)
{
	set->epoch++;
}
