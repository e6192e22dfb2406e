/*
 * tid_generate.c
 *		tid_generate(): TIDs that strictly increase and never repeat (T-09).
 *
 * When the module is preloaded, all processes of the server share one counter
 * (the microsecond of the last TID) and one clock id, drawn at random when the
 * server starts.  A new TID has the clock's time, or the last TID's plus one if
 * the clock has not advanced or has stepped back.
 *
 * The counter must not fall back at a restart either, even if the clock has.
 * So times are reserved in blocks: the file "atproto.tid" in the data directory
 * has a time, and all TIDs given out are below it.  The file is written, with
 * fsync, before the first TID at or above its time.  A server starts counting
 * at the file's time.  One case is not covered: a data directory restored from
 * an old copy, or a promoted standby, on a machine whose clock is behind.  Then
 * only the clock id, one of 1024, keeps TIDs distinct.
 *
 * When the module is not preloaded, each process counts for itself.  Up to 1024
 * running processes have distinct clock ids.  A process is never ahead of the
 * clock by more than LEAD_MICROS, so that a later process with the same clock
 * id begins after it.  Only running processes notice a clock that steps back.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "types/glue.h"
#include "types/tid_generate.h"

#include "core/syntax/tid.h"

#define RESERVATION_FILE	"atproto.tid"
/* TIDs may be ahead of the clock by this much after a restart. */
#define RESERVATION_MICROS	USECS_PER_SEC

/* A process that counts for itself waits when its TIDs are this far ahead of the clock. */
#define LEAD_MICROS			100
/* A greater distance cannot come from a burst of TIDs: the clock has stepped back. */
#define STEP_MICROS			(INT64CONST(10) * LEAD_MICROS)

typedef struct TidShared
{
	LWLock	   *lock;			/* protects the extension of the reservation */
	unsigned	clock;
	pg_atomic_uint64 last;		/* microsecond of the last TID */
	pg_atomic_uint64 reserved;	/* TIDs must be below this microsecond */
} TidShared;

static TidShared *shared = NULL;

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* T-10: microseconds since 1970, the unit of TIDs. */
static uint64
now_micros(void)
{
	return (uint64) (GetCurrentTimestamp() + ATP_UNIX_TO_POSTGRES);
}

/* The time in the reservation file; 0 without a file. */
static uint64
read_reservation(void)
{
	FILE	   *file = AllocateFile(RESERVATION_FILE, PG_BINARY_R);
	char		line[32] = "";
	char	   *end = line;
	unsigned long long micros = 0;

	if (file == NULL)
	{
		if (errno == ENOENT)
			return 0;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", RESERVATION_FILE)));
	}
	if (fgets(line, sizeof(line), file) != NULL)
		micros = strtoull(line, &end, 10);
	FreeFile(file);
	if (end == line || *end != '\n' || micros > ATP_TID_MAX_MICROS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("file \"%s\" is damaged", RESERVATION_FILE),
				 errhint("Remove it if the clock of this machine has never gone back.")));
	return (uint64) micros;
}

/* Ensures that no later server gives out a TID before this time. */
static void
write_reservation(uint64 micros)
{
	FILE	   *file = AllocateFile(RESERVATION_FILE ".tmp", PG_BINARY_W);

	if (file == NULL ||
		fprintf(file, UINT64_FORMAT "\n", micros) < 0 ||
		FreeFile(file) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", RESERVATION_FILE ".tmp")));
	/* Syncs the file, its new name and the directory. */
	(void) durable_rename(RESERVATION_FILE ".tmp", RESERVATION_FILE, ERROR);
}

/* Reserves times up to RESERVATION_MICROS after micros. */
static void
extend_reservation(uint64 micros)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (micros >= pg_atomic_read_u64(&shared->reserved))
	{
		uint64		reserved = pg_atomic_read_u64(&shared->reserved);

		/* The first reservation of this server: start where the previous server's reservation ended. */
		if (reserved == 0)
		{
			uint64		before = read_reservation();

			if (pg_atomic_read_u64(&shared->last) < before)
				pg_atomic_write_u64(&shared->last, before);
			micros = Max(micros, before);
		}
		reserved = micros + RESERVATION_MICROS;
		write_reservation(reserved);
		/*
		 * next_shared() takes no lock: a process that sees "reserved" must see "last", too, or the process would
		 * give out a TID of the time before the restart again.
		 */
		pg_write_barrier();
		pg_atomic_write_u64(&shared->reserved, reserved);
	}
	LWLockRelease(shared->lock);
}

static uint64
next_shared(void)
{
	for (;;)
	{
		uint64		now = now_micros();
		uint64		reserved = pg_atomic_read_u64(&shared->reserved);
		uint64		last;
		uint64		micros;

		/* extend_reservation() writes "last" before "reserved": read them in the reverse order. */
		pg_read_barrier();
		last = pg_atomic_read_u64(&shared->last);
		micros = Max(now, last + 1);
		if (micros >= reserved)
		{
			extend_reservation(micros);
			continue;
		}
		if (pg_atomic_compare_exchange_u64(&shared->last, &last, micros))
			return atp_tid_make(micros, shared->clock);
		CHECK_FOR_INTERRUPTS();
	}
}

/* The next TID without preloading: this process counts for itself. */
static uint64
next_local(void)
{
	static uint64 last = 0;
	static int	clock = -1;
	uint64		now = now_micros();

	if (clock < 0)
	{
		/* The salt is the same for all processes of a server, and changes at each start. */
		uint32		salt = DatumGetUInt32(hash_uint32((uint32) PgStartTime)) ^
		(uint32) GetSystemIdentifier();

		clock = (salt + (uint32) ATP_MY_PROC_NUMBER) & ATP_TID_MAX_CLOCK;
	}

	/* Wait for the clock during a burst, but not after the clock has stepped back. */
	while (last > now + LEAD_MICROS && last <= now + STEP_MICROS)
	{
		CHECK_FOR_INTERRUPTS();
		now = now_micros();
	}
	last = Max(now, last + 1);
	return atp_tid_make(last, clock);
}

uint64_t
atp_tid_next(void)
{
	uint64		tid = shared != NULL ? next_shared() : next_local();

	if (tid > ATP_TID_MAX_CANONICAL)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the clock is beyond what a TID can hold")));
	return tid;
}

PG_FUNCTION_INFO_V1(atp_pg_tid_generate);
Datum
atp_pg_tid_generate(PG_FUNCTION_ARGS)
{
	return AtpTidGetDatum(atp_tid_next());
}

/* --- shared memory --- */

static void
request_shared(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(MAXALIGN(sizeof(TidShared)));
	RequestNamedLWLockTranche("atproto_tid", 1);
}

static void
start_shared(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("atproto tid_generate", sizeof(TidShared), &found);
	if (!found)
	{
		uint16		random;

		if (!pg_strong_random(&random, sizeof(random)))
			random = (uint16) GetCurrentTimestamp();
		shared->lock = &GetNamedLWLockTranche("atproto_tid")->lock;
		shared->clock = random & ATP_TID_MAX_CLOCK;
		pg_atomic_init_u64(&shared->last, 0);
		pg_atomic_init_u64(&shared->reserved, 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
atp_tid_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_shared;
}
