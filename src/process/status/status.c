/*
 * status.c
 *		Live status of the consumers: see status.h.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "common/clock.h"
#include "config/claim.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity_log.h"
#include "miscadmin.h"
#include "process/status/lag.h"
#include "process/status/process.h"
#include "process/status/status.h"
#include "common/shared.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "tables/repos/multi_source.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_stream_status);
PG_FUNCTION_INFO_V1(atp_consumer_pid);

/* The status of a subscription. */
typedef struct StatusSlot
{
	bool		in_use;
	Oid			database;
	Oid			owner;			/* the role that may see the slot */
	char		id[ATP_ID_LEN + 1];
	char		name[ATP_NAME_MAX + 1]; /* when the last process began */
	char		target[NAMEDATALEN];	/* the target, while a process runs */
	int			pid;
	AtpState	state;
	bool		follows;		/* lets a faster source of the target process events first */
	TimestampTz connected_at;	/* 0: not connected ... */
	TimestampTz away_since;		/* ... since this time; or since the process began, if never connected */
	bool		url;			/* the URL has parameters of its own */
	bool		collections;	/* filtered by the server */
	bool		dids;
	bool		compressed;
	int64		received;		/* messages */
	int64		bytes;
	int64		batches;
	int64		reconnects;
	int64		drops[ATP_DROP_COUNT];
	int64		skips[ATP_SKIP_COUNT];
	char		error[256];		/* the last error, for people */
	TimestampTz error_at;		/* 0: no error */
	bool		failed;			/* the last error ended the process, and is not in the log yet */
	AtpLag		lag;			/* of the present connection, or of all pages read in a row */
	bool		by_pages;		/* each page needs a connection of its own */
	TimestampTz current_at;		/* the tables have all that the directory had at this time; 0: unknown */
	TimestampTz quiet_since;	/* since when the connection has brought nothing */
	bool		caught_up;		/* the connection has brought all that the directory had ... */
	bool		waits;			/* ... or brings nothing now: the process waits, and all that has come is committed */
} StatusSlot;

/* M-31: a log may be behind by so much, and a connection without anything to send is silent for so long. */
#define SILENCE_US		((TimestampTz) Max(atp_plc_lag_ms, ATP_PLC_LAG_MIN_MS) * 1000)

static int	max_subscriptions;	/* GUC: slots in shared memory */

static StatusSlot *slots = NULL;	/* shared; NULL when not preloaded */
static StatusSlot private_slot;
static StatusSlot *my_slot = &private_slot;

static const char *const state_names[] = {
	[ATP_STATE_STARTING] = "starting",
	[ATP_STATE_CONNECTING] = "connecting",
	[ATP_STATE_STREAMING] = "streaming",
	[ATP_STATE_HISTORY] = "history",
	[ATP_STATE_WAITING] = "waiting",
	[ATP_STATE_ENDED] = "not running",
};

static Size
slots_size(void)
{
	return mul_size(max_subscriptions, sizeof(StatusSlot));
}

/*
 * Is this subscription of the current database connected, or was it within the last within_ms?  A
 * subscription without a slot counts as connected, since a process is about to start.
 */
static bool
is_connected(const char *name, int within_ms)
{
	bool		connected = false;
	bool		known = false;

	atp_shared_lock(LW_SHARED);
	/* a removed subscription of this name may still have its slot */
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
		if (slots[i].in_use && slots[i].database == MyDatabaseId && strcmp(slots[i].name, name) == 0)
		{
			known = true;
			connected |= slots[i].state == ATP_STATE_STREAMING ||
				!TimestampDifferenceExceeds(slots[i].away_since, atp_time_of_day(), within_ms);
		}
	atp_shared_unlock();
	return slots != NULL && (connected || !known);
}

static bool
is_shared(const char *target)
{
	int			n = 0;

	atp_shared_lock(LW_SHARED);
	for (int i = 0; slots != NULL && i < max_subscriptions && n < 2; i++)
		n += slots[i].in_use && slots[i].pid != 0 && slots[i].database == MyDatabaseId && strcmp(slots[i].target, target) == 0;
	atp_shared_unlock();
	return n > 1;
}

void
atp_status_follows(bool follows)
{
	bool		has_leader = false;

	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
	{
		const StatusSlot *slot = &slots[i];

		has_leader |= slot != my_slot && slot->in_use && slot->database == MyDatabaseId && slot->state == ATP_STATE_STREAMING &&
			!slot->follows && strcmp(slot->target, my_slot->target) == 0;
	}
	my_slot->follows = follows && has_leader;
	atp_shared_unlock();
}

/* No lock: only this process writes the flag. */
bool
atp_status_is_second(void)
{
	return my_slot->follows;
}

static const AtpRunning running = {is_connected, is_shared};

void
atp_status_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomIntVariable("atproto.max_subscriptions",
							"Number of subscriptions, in all databases, whose live status is kept.",
							NULL, &max_subscriptions, 64, 1, 4096,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	atp_shared_part(slots_size, (void **) &slots);
	atp_multi_source_set_running(&running);
}

static void
set_state(AtpState state)
{
	bool		connected = state == ATP_STATE_STREAMING;

	my_slot->follows = false;
	if (my_slot->state == ATP_STATE_STREAMING || my_slot->away_since == 0)
		my_slot->away_since = atp_time_of_day();
	my_slot->state = state;
	my_slot->connected_at = connected ? atp_time_of_day() : 0;
	my_slot->quiet_since = my_slot->connected_at;
	my_slot->caught_up = my_slot->waits = false;
	/* rates must not include the time between two connections, which between two pages is short */
	if (connected && !my_slot->by_pages)
		memset(&my_slot->lag, 0, sizeof(my_slot->lag));
}

/* A subscription that was renamed has a new process while the process of the old name ends, and the slot is the new one's. */
static void
detach_slot(int code, Datum arg)
{
	atp_shared_lock(LW_EXCLUSIVE);
	if (my_slot->pid == MyProcPid)
	{
		my_slot->pid = 0;
		my_slot->by_pages = false;
		set_state(ATP_STATE_ENDED);
	}
	atp_shared_unlock();
}

/* The slot of a subscription, created if missing; NULL: no free slot.  The caller holds the lock. */
static StatusSlot *
find_slot(Oid database, Oid owner, const char *id, const char *name)
{
	StatusSlot *free_slot = NULL;

	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
	{
		StatusSlot *slot = &slots[i];

		if (slot->in_use && slot->database == database && strcmp(slot->id, id) == 0)
		{
			if (slot->owner == owner)
				return slot;
			/* clear the slot: a former owner's error texts may quote servers, and are not for the new owner */
			free_slot = slot;
			break;
		}
		if (!slot->in_use && free_slot == NULL)
			free_slot = slot;
	}
	if (free_slot != NULL)
	{
		memset(free_slot, 0, sizeof(StatusSlot));
		free_slot->in_use = true;
		free_slot->database = database;
		free_slot->owner = owner;
		free_slot->state = ATP_STATE_ENDED;
		strlcpy(free_slot->id, id, sizeof(free_slot->id));
		strlcpy(free_slot->name, name, sizeof(free_slot->name));
	}
	return free_slot;
}

/*
 * Free the slots of former subscriptions of this name, for a database without a manager, which would call
 * atp_status_keep().  The caller holds the lock.
 */
static void
free_former_slots(const char *id, const char *name)
{
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
	{
		StatusSlot *slot = &slots[i];

		if (slot->database == MyDatabaseId && slot->pid == 0 && strcmp(slot->name, name) == 0 && strcmp(slot->id, id) != 0)
			slot->in_use = false;
	}
}

static void
set_error(StatusSlot *slot, const char *error)
{
	atp_shared_text(slot->error, sizeof(slot->error), error);
	slot->error_at = atp_time_of_day();
}

/* The subscription whose process's end is reported. */
static struct
{
	Oid			database;
	Oid			owner;
	const char *id;
	const char *name;
}			mine;

static void
fail_subscription(Oid database, Oid owner, const char *id, const char *name, const char *error)
{
	StatusSlot *slot;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((slot = find_slot(database, owner, id, name)) != NULL)
	{
		set_error(slot, error);
		slot->failed = true;
	}
	atp_shared_unlock();
}

static void
report_end(const char *error)
{
	fail_subscription(mine.database, mine.owner, mine.id, mine.name, error);
}

void
atp_status_not_started(const AtpSubscription *sub, const char *error)
{
	fail_subscription(MyDatabaseId, sub->owner, sub->id, sub->name, error);
}

char *
atp_status_failure(const char *id, const char *name, TimestampTz *at)
{
	char	   *error = NULL;
	char		copy[sizeof(private_slot.error)];
	StatusSlot *slot;

	atp_shared_lock(LW_EXCLUSIVE);
	slot = find_slot(MyDatabaseId, GetUserId(), id, name);
	if (slot != NULL && slot->failed)
	{
		memcpy(copy, slot->error, sizeof(copy));
		*at = slot->error_at;
		slot->failed = false;
		error = copy;
	}
	atp_shared_unlock();
	return error != NULL ? pstrdup(error) : NULL;
}

void
atp_status_report_end(Oid database, Oid owner, const char *id, const char *name)
{
	mine.database = database;
	mine.owner = owner;
	mine.id = MemoryContextStrdup(TopMemoryContext, id);
	mine.name = MemoryContextStrdup(TopMemoryContext, name);
	atp_process_report_end(report_end);
}

void
atp_status_attach(const char *id, const char *name)
{
	StatusSlot *slot;

	atp_shared_lock(LW_EXCLUSIVE);
	free_former_slots(id, name);
	slot = find_slot(MyDatabaseId, GetUserId(), id, name);
	if (slot != NULL)
	{
		my_slot = slot;
		/* the subscription may have been renamed */
		strlcpy(slot->name, name, sizeof(slot->name));
	}
	my_slot->owner = GetUserId();
	my_slot->pid = MyProcPid;
	my_slot->current_at = 0;
	set_state(ATP_STATE_STARTING);
	atp_shared_unlock();
	if (slots != NULL && slot == NULL)
		ereport(LOG,
				(errmsg("no room in shared memory for the status of subscription \"%s\"", name),
				 errhint("Increase \"%s\".", "atproto.max_subscriptions")));
	before_shmem_exit(detach_slot, (Datum) 0);
}

void
atp_status_target(const char *target)
{
	atp_shared_lock(LW_EXCLUSIVE);
	strlcpy(my_slot->target, target, NAMEDATALEN);
	atp_shared_unlock();
}

void
atp_status_state(AtpState state)
{
	Assert(state <= ATP_STATE_ENDED);
	atp_shared_lock(LW_EXCLUSIVE);
	if (my_slot->pid == MyProcPid)
		set_state(state);
	atp_shared_unlock();
}

void
atp_status_error(AtpDrop drop, const char *error)
{
	atp_shared_lock(LW_EXCLUSIVE);
	if (drop != ATP_DROP_NONE)
	{
		my_slot->drops[drop]++;
		my_slot->reconnects++;
	}
	set_error(my_slot, error);
	atp_shared_unlock();
}

void
atp_status_request(const AtpStreamRequest *request, bool compressed)
{
	atp_shared_lock(LW_EXCLUSIVE);
	my_slot->url = request->url;
	my_slot->collections = request->collections;
	my_slot->dids = request->dids;
	my_slot->compressed = compressed;
	atp_shared_unlock();
}

void
atp_status_received(int64 messages, int64 bytes)
{
	atp_shared_lock(LW_EXCLUSIVE);
	my_slot->received += messages;
	my_slot->bytes += bytes;
	if (messages > 0)
		my_slot->quiet_since = atp_time_of_day();
	atp_shared_unlock();
}

void
atp_status_skips(const int64 *skips)
{
	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		my_slot->skips[i] += skips[i];
	atp_shared_unlock();
}

void
atp_status_batch(const int64 *skips)
{
	atp_shared_lock(LW_EXCLUSIVE);
	my_slot->batches++;
	atp_shared_unlock();
	atp_status_skips(skips);
}

void
atp_status_by_pages(bool by_pages)
{
	atp_shared_lock(LW_EXCLUSIVE);
	if (by_pages && !my_slot->by_pages)
		memset(&my_slot->lag, 0, sizeof(my_slot->lag));
	my_slot->by_pages = by_pages;
	atp_shared_unlock();
}

bool
atp_status_note_lag(int64 time, int64 events)
{
	bool		caught_up;

	atp_shared_lock(LW_EXCLUSIVE);
	caught_up = atp_lag_note(&my_slot->lag, atp_time_of_day(), time, events);
	atp_shared_unlock();
	return caught_up;
}

/*
 * While a process waits whose connection has caught up, or has brought nothing for long, the tables are as new as the directory.  A
 * time in the future is from before the clock was set back.
 */
static TimestampTz
current_at(const StatusSlot *slot, TimestampTz now)
{
	if (slot->waits && (slot->caught_up || (slot->quiet_since <= now && now - slot->quiet_since >= SILENCE_US)))
		return now;
	return slot->current_at <= now ? slot->current_at : 0;
}

void
atp_status_waits(bool waits)
{
	atp_shared_lock(LW_EXCLUSIVE);
	if (my_slot->waits)
	{
		TimestampTz now = atp_time_of_day();

		my_slot->current_at = current_at(my_slot, now);
		my_slot->caught_up = my_slot->current_at == now;
	}
	my_slot->waits = waits;
	atp_shared_unlock();
}

void
atp_status_committed(TimestampTz time)
{
	TimestampTz now = atp_time_of_day();

	if (time == 0)
		return;
	atp_shared_lock(LW_EXCLUSIVE);
	my_slot->caught_up = now - time <= SILENCE_US;
	my_slot->current_at = my_slot->caught_up ? Max(my_slot->current_at, Min(time, now)) : 0;
	atp_shared_unlock();
}

int
atp_status_slots(void)
{
	return slots == NULL ? 0 : max_subscriptions;
}

int
atp_status_slots_used(void)
{
	int			n = 0;

	atp_shared_lock(LW_SHARED);
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
		n += slots[i].in_use;
	atp_shared_unlock();
	return n;
}

bool
atp_status_has_process(const char *id)
{
	bool		has = false;

	atp_shared_lock(LW_SHARED);
	for (int i = 0; slots != NULL && i < max_subscriptions && !has; i++)
		has = slots[i].in_use && slots[i].pid != 0 && slots[i].database == MyDatabaseId && strcmp(slots[i].id, id) == 0;
	atp_shared_unlock();
	return has;
}

void
atp_status_forget(Oid database)
{
	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
		if (slots[i].in_use && slots[i].database == database)
			slots[i].in_use = false;
	atp_shared_unlock();
}

void
atp_status_keep(List *subscriptions)
{
	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; slots != NULL && i < max_subscriptions; i++)
	{
		StatusSlot *slot = &slots[i];
		bool		keep = slot->pid != 0;
		ListCell   *lc;

		if (!slot->in_use || slot->database != MyDatabaseId)
			continue;
		foreach(lc, subscriptions)
			keep |= strcmp(slot->id, ((AtpSubscription *) lfirst(lc))->id) == 0;
		slot->in_use = keep;
	}
	atp_shared_unlock();
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

/* Counts of reasons as a JSON object; reasons with count 0 are left out. */
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

/* The names of the filters that the server applies. */
static Datum
filters_array(const StatusSlot *slot)
{
	Datum		names[3];
	int			n = 0;

	if (slot->url)
		names[n++] = CStringGetTextDatum("url");
	if (slot->collections)
		names[n++] = CStringGetTextDatum("collections");
	if (slot->dids)
		names[n++] = CStringGetTextDatum("dids");
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false, TYPALIGN_INT));
}

/* SQL: atproto_internal.stream_status() */
Datum
atp_stream_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	StatusSlot *copy = NULL;
	int			n = 0;
	bool		all = has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);

	InitMaterializedSRF(fcinfo, 0);
	if (slots != NULL)
	{
		copy = palloc(max_subscriptions * sizeof(StatusSlot));
		atp_shared_lock(LW_SHARED);
		for (int i = 0; i < max_subscriptions; i++)
			if (slots[i].in_use && slots[i].database == MyDatabaseId)
				copy[n++] = slots[i];
		atp_shared_unlock();
	}
	for (int i = 0; i < n; i++)
	{
		StatusSlot *slot = &copy[i];
		TimestampTz now = atp_time_of_day();
		double		rate = atp_lag_rate(&slot->lag, now);
		int64		left = atp_lag_left(&slot->lag, now);
		Datum		values[19];
		bool		nulls[19] = {0};

		if (!all && !has_privs_of_role(GetUserId(), slot->owner))
			continue;
		values[0] = CStringGetTextDatum(slot->name);
		values[1] = Int32GetDatum(slot->pid);
		nulls[1] = slot->pid == 0;
		values[2] = CStringGetTextDatum(slot->state == ATP_STATE_ENDED && !slot->failed ? "ended" : state_names[slot->state]);
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
		values[12] = filters_array(slot);
		nulls[12] = slot->connected_at == 0;
		values[13] = BoolGetDatum(slot->compressed);
		nulls[13] = slot->connected_at == 0;
		values[14] = BoolGetDatum(slot->follows);
		nulls[14] = slot->connected_at == 0;
		values[15] = Float8GetDatum(rate);
		nulls[15] = (slot->connected_at == 0 && !slot->by_pages) || rate < 0;
		values[16] = TimestampTzGetDatum(now + left);
		nulls[16] = (slot->connected_at == 0 && !slot->by_pages) || left < 0;
		values[17] = DirectFunctionCall1(uuid_in, CStringGetDatum(slot->id));
		values[18] = TimestampTzGetDatum(current_at(slot, now));
		nulls[18] = current_at(slot, now) == 0;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* A consumer's role is its subscription's owner. */
static bool
may_see_process(int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);

	return proc != NULL &&
		(has_privs_of_role(GetUserId(), proc->roleId) || has_privs_of_role(GetUserId(), ROLE_PG_MONITOR));
}

/* SQL: atproto_internal.consumer_pid(name) */
Datum
atp_consumer_pid(PG_FUNCTION_ARGS)
{
	int			pid = atp_holder_pid(text_to_cstring(PG_GETARG_TEXT_PP(0)));

	/* other roles do not learn the names of subscriptions */
	if (pid == 0 || !may_see_process(pid))
		PG_RETURN_NULL();
	PG_RETURN_INT32(pid);
}
