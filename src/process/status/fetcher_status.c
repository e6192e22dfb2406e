/*
 * fetcher_status.c
 *		Live status of the fetchers: see fetcher_status.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/clock.h"
#include "fetch/engine/fetch.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "process/status/fetcher_status.h"
#include "process/status/manager_status.h"
#include "process/status/process.h"
#include "common/shared.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_fetcher_status);

/* The status of a database's fetcher since its start; after its end, the last status. */
typedef struct FetcherEntry
{
	Oid			database;		/* InvalidOid: free */
	int			pid;			/* 0: no fetcher is running */
	bool		wanted;			/* no fetcher is running, but there is work */
	bool		waits;			/* the fetcher waits after a crash of the server */
	TimestampTz since;			/* when the fetcher began */
	int			running;		/* requests */
	AtpFetchCounts counts;
	char		error[256];		/* the error that ended a fetcher, for people */
	TimestampTz error_at;		/* 0: no error */
} FetcherEntry;

/* As many entries as managers: only a manager starts a fetcher. */
static FetcherEntry *entries = NULL;	/* shared; NULL when not preloaded */

static Size
entries_size(void)
{
	return mul_size(ATP_MANAGERS_MAX, sizeof(FetcherEntry));
}

void
atp_fetcher_status_init(void)
{
	atp_shared_part(entries_size, (void **) &entries);
}

/* The entry of a database, created if missing; NULL: no free entry.  The caller holds the lock. */
static FetcherEntry *
find_entry(Oid database)
{
	FetcherEntry *free_entry = NULL;

	for (int i = 0; entries != NULL && i < ATP_MANAGERS_MAX; i++)
	{
		if (entries[i].database == database)
			return &entries[i];
		if (!OidIsValid(entries[i].database) && free_entry == NULL)
			free_entry = &entries[i];
	}
	if (free_entry != NULL)
		*free_entry = (FetcherEntry) {.database = database};
	return free_entry;
}

static Oid	my_database = InvalidOid;

static void
clear_entry(int code, Datum arg)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(my_database)) != NULL)
	{
		entry->pid = entry->running = 0;
		entry->waits = false;
	}
	atp_shared_unlock();
}

/* The caller holds the lock. */
static void
set_error(FetcherEntry *entry, const char *error)
{
	atp_shared_text(entry->error, sizeof(entry->error), error);
	entry->error_at = atp_time_of_day();
}

static void
report_end(const char *error)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(my_database)) != NULL)
		set_error(entry, error);
	atp_shared_unlock();
}

void
atp_fetcher_status_not_started(const char *error)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(MyDatabaseId)) != NULL)
		set_error(entry, error);
	atp_shared_unlock();
}

void
atp_fetcher_status_waits(const char *why)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(my_database)) != NULL)
	{
		entry->waits = why != NULL;
		if (why != NULL)
			set_error(entry, why);
	}
	atp_shared_unlock();
}

void
atp_fetcher_status_report_end(Oid database)
{
	my_database = database;
	atp_process_report_end(report_end);
}

void
atp_fetcher_status_begin(void)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(my_database)) != NULL)
	{
		entry->pid = MyProcPid;
		entry->wanted = false;
		entry->since = atp_time_of_day();
		entry->counts = atp_fetch_counts;
	}
	atp_shared_unlock();
	before_shmem_exit(clear_entry, (Datum) 0);
}

void
atp_fetcher_status_tell(void)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(my_database)) != NULL)
	{
		entry->running = atp_http_running();
		entry->counts = atp_fetch_counts;
	}
	atp_shared_unlock();
}

void
atp_fetcher_status_wanted(bool wanted)
{
	FetcherEntry *entry;

	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(MyDatabaseId)) != NULL)
		entry->wanted = wanted;
	atp_shared_unlock();
}

int
atp_fetcher_status_requests(void)
{
	FetcherEntry *entry;
	int			n;

	atp_shared_lock(LW_EXCLUSIVE);
	n = (entry = find_entry(MyDatabaseId)) != NULL ? entry->running : 0;
	atp_shared_unlock();
	return n;
}

void
atp_fetcher_status_forget(Oid database)
{
	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; entries != NULL && i < ATP_MANAGERS_MAX; i++)
		if (entries[i].database == database)
			entries[i].database = InvalidOid;
	atp_shared_unlock();
}

/* The outcomes other than "ok" as a JSON object; outcomes with count 0 are left out. */
static Datum
errors_jsonb(const AtpFetchCounts *counts)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	for (int i = 0; i < ATP_HTTP_COUNT; i++)
		if (i != ATP_HTTP_OK && counts->outcomes[i] > 0)
			appendStringInfo(&buf, "%s\"%s\": " INT64_FORMAT, buf.len > 1 ? ", " : "", atp_http_outcome_name(i),
							 counts->outcomes[i]);
	appendStringInfoChar(&buf, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(buf.data));
}

/* SQL: atproto_internal.fetcher_status() */
Datum
atp_fetcher_status(PG_FUNCTION_ARGS)
{
	FetcherEntry copy = {0};
	FetcherEntry *entry;
	TupleDesc	desc;
	Datum		values[10];
	bool		nulls[10] = {0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	atp_shared_lock(LW_EXCLUSIVE);
	if ((entry = find_entry(MyDatabaseId)) != NULL)
		copy = *entry;
	atp_shared_unlock();
	values[0] = Int32GetDatum(copy.pid);
	nulls[0] = copy.pid == 0;
	values[1] = CStringGetTextDatum(copy.waits || (copy.pid == 0 && copy.wanted) ? "waiting" : copy.pid != 0 ? "running" : "not running");
	values[2] = TimestampTzGetDatum(copy.since);
	nulls[2] = copy.since == 0;
	values[3] = Int32GetDatum(copy.running);
	values[4] = Int64GetDatum(copy.counts.requests);
	values[5] = Int64GetDatum(copy.counts.bytes);
	values[6] = Int64GetDatum(copy.counts.refused);
	values[7] = errors_jsonb(&copy.counts);
	values[8] = CStringGetTextDatum(copy.error);
	nulls[8] = copy.error_at == 0;
	values[9] = TimestampTzGetDatum(copy.error_at);
	nulls[9] = copy.error_at == 0;
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
