/*
 * tree_keys.h
 *		The keys of a tree, from a fuzzer's input: repeated (length byte, key bytes), sorted.
 */
#ifndef TREE_KEYS_H
#define TREE_KEYS_H

#include <stdlib.h>

#include "protocol/mst_build.h"

static inline int
compare_items(const void *a, const void *b)
{
	return atp_mst_compare(((const AtpMstItem *) a)->key, ((const AtpMstItem *) b)->key);
}

/*
 * At most max items from *pos on, sorted; a key may come several times.  They point into data, and have this value.
 * *pos moves behind what was read.
 */
static inline size_t
take_items(const uint8_t *data, size_t size, size_t *pos, AtpBytes value, AtpMstItem *items, size_t max)
{
	size_t		n = 0;

	while (*pos < size && n < max)
	{
		size_t		len = data[(*pos)++];

		if (len == 0 || len > size - *pos)
			break;
		items[n++] = (AtpMstItem) {.key = {data + *pos, len}, .value = value};
		*pos += len;
	}
	qsort(items, n, sizeof(items[0]), compare_items);
	return n;
}

/* Keep the first of the items with a key; returns how many are left. */
static inline size_t
unique_items(AtpMstItem *items, size_t n)
{
	size_t		unique = 0;

	for (size_t i = 0; i < n; i++)
	{
		if (unique == 0 || compare_items(&items[unique - 1], &items[i]) != 0)
			items[unique++] = items[i];
	}
	return unique;
}

#endif							/* TREE_KEYS_H */
