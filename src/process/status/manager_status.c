/*
 * manager_status.c
 *		Shared memory about the managers: see manager_status.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "process/status/manager_status.h"
#include "common/shared.h"
#include "storage/ipc.h"

typedef struct Managers
{
	int			failed_starts[ATP_MANAGERS_MAX];
	int			pid[ATP_MANAGERS_MAX];
	bool		has_run[ATP_MANAGERS_MAX];
	pg_atomic_uint32 wakes[ATP_MANAGERS_MAX];	/* by the database's oid */
} Managers;

static Managers *managers = NULL;	/* shared */

static Size
managers_size(void)
{
	return sizeof(Managers);
}

void
atp_manager_status_init(void)
{
	atp_shared_part(managers_size, (void **) &managers);
}

static void
manager_ends(int code, Datum manager)
{
	atp_shared_lock(LW_EXCLUSIVE);
	managers->pid[DatumGetInt32(manager)] = 0;
	atp_shared_unlock();
}

int
atp_manager_starting(int manager)
{
	int			failed;

	atp_shared_lock(LW_EXCLUSIVE);
	failed = managers->failed_starts[manager]++;
	managers->pid[manager] = MyProcPid;
	managers->has_run[manager] = true;
	atp_shared_unlock();
	before_shmem_exit(manager_ends, Int32GetDatum(manager));
	return failed;
}

bool
atp_manager_is_failing(int manager)
{
	bool		failing;

	atp_shared_lock(LW_SHARED);
	failing = managers->failed_starts[manager] > 0;
	atp_shared_unlock();
	return failing;
}

int
atp_manager_pid(int manager)
{
	int			pid;

	atp_shared_lock(LW_EXCLUSIVE);
	managers->failed_starts[manager] = 0;
	pid = managers->pid[manager];
	atp_shared_unlock();
	return pid;
}

int
atp_managers_running(void)
{
	int			n = 0;

	atp_shared_lock(LW_SHARED);
	for (int i = 0; managers != NULL && i < ATP_MANAGERS_MAX; i++)
		n += managers->pid[i] != 0;
	atp_shared_unlock();
	return n;
}

bool
atp_manager_has_run(int manager)
{
	bool		has_run;

	atp_shared_lock(LW_SHARED);
	has_run = managers != NULL && managers->has_run[manager];
	atp_shared_unlock();
	return has_run;
}

/* Also called where nothing may fail, right after a commit. */
void
atp_manager_note_wake(void)
{
	if (managers != NULL)
		pg_atomic_fetch_add_u32(&managers->wakes[MyDatabaseId % ATP_MANAGERS_MAX], 1);
}

uint32
atp_manager_wakes(void)
{
	uint32		wakes = pg_atomic_read_u32(&managers->wakes[MyDatabaseId % ATP_MANAGERS_MAX]);

	pg_memory_barrier();		/* what the caller reads next is read later */
	return wakes;
}

void
atp_manager_connected(int manager)
{
	atp_shared_lock(LW_EXCLUSIVE);
	managers->failed_starts[manager] = 0;
	atp_shared_unlock();
}
