/*
 * keyset.h
 *		Which keys of three parts a statement already has: an upsert must not
 *		meet the same row twice.
 */
#ifndef ATP_KEYSET_H
#define ATP_KEYSET_H

#include "postgres.h"

typedef struct AtpKey
{
	const struct varlena *part[3];
} AtpKey;

typedef struct AtpKeySet AtpKeySet;

/* For at most n keys between two clears. */
extern AtpKeySet *atp_keyset_create(int n);

/* False when it is there already.  The parts are not copied. */
extern bool atp_keyset_add(AtpKeySet *set, AtpKey key);

extern void atp_keyset_clear(AtpKeySet *set);

#endif							/* ATP_KEYSET_H */
