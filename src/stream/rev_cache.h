/*
 * rev_cache.h
 *		The newest commits of repositories that several sources bring, in shared memory: so
 *		that the second copy of a commit is passed over before any of it is hashed.
 *
 * An entry says what was committed once: everything up to rev has been judged, and
 * nothing follows from it any more, whoever brings it.  It may be missing, and lag behind the
 * table; it must never be ahead of it.  So it is made from a state that a
 * transaction has read or written, when that has committed, and holds only as long as
 * nobody has said since that transaction began that states may have gone back (atp_recent_forget()).
 */
#ifndef ATP_REV_CACHE_H
#define ATP_REV_CACHE_H

#include "postgres.h"

#include "core/wire/repos_message.h"

#define ATP_RECENT_DID	23		/* bytes of a stored DID: of all did:plc, and of others that are as short */

typedef struct AtpRecent
{
	uint8		did[ATP_RECENT_DID];
	uint8		did_len;
	uint64		rev;
	uint64		floor;			/* something may follow from commits before this one */
	uint64		commit;			/* the end of its CID */
} AtpRecent;

/* From _PG_init(). */
extern void atp_recent_init(void);

/* Before a transaction reads states, of which it may make entries. */
extern uint32 atp_recent_generation(void);

/* False: there is none for this account. */
extern bool atp_recent_make(AtpRecent *recent, const struct varlena *did, const struct varlena *commit, uint64 rev, uint64 floor);

/* States of this table, in a transaction that has committed. */
extern void atp_recent_put(uint32 generation, Oid table, const AtpRecent *recents, int n);

/* Does nothing follow from this #commit or #sync? */
extern bool atp_recent_is_old(Oid table, const struct varlena *did, const AtpReposMessage *msg);

/* No entry of before holds any more, of any table: now, or when this transaction commits. */
extern void atp_recent_forget(void);
extern void atp_recent_forget_at_commit(void);

#endif							/* ATP_REV_CACHE_H */
