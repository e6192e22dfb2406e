/*
 * untold.c
 *		Rows that are written without a change of what the tables say: readers of slots are not told (O-24).
 *
 * The origin is reset before the commit, whose record must not have it: PostgreSQL passes over a transaction with a filtered
 * origin as a whole.
 */
#include "postgres.h"

#include "changes/untold.h"
#include "replication/origin.h"

void
atp_write_untold(void (*work) (void *arg), void *arg)
{
	AtpOriginId before = ATP_SESSION_ORIGIN;

	ATP_SESSION_ORIGIN = DoNotReplicateId;
	PG_TRY();
	{
		work(arg);
	}
	PG_FINALLY();
	{
		ATP_SESSION_ORIGIN = before;
	}
	PG_END_TRY();
}

bool
atp_is_untold(AtpOriginId origin)
{
	return origin == DoNotReplicateId;
}
