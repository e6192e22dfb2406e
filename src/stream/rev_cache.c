/*
 * rev_cache.c
 *		The newest commits of repositories that several sources bring.
 *
 * A table of as many places as it has, each for the DIDs of one hash: the last one that was
 * put there stays.  A place is written by who finds it unused, and read without a lock: who finds another
 * version after reading it than before has read nothing.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "common/shared.h"
#include "stream/rev_cache.h"

#define PLACES	65536			/* a power of two */

typedef struct Place
{
	pg_atomic_uint32 version;	/* odd: somebody writes it */
	uint32		generation;
	Oid			database;
	Oid			table;
	AtpRecent	recent;
} Place;

typedef struct Shared
{
	pg_atomic_uint32 generation;
	Place		places[PLACES];
} Shared;

static Shared *shared = NULL;	/* NULL when not preloaded */

static bool forget_at_commit = false;

static Size
shared_size(void)
{
	return sizeof(Shared);
}

static void
transaction_ends(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	if (forget_at_commit && event == XACT_EVENT_COMMIT)
		atp_recent_forget();
	forget_at_commit = false;
}

void
atp_recent_init(void)
{
	atp_shared_part(shared_size, (void **) &shared);
}

uint32
atp_recent_generation(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u32(&shared->generation);
}

void
atp_recent_forget(void)
{
	if (shared != NULL)
		(void) pg_atomic_fetch_add_u32(&shared->generation, 1);
}

void
atp_recent_forget_at_commit(void)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(transaction_ends, NULL);
	registered = forget_at_commit = true;
}

/* What tells commits of one revision apart. */
static uint64
end_of_cid(const uint8_t *bytes, size_t n)
{
	uint64		end = 0;

	if (n >= sizeof(end))
		memcpy(&end, bytes + n - sizeof(end), sizeof(end));
	return end;
}

static bool
set_did(AtpRecent *recent, const struct varlena *did)
{
	Size		n = VARSIZE_ANY_EXHDR(did);

	if (n > ATP_RECENT_DID)
		return false;
	memset(recent, 0, sizeof(*recent));
	memcpy(recent->did, VARDATA_ANY(did), n);
	recent->did_len = n;
	return true;
}

bool
atp_recent_make(AtpRecent *recent, const struct varlena *did, const struct varlena *commit, uint64 rev, uint64 floor)
{
	if (!set_did(recent, did))
		return false;
	recent->rev = rev;
	recent->floor = floor;
	if (commit != NULL)
		recent->commit = end_of_cid((const uint8_t *) VARDATA_ANY(commit), VARSIZE_ANY_EXHDR(commit));
	return true;
}

static Place *
place_of(Oid table, const AtpRecent *recent)
{
	uint32		hash = hash_combine(hash_bytes(recent->did, recent->did_len), table);

	return &shared->places[hash % PLACES];
}

void
atp_recent_put(uint32 generation, Oid table, const AtpRecent *recents, int n)
{
	for (int i = 0; i < n && shared != NULL; i++)
	{
		Place	   *place = place_of(table, &recents[i]);
		uint32		version = pg_atomic_read_u32(&place->version);

		if (version % 2 != 0 || !pg_atomic_compare_exchange_u32(&place->version, &version, version + 1))
			continue;
		place->generation = generation;
		place->database = MyDatabaseId;
		place->table = table;
		place->recent = recents[i];
		pg_write_barrier();
		pg_atomic_write_u32(&place->version, version + 2);
	}
}

/* False: there is nothing, or somebody is at it. */
static bool
find(Oid table, AtpRecent *recent)
{
	const Place *place = place_of(table, recent);
	uint32		version = pg_atomic_read_u32((pg_atomic_uint32 *) &place->version);
	Place		copy;

	pg_read_barrier();
	memcpy(&copy, place, sizeof(copy));
	pg_read_barrier();
	if (version % 2 != 0 || pg_atomic_read_u32((pg_atomic_uint32 *) &place->version) != version ||
		copy.generation != atp_recent_generation() || copy.database != MyDatabaseId || copy.table != table ||
		copy.recent.did_len != recent->did_len || memcmp(copy.recent.did, recent->did, ATP_RECENT_DID) != 0)
		return false;
	*recent = copy.recent;
	return true;
}

bool
atp_recent_is_old(Oid table, const struct varlena *did, const AtpReposMessage *msg)
{
	AtpRecent	recent;

	if (shared == NULL || !set_did(&recent, did) || !find(table, &recent))
		return false;
	if (msg->kind == ATP_REPOS_SYNC)
		return msg->rev < recent.rev;
	if (msg->rev < recent.floor || msg->rev > recent.rev)
		return false;
	/* V-15: another one of this revision is something else */
	return msg->rev < recent.rev ||
		(recent.commit != 0 && recent.commit == end_of_cid(msg->commit.ptr, msg->commit.len));
}
