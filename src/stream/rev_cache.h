/*
 * rev_cache.h
 *		Shared memory with the newest commit of each repository which several sources
 *		bring: so that the second copy of a commit is passed over before any of its
 *		blocks is hashed.
 *
 * An entry says: the repository's commits from floor up to rev are judged and committed, and have no
 * effect any more, whatever the source.  An entry may be missing, or lag behind the table; an entry must
 * never be ahead of the table, because then a commit would be lost.  So a process makes an entry from a
 * state which a transaction has read or written, after this transaction has committed.  And the entry
 * counts only if no atp_rev_cache_forget() (states may have gone back) came since the transaction began.
 */
#ifndef ATP_REV_CACHE_H
#define ATP_REV_CACHE_H

#include "postgres.h"

#include "core/wire/repos_message.h"

#define ATP_REV_CACHE_DID	23	/* bytes of a stored DID: enough for every did:plc, and for a short did:web */

typedef struct AtpRevEntry
{
	uint8		did[ATP_REV_CACHE_DID];
	uint8		did_len;
	uint64		rev;
	uint64		floor;			/* commits of a lower revision may still have an effect */
	uint64		commit;			/* the last bytes of the commit's CID */
} AtpRevEntry;

/* From _PG_init(). */
extern void atp_rev_cache_init(void);

/* Call before a transaction reads states from which entries are made. */
extern uint32 atp_rev_cache_generation(void);

/* False: no entry is possible for this account (the DID is too long). */
extern bool atp_rev_cache_make_entry(AtpRevEntry *entry, const struct varlena *did, const struct varlena *commit, uint64 rev, uint64 floor);

/* Store entries made from states of this table, after the transaction has committed. */
extern void atp_rev_cache_put(uint32 generation, Oid table, const AtpRevEntry *rev_entries, int n);

/* Is this #commit or #sync known, and without effect? */
extern bool atp_rev_cache_is_old(Oid table, const struct varlena *did, const AtpReposMessage *msg);

/* Invalidate all entries of all tables: now, or when the current transaction commits. */
extern void atp_rev_cache_forget(void);
extern void atp_rev_cache_forget_at_commit(void);

#endif							/* ATP_REV_CACHE_H */
