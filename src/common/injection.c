/*
 * injection.c
 *		Places where a test can stop a process: see injection.h.
 *
 * At an injection point a process acquires and releases an advisory lock in share mode.  A session
 * that ran pg_advisory_lock(hashtext(POINT), hashtext(APPLICATION_NAME)) holds the conflicting lock.
 * So a test chooses by application_name the process to stop, sees in pg_locks when the process has
 * arrived, and can terminate the process while it waits.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/backend_status.h"

#ifdef ATP_INJECTION_POINTS

/* The fourth field of a LOCKTAG for advisory locks with two keys. */
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
	/* a session-level lock, because some injection points are outside of any transaction */
	(void) LockAcquire(&tag, ShareLock, true, false);
	(void) LockRelease(&tag, ShareLock, true);
}

#endif
