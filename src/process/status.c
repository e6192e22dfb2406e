/*
 * status.c
 *		Live status of the consumers.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "clock.h"
#include "config/claim.h"
#include "fmgr.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "process/status.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_stream_status);
PG_FUNCTION_INFO_V1(atp_consumer_pid);

/* The status of one subscription. */
typedef struct Slot
{
	bool		in_use;
	Oid			database;
	Oid			owner;			/* who may see it */
	char		name[ATP_NAME_MAX + 1];
	int			pid;
	AtpState	state;
	TimestampTz connected_at;	/* 0: not now */
	int64		received;		/* messages */
	int64		bytes;
	int64		batches;
	int64		reconnects;
	int64		drops[ATP_DROP_COUNT];
	int64		skips[ATP_SKIP_COUNT];
	char		error[256];		/* last one, for people */
	TimestampTz error_at;		/* 0: none */
} Slot;

typedef struct Slots
{
	LWLock	   *lock;
	int			failed_starts[ATP_MANAGERS_MAX];
	int			manager_pid[ATP_MANAGERS_MAX];
	int			n;
	Slot		slot[FLEXIBLE_ARRAY_MEMBER];
} Slots;

static int	max_subscriptions;	/* GUC: slots in shared memory */

static Slots *slots = NULL;	/* shared; NULL when not preloaded */
static Slot private_slot;
static Slot *my_slot = &private_slot;

static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;

static const char *const state_names[] = {
	[ATP_STATE_STARTING] = "starting",
	[ATP_STATE_CONNECTING] = "connecting",
	[ATP_STATE_STREAMING] = "streaming",
	[ATP_STATE_WAITING] = "waiting",
	[ATP_STATE_ENDED] = "not running",
};

static Size
slots_size(void)
{
	return add_size(offsetof(Slots, slot), mul_size(max_subscriptions, sizeof(Slot)));
}

static void
request_slots(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(slots_size());
	RequestNamedLWLockTranche("atproto", 1);
}

static void
create_slots(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	slots = ShmemInitStruct("atproto", slots_size(), &found);
	if (!found)
	{
		memset(slots, 0, slots_size());
		slots->lock = &GetNamedLWLockTranche("atproto")->lock;
		slots->n = max_subscriptions;
	}
	LWLockRelease(AddinShmemInitLock);
}

void
atp_status_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomIntVariable("atproto.max_subscriptions",
							"Number of subscriptions, in all databases, whose live status is kept.",
							NULL, &max_subscriptions, 64, 1, 4096,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_slots;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_slots;
}

static void
lock_slots(LWLockMode mode)
{
	if (slots != NULL)
		LWLockAcquire(slots->lock, mode);
}

static void
unlock_slots(void)
{
	if (slots != NULL)
		LWLockRelease(slots->lock);
}

static void
detach(int code, Datum arg)
{
	lock_slots(LW_EXCLUSIVE);
	my_slot->pid = 0;
	my_slot->state = ATP_STATE_ENDED;
	my_slot->connected_at = 0;
	unlock_slots();
}

/* A subscription's slot, a new one if need be; NULL: there is no room.  The lock is held. */
static Slot *
find_slot(Oid database, Oid owner, const char *name)
{
	Slot	   *free_slot = NULL;

	for (int i = 0; slots != NULL && i < slots->n; i++)
	{
		Slot	   *slot = &slots->slot[i];

		if (slot->in_use && slot->database == database && strcmp(slot->name, name) == 0)
		{
			if (slot->owner == owner)
				return slot;
			/* what servers said to another owner's subscription is not for this one */
			free_slot = slot;
			break;
		}
		if (!slot->in_use && free_slot == NULL)
			free_slot = slot;
	}
	if (free_slot != NULL)
	{
		memset(free_slot, 0, sizeof(Slot));
		free_slot->in_use = true;
		free_slot->database = database;
		free_slot->owner = owner;
		free_slot->state = ATP_STATE_ENDED;
		strlcpy(free_slot->name, name, sizeof(free_slot->name));
	}
	return free_slot;
}

static void
set_error(Slot *slot, const char *error)
{
	strlcpy(slot->error, error, sizeof(slot->error));
	/* the copy may have cut a character in two */
	slot->error[pg_mbcliplen(slot->error, strlen(slot->error), sizeof(slot->error) - 1)] = '\0';
	slot->error_at = atp_time_of_day();
}

/* Whose end is reported. */
static struct
{
	Oid			database;
	Oid			owner;
	const char *name;
}			mine;
static emit_log_hook_type prev_emit_log_hook = NULL;

/* What is caught is not logged at this level; what is logged ends the process. */
static void
report_end(ErrorData *edata)
{
	Slot	   *slot;

	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (edata->elevel < ERROR || edata->elevel > FATAL || edata->message == NULL || proc_exit_inprogress ||
		/* somebody wanted it to end, or nobody can ask */
		ERRCODE_TO_CATEGORY(edata->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||
		edata->sqlerrcode == ERRCODE_UNDEFINED_DATABASE)
		return;
	lock_slots(LW_EXCLUSIVE);
	if ((slot = find_slot(mine.database, mine.owner, mine.name)) != NULL)
		set_error(slot, edata->message);
	unlock_slots();
}

void
atp_status_report_end(Oid database, Oid owner, const char *name)
{
	mine.database = database;
	mine.owner = owner;
	mine.name = MemoryContextStrdup(TopMemoryContext, name);
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = report_end;
}

void
atp_status_attach(const char *name)
{
	Slot	   *slot;

	lock_slots(LW_EXCLUSIVE);
	slot = find_slot(MyDatabaseId, GetUserId(), name);
	if (slot != NULL)
		my_slot = slot;
	my_slot->owner = GetUserId();
	my_slot->pid = MyProcPid;
	my_slot->state = ATP_STATE_STARTING;
	unlock_slots();
	if (slots != NULL && slot == NULL)
		ereport(LOG,
				(errmsg("no room in shared memory for the status of subscription \"%s\"", name),
				 errhint("Increase \"%s\".", "atproto.max_subscriptions")));
	before_shmem_exit(detach, (Datum) 0);
}

void
atp_status_state(AtpState state)
{
	Assert(state <= ATP_STATE_ENDED);
	lock_slots(LW_EXCLUSIVE);
	my_slot->state = state;
	if (state == ATP_STATE_STREAMING)
		my_slot->connected_at = atp_time_of_day();
	else
		my_slot->connected_at = 0;
	unlock_slots();
}

void
atp_status_error(AtpDrop drop, const char *error)
{
	lock_slots(LW_EXCLUSIVE);
	if (drop != ATP_DROP_NONE)
	{
		my_slot->drops[drop]++;
		my_slot->reconnects++;
	}
	set_error(my_slot, error);
	unlock_slots();
}

void
atp_status_received(int64 messages, int64 bytes)
{
	lock_slots(LW_EXCLUSIVE);
	my_slot->received += messages;
	my_slot->bytes += bytes;
	unlock_slots();
}

void
atp_status_skips(const int64 *skips)
{
	lock_slots(LW_EXCLUSIVE);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		my_slot->skips[i] += skips[i];
	unlock_slots();
}

void
atp_status_batch(const int64 *skips)
{
	lock_slots(LW_EXCLUSIVE);
	my_slot->batches++;
	unlock_slots();
	atp_status_skips(skips);
}

static void
manager_ends(int code, Datum manager)
{
	lock_slots(LW_EXCLUSIVE);
	slots->manager_pid[DatumGetInt32(manager)] = 0;
	unlock_slots();
}

int
atp_manager_starting(int manager)
{
	int			failed;

	lock_slots(LW_EXCLUSIVE);
	failed = slots->failed_starts[manager]++;
	slots->manager_pid[manager] = MyProcPid;
	unlock_slots();
	before_shmem_exit(manager_ends, Int32GetDatum(manager));
	return failed;
}

bool
atp_manager_is_failing(int manager)
{
	bool		failing;

	lock_slots(LW_SHARED);
	failing = slots->failed_starts[manager] > 0;
	unlock_slots();
	return failing;
}

int
atp_manager_pid(int manager)
{
	int			pid;

	lock_slots(LW_EXCLUSIVE);
	slots->failed_starts[manager] = 0;
	pid = slots->manager_pid[manager];
	unlock_slots();
	return pid;
}

void
atp_manager_connected(int manager)
{
	lock_slots(LW_EXCLUSIVE);
	slots->failed_starts[manager] = 0;
	unlock_slots();
}

void
atp_status_forget(Oid database)
{
	lock_slots(LW_EXCLUSIVE);
	for (int i = 0; slots != NULL && i < slots->n; i++)
		if (slots->slot[i].in_use && slots->slot[i].database == database)
			slots->slot[i].in_use = false;
	unlock_slots();
}

void
atp_status_keep(List *subscriptions)
{
	lock_slots(LW_EXCLUSIVE);
	for (int i = 0; slots != NULL && i < slots->n; i++)
	{
		Slot	   *slot = &slots->slot[i];
		bool		keep = slot->pid != 0;
		ListCell   *lc;

		if (!slot->in_use || slot->database != MyDatabaseId)
			continue;
		foreach(lc, subscriptions)
			keep |= strcmp(slot->name, ((AtpSubscription *) lfirst(lc))->name) == 0;
		slot->in_use = keep;
	}
	unlock_slots();
}

static const char *
drop_name(int i)
{
	return atp_drop_name(i);
}

static const char *
skip_name(int i)
{
	return atp_skip_name(i);
}

/* Counted reasons as an object; reasons that never happened are left out. */
static Datum
counts_jsonb(const int64 *counts, int n, const char *(*name) (int))
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	for (int i = 0; i < n; i++)
		if (counts[i] > 0)
			appendStringInfo(&buf, "%s\"%s\": " INT64_FORMAT, buf.len > 1 ? ", " : "", name(i), counts[i]);
	appendStringInfoChar(&buf, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
}

/* SQL: atproto.stream_status() */
Datum
atp_stream_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Slot	   *copy = NULL;
	int			n = 0;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);

	InitMaterializedSRF(fcinfo, 0);
	if (slots != NULL)
	{
		copy = palloc(slots->n * sizeof(Slot));
		lock_slots(LW_SHARED);
		for (int i = 0; i < slots->n; i++)
			if (slots->slot[i].in_use && slots->slot[i].database == MyDatabaseId)
				copy[n++] = slots->slot[i];
		unlock_slots();
	}
	for (int i = 0; i < n; i++)
	{
		Slot	   *slot = &copy[i];
		Datum		values[12];
		bool		nulls[12] = {0};

		if (!all && !has_privs_of_role(GetUserId(), slot->owner))
			continue;
		values[0] = CStringGetTextDatum(slot->name);
		values[1] = Int32GetDatum(slot->pid);
		nulls[1] = slot->pid == 0;
		values[2] = CStringGetTextDatum(state_names[slot->state]);
		values[3] = TimestampTzGetDatum(slot->connected_at);
		nulls[3] = slot->connected_at == 0;
		values[4] = Int64GetDatum(slot->received);
		values[5] = Int64GetDatum(slot->bytes);
		values[6] = Int64GetDatum(slot->batches);
		values[7] = Int64GetDatum(slot->reconnects);
		values[8] = counts_jsonb(slot->drops, ATP_DROP_COUNT, drop_name);
		values[9] = counts_jsonb(slot->skips, ATP_SKIP_COUNT, skip_name);
		values[10] = CStringGetTextDatum(slot->error);
		nulls[10] = slot->error_at == 0;
		values[11] = TimestampTzGetDatum(slot->error_at);
		nulls[11] = slot->error_at == 0;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* SQL: atproto.consumer_pid(name) */
Datum
atp_consumer_pid(PG_FUNCTION_ARGS)
{
	int			pid = atp_holder_pid(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	if (pid == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT32(pid);
}
