/*
 * rev_cache.c
 *		Shared memory with the newest commits of repositories which several sources
 *		bring.
 *
 * A direct-mapped hash table: a DID has one slot, and the entry stored last stays.  A writer takes a
 * slot by making its version odd, and skips the slot if another writer has it.  Readers take no lock:
 * a reader that finds a different version after copying the slot than before treats the slot as empty.
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

typedef struct CacheSlot
{
	pg_atomic_uint32 version;	/* odd: a process is writing the slot */
	uint32		generation;
	Oid			database;
	Oid			table;
	AtpRevEntry entry;
} CacheSlot;

typedef struct Shared
{
	pg_atomic_uint32 generation;
	CacheSlot	places[PLACES];
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
		atp_rev_cache_forget();
	forget_at_commit = false;
}

void
atp_rev_cache_init(void)
{
	atp_shared_part(shared_size, (void **) &shared);
}

uint32
atp_rev_cache_generation(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u32(&shared->generation);
}

void
atp_rev_cache_forget(void)
{
	if (shared != NULL)
		(void) pg_atomic_fetch_add_u32(&shared->generation, 1);
}

void
atp_rev_cache_forget_at_commit(void)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(transaction_ends, NULL);
	registered = forget_at_commit = true;
}

/* The last bytes of a CID, which tell apart two commits of the same revision. */
static uint64
end_of_cid(const uint8_t *bytes, size_t n)
{
	uint64		end = 0;

	if (n >= sizeof(end))
		memcpy(&end, bytes + n - sizeof(end), sizeof(end));
	return end;
}

static bool
set_did(AtpRevEntry *entry, const struct varlena *did)
{
	Size		n = VARSIZE_ANY_EXHDR(did);

	if (n > ATP_REV_CACHE_DID)
		return false;
	memset(entry, 0, sizeof(*entry));
	memcpy(entry->did, VARDATA_ANY(did), n);
	entry->did_len = n;
	return true;
}

bool
atp_rev_cache_make_entry(AtpRevEntry *entry, const struct varlena *did, const struct varlena *commit, uint64 rev, uint64 floor)
{
	if (!set_did(entry, did))
		return false;
	entry->rev = rev;
	entry->floor = floor;
	if (commit != NULL)
		entry->commit = end_of_cid((const uint8_t *) VARDATA_ANY(commit), VARSIZE_ANY_EXHDR(commit));
	return true;
}

static CacheSlot *
place_of(Oid table, const AtpRevEntry *entry)
{
	uint32		hash = hash_combine(hash_bytes(entry->did, entry->did_len), table);

	return &shared->places[hash % PLACES];
}

void
atp_rev_cache_put(uint32 generation, Oid table, const AtpRevEntry *rev_entries, int n)
{
	for (int i = 0; i < n && shared != NULL; i++)
	{
		CacheSlot  *place = place_of(table, &rev_entries[i]);
		uint32		version = pg_atomic_read_u32(&place->version);

		if (version % 2 != 0 || !pg_atomic_compare_exchange_u32(&place->version, &version, version + 1))
			continue;
		/*
		 * Readers must see the odd version before any part of the new entry.  On arm64 the exchange alone does
		 * not order the stores that follow it.
		 */
		pg_write_barrier();
		place->generation = generation;
		place->database = MyDatabaseId;
		place->table = table;
		place->entry = rev_entries[i];
		/* the even version comes last: a reader that sees it sees the whole entry */
		pg_write_barrier();
		pg_atomic_write_u32(&place->version, version + 2);
	}
}

/* False: the slot has no entry for the DID, or a process is writing the slot. */
static bool
find_slot(Oid table, AtpRevEntry *entry)
{
	const CacheSlot *place = place_of(table, entry);
	uint32		version = pg_atomic_read_u32((pg_atomic_uint32 *) &place->version);
	CacheSlot	copy;

	/* the copy lies between the two reads of the version: equal versions mean that no writer came in between */
	pg_read_barrier();
	memcpy(&copy, place, sizeof(copy));
	pg_read_barrier();
	if (version % 2 != 0 || pg_atomic_read_u32((pg_atomic_uint32 *) &place->version) != version ||
		copy.generation != atp_rev_cache_generation() || copy.database != MyDatabaseId || copy.table != table ||
		copy.entry.did_len != entry->did_len || memcmp(copy.entry.did, entry->did, ATP_REV_CACHE_DID) != 0)
		return false;
	*entry = copy.entry;
	return true;
}

bool
atp_rev_cache_is_old(Oid table, const struct varlena *did, const AtpReposMessage *msg)
{
	AtpRevEntry entry;

	if (shared == NULL || !set_did(&entry, did) || !find_slot(table, &entry))
		return false;
	if (msg->kind == ATP_REPOS_SYNC)
		return msg->rev < entry.rev;
	if (msg->rev < entry.floor || msg->rev > entry.rev)
		return false;
	/* V-15: a different commit of the same revision is a fork, and not known */
	return msg->rev < entry.rev ||
		(entry.commit != 0 && entry.commit == end_of_cid(msg->commit.ptr, msg->commit.len));
}
