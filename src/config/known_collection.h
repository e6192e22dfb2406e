/*
 * known_collection.h
 *		Names of collections that are probably misspelt.
 */
#ifndef ATP_KNOWN_COLLECTION_H
#define ATP_KNOWN_COLLECTION_H

#include "config/spi.h"

/*
 * The collection of a known Lexicon whose name differs from this name in a few letters; NULL if the name itself is known,
 * or no name is near.  SPI must be connected.
 */
extern char *atp_collection_near(const char *name);

/* A NOTICE for each element of the column collections that is probably misspelt.  old: the row before an update, or NULL. */
extern void atp_collections_notice(const AtpTuple *old, AtpTuple row);

#endif							/* ATP_KNOWN_COLLECTION_H */
