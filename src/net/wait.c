/*
 * wait.c
 *		The one place where the consumer's processes wait.
 *
 * DROP DATABASE, a fast shutdown and every other barrier of the server need
 * each process to come here often: so nothing else in the consumer blocks, and
 * nothing waits with a transaction open.
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

/* What pg_stat_activity.wait_event shows. */
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
	/* who always has work finds his latch set, and then waiting does not tell; a new server could not start meanwhile */
	if (!PostmasterIsAlive())
		proc_exit(1);
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}
