/*
 * injection.c
 *		Places where a test can stop a process: see injection.h.
 *
 * The process takes an advisory lock and gives it back: the one that a session
 * holds after pg_advisory_lock(hashtext(POINT), hashtext(APPLICATION_NAME)).  So a
 * test stops the one process that it names, sees in pg_locks that it has come,
 * and can end it while it waits.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/backend_status.h"

#ifdef ATP_INJECTION_POINTS

/* Fourth field of the advisory locks that have two keys. */
#define TWO_KEYS	2

static uint32
hash_text(const char *s)
{
	return hash_bytes((const unsigned char *) s, strlen(s));
}

void
atp_injection_point(const char *name)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, hash_text(name), hash_text(MyBEEntry->st_appname), TWO_KEYS);
	/* a session's lock, since some places are outside of any transaction */
	(void) LockAcquire(&tag, ShareLock, true, false);
	(void) LockRelease(&tag, ShareLock, true);
}

#endif
