/*
 * claim.c
 *		Claims: locks by which a process ensures that no second process of its kind
 *		runs.
 *
 * A claim is an advisory lock with a class (the fourth field of its tag) which SQL functions cannot
 * use.  But pg_advisory_unlock_all() releases all advisory locks of a session, and triggers run in our
 * processes.  So the session holds the claim only between transactions, when no user code runs.
 * Within a transaction the transaction holds the claim, and no SQL function can release such a lock.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/claim.h"
#include "config/subscription.h"
#include "miscadmin.h"
#include "common/sha256.h"
#include "storage/lock.h"

/* Fourth field of our advisory locks: not 1 or 2, which SQL functions use. */
#define LOCK_CLASS	61

static LOCKTAG claimed;			/* by this process */
static bool is_holder = false;
static bool in_transaction = false; /* the claim is the transaction's */

/*
 * A cryptographic hash: with a hash that can be inverted, a user could choose a subscription's name that
 * collides with an existing name, and keep that subscription from running.
 */
uint64
atp_claim_number(const char *name)
{
	uint8_t		digest[32];
	uint64		number;

	atp_sha256(NULL, (const uint8_t *) name, strlen(name), digest);
	memcpy(&number, digest, sizeof(number));
	return number;
}

static LOCKTAG
tag_of(Oid database, const char *name)
{
	uint64		h = atp_claim_number(name);
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, database, (uint32) (h >> 32), (uint32) h, LOCK_CLASS);
	return tag;
}

static LOCKTAG
worker_tag(const char *name, int shard)
{
	char		key[ATP_NAME_MAX + 16];

	/* longer than any subscription's name */
	snprintf(key, sizeof(key), "%*s/%d", -(ATP_NAME_MAX + 1), name, shard);
	return tag_of(MyDatabaseId, key);
}

/*
 * Give the claim back to the session.  This cannot fail: acquiring a lock that is already held only
 * increments a count.
 */
static void
transaction_ends(XactEvent event, void *arg)
{
	if (!in_transaction || (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT))
		return;
	in_transaction = false;
	(void) LockAcquire(&claimed, ExclusiveLock, true, true);
}

static bool
take_lock(LOCKTAG tag)
{
	Assert(!is_holder);
	if (LockAcquire(&tag, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	claimed = tag;
	is_holder = true;
	RegisterXactCallback(transaction_ends, NULL);
	return true;
}

bool
atp_claim(const char *name)
{
	return take_lock(tag_of(MyDatabaseId, name));
}

bool
atp_claim_worker(const char *name, int shard)
{
	return take_lock(worker_tag(name, shard));
}

void
atp_claim_guard(void)
{
	if (!is_holder)
		return;
	(void) LockAcquire(&claimed, ExclusiveLock, false, true);
	(void) LockRelease(&claimed, ExclusiveLock, true);
	in_transaction = true;
}

bool
atp_claim_release(void)
{
	Assert(!in_transaction);
	if (!is_holder)
		return false;
	is_holder = false;
	return LockRelease(&claimed, ExclusiveLock, true);
}

/* The pids of all holders of one of these locks, or with ntags 0 of any claim; palloc'd. */
static int
find_holders(Oid database, const LOCKTAG *tags, int ntags, int **pids)
{
	LockData   *locks = GetLockStatusData();
	int			n = 0;

	*pids = palloc(sizeof(int) * Max(locks->nelements, 1));
	for (int i = 0; i < locks->nelements; i++)
	{
		const LockInstanceData *lock = &locks->locks[i];
		bool		wanted = ntags == 0;

		if (lock->locktag.locktag_type != LOCKTAG_ADVISORY ||
			lock->locktag.locktag_field4 != LOCK_CLASS ||
			lock->locktag.locktag_field1 != database ||
			(lock->holdMask & LOCKBIT_ON(ExclusiveLock)) == 0)
			continue;
		for (int t = 0; t < ntags; t++)
			wanted |= memcmp(&lock->locktag, &tags[t], sizeof(LOCKTAG)) == 0;
		if (wanted)
			(*pids)[n++] = lock->pid;
	}
	return n;
}

int
atp_holders(Oid database, int **pids)
{
	return find_holders(database, NULL, 0, pids);
}

static int
one_holder(const LOCKTAG *tags, int ntags)
{
	int		   *pids;

	return find_holders(MyDatabaseId, tags, ntags, &pids) > 0 ? pids[0] : 0;
}

int
atp_holder_pid(const char *name)
{
	LOCKTAG		tag = tag_of(MyDatabaseId, name);

	return one_holder(&tag, 1);
}

bool
atp_is_running(const char *name)
{
	return atp_holder_pid(name) != 0;
}

bool
atp_has_workers(const char *name)
{
	LOCKTAG		tags[ATP_WORKERS_MAX];

	for (int shard = 0; shard < ATP_WORKERS_MAX; shard++)
		tags[shard] = worker_tag(name, shard);
	return one_holder(tags, ATP_WORKERS_MAX) != 0;
}
