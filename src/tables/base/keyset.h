/*
 * keyset.h
 *		The set of keys (of three parts) in a statement.
 *
 * An INSERT ... ON CONFLICT DO UPDATE fails when two of its rows have the same key, so a repeated
 * key begins another statement.
 */
#ifndef ATP_KEYSET_H
#define ATP_KEYSET_H

#include "postgres.h"

typedef struct AtpKey
{
	const struct varlena *part[3];
} AtpKey;

typedef struct AtpKeySet AtpKeySet;

/* For at most n keys between two calls of atp_keyset_clear(). */
extern AtpKeySet *atp_keyset_create(int n);

/* False: the set has the key already.  The set keeps pointers to the parts. */
extern bool atp_keyset_add(AtpKeySet *set, AtpKey key);

extern void atp_keyset_clear(AtpKeySet *set);

#endif							/* ATP_KEYSET_H */
