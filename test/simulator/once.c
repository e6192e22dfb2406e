/*
 * once.c
 *		A hash table of hashes: two things with the same 64 bits count as one.
 */
#include "once.h"

#include "util.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *
place(const Once *o, uint64_t hash)
{
	size_t		i = hash & (o->cap - 1);

	while (o->slot[i] != 0 && o->slot[i] != hash)
		i = (i + 1) & (o->cap - 1);
	return &o->slot[i];
}

static void
grow(Once *o)
{
	Once		larger = {.cap = o->cap * 2 + (o->cap == 0) * 1024, .n = o->n};

	larger.slot = xcalloc(larger.cap, sizeof *larger.slot);
	for (size_t i = 0; i < o->cap; i++)
	{
		if (o->slot[i] != 0)
			*place(&larger, o->slot[i]) = o->slot[i];
	}
	free(o->slot);
	*o = larger;
}

/* FNV-1a; the zeros at the texts' ends keep them apart. */
static uint64_t
hash_of(const char *const *texts, size_t n)
{
	uint64_t	hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < n; i++)
	{
		for (size_t k = 0; k <= strlen(texts[i]); k++)
			hash = (hash ^ (uint8_t) texts[i][k]) * UINT64_C(0x100000001b3);
	}
	hash ^= hash >> 32;
	return hash == 0 ? 1 : hash;
}

bool
once(Once *o, const char *const *texts, size_t n)
{
	uint64_t	hash = hash_of(texts, n);
	uint64_t   *slot;

	if (o->n >= o->cap / 2)
		grow(o);
	slot = place(o, hash);
	if (*slot != 0)
		return false;
	*slot = hash;
	o->n++;
	return true;
}

void
once_free(Once *o)
{
	free(o->slot);
}
