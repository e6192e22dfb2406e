/*
 * wait.c
 *		The one place where the background workers wait.
 *
 * DROP DATABASE, a fast shutdown and process signal barriers need every process to serve interrupts
 * often.  So no other code of these processes blocks, and no process waits here with an open
 * transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "net/wait.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "utils/guc.h"

/* The event shown in pg_stat_activity.wait_event. */
static uint32
wait_event(void)
{
	static uint32 info = 0;

	if (info == 0)
		info = atp_new_wait_event("AtprotoStream");
	return info;
}

static void
wait_for_many(const AtpSocketWait *sockets, int nsockets, long timeout_ms)
{
	WaitEventSet *set = atp_create_wait_event_set(nsockets + 2);
	WaitEvent	event;

	AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < nsockets; i++)
		AddWaitEventToSet(set, sockets[i].events, sockets[i].fd, NULL, NULL);
	(void) WaitEventSetWait(set, timeout_ms, &event, 1, wait_event());
	FreeWaitEventSet(set);
}

void
atp_wait(const AtpSocketWait *sockets, int nsockets, long timeout_ms)
{
	Assert(!IsTransactionState());

	if (nsockets > 1)
		wait_for_many(sockets, nsockets, timeout_ms);
	else
		(void) WaitLatchOrSocket(MyLatch,
								 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
								 (nsockets > 0 ? sockets[0].events : 0) |
								 (timeout_ms >= 0 ? WL_TIMEOUT : 0),
								 nsockets > 0 ? sockets[0].fd : PGINVALID_SOCKET,
								 timeout_ms, wait_event());
	ResetLatch(MyLatch);
	atp_serve_interrupts();
}

void
atp_serve_interrupts(void)
{
	/*
	 * A busy process always finds its latch set, so WaitLatch never reports the postmaster's death, and a new
	 * postmaster could not start while this process lives.
	 */
	if (!PostmasterIsAlive())
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}
