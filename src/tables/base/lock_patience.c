/*
 * lock_patience.c
 *		How long a function that reads the tables of all targets waits for a lock: see lock_patience.h.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/proc.h"
#include "tables/base/lock_patience.h"
#include "utils/guc.h"

#define WAIT_MS		5000
#define WAIT_NEXT_MS	100		/* after a wait in vain in the same statement */

/* Start of the last statement that has waited in vain. */
static TimestampTz in_vain;

void
atp_lock_patience(void)
{
	int			ms = in_vain == GetCurrentStatementStartTimestamp() ? WAIT_NEXT_MS : WAIT_MS;

	if (LockTimeout == 0 || LockTimeout > ms)
		(void) set_config_option("lock_timeout", psprintf("%d", ms), PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* The server ends the wait of a deadlock's victim sooner. */
bool
atp_lock_is_reason(int sqlerrcode)
{
	if (sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE && sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
		return false;
	in_vain = GetCurrentStatementStartTimestamp();
	return true;
}
