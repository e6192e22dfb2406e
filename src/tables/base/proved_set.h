/*
 * proved_set.h
 *		Sets of collections: what a repository's row means by "proved" (P-40).
 *
 * A set is a sorted list of collections and patterns (I-06), of which none contains a second one.  Table
 * atproto.proved_set has the sets, and repo.proved the number of a set.  The number follows from the list: two sessions
 * that need the same set write the same row, and no process has to wait for a number.
 */
#ifndef ATP_PROVED_SET_H
#define ATP_PROVED_SET_H

#include "config/spi.h"
#include "config/subscription.h"

typedef struct AtpProvedSet
{
	int			n;				/* 0: no collection */
	const char **patterns;
} AtpProvedSet;

/* The numbers of the set that has all collections, and of the set that has none: repo.proved is NULL for the latter. */
#define ATP_PROVED_ALL	INT64CONST(0)
#define ATP_PROVED_NONE	INT64CONST(-1)

/* The set of these patterns, in any order; n < 0: all collections. */
extern AtpProvedSet atp_proved_set(int n, char *const *patterns);

/* The set in the column "collections" of a row. */
extern AtpProvedSet atp_proved_set_read(AtpTuple row);

/* Has the first set each collection of the second set? */
extern bool atp_proved_covers(const AtpProvedSet *set, const AtpProvedSet *other);

/* The collections of both sets. */
extern AtpProvedSet atp_proved_common(const AtpProvedSet *a, const AtpProvedSet *b);

extern int64 atp_proved_id(const AtpProvedSet *set);

/*
 * Write the set into atproto.proved_set, so that rows of the target can name the set.  A change of a filter looks for these
 * sets only.  SPI is connected.
 */
extern void atp_proved_note(const char *target, const AtpProvedSet *set);

/*
 * The collections of which a subscription keeps exactly the account's records: none, if the subscription leaves out
 * deletions, for example.
 */
extern AtpProvedSet atp_proved_kept(const AtpSettings *settings);

/*
 * Until the end of the transaction no repository of the target becomes synchronized (exclusive), or no session changes
 * what synchronized means: the filters of the target's subscriptions.  A process that has locked rows of the target
 * may take only the shared lock, and only with a limited wait (atp_queue_wait).
 */
extern void atp_proved_lock(const char *target, bool exclusive);

#endif							/* ATP_PROVED_SET_H */
