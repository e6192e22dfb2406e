/*
 * limits.c
 *		SQL: the limits of the view atproto.limits whose use is not in tables: volumes, processes, buffers,
 *		requests.
 *
 * Nothing here counts rows or waits for a table.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/free_disk.h"
#include "config/owner.h"
#include "config/role_limits.h"
#include "config/spi.h"
#include "fetch/engine/host.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "miscadmin.h"
#include "net/hour.h"
#include "pgstat.h"
#include "postmaster/bgworker_internals.h"
#include "process/status/fetcher_status.h"
#include "process/status/manager_status.h"
#include "process/status/status.h"
#include "stream/batch.h"
#include "tables/base/job.h"
#include "tables/export/export.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_limits);
PG_FUNCTION_INFO_V1(atp_limit_settings);

/* A value of use that is not known, or of bound when the limit has no bound: NULL in SQL. */
#define NONE	(-1)

/* Memory that each process with a batch of decoded events keeps for decoding: the first block of the batch's memory context (batch.c). */
#define DECODING_BYTES	((int64) ATP_BATCH_KEPT)

static void
put_limit(ReturnSetInfo *rsinfo, const char *name, const char *object, int64 use, int64 bound, bool estimated)
{
	Datum		values[5] = {CStringGetTextDatum(name), (Datum) 0, Int64GetDatum(use), Int64GetDatum(bound), BoolGetDatum(estimated)};
	bool		nulls[5] = {false, object == NULL, use == NONE, bound == NONE, false};

	if (object != NULL)
		values[1] = CStringGetTextDatum(object);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

static void
put_disks(ReturnSetInfo *rsinfo)
{
	AtpCaller	caller;
	AtpVolume  *volumes;
	int			n;
	int64		kept = atp_free_disk_kept();
	MemoryContext cxt = CurrentMemoryContext;

	SPI_connect();
	caller = atp_as_table_owner("subscription");
	MemoryContextSwitchTo(cxt);
	volumes = atp_free_disk_volumes(&n);
	atp_owner_end(caller);
	SPI_finish();
	for (int i = 0; i < n; i++)
		put_limit(rsinfo, "disk", volumes[i].what, volumes[i].size - volumes[i].free, kept == 0 ? NONE : Max(volumes[i].size - kept, 0), false);
}

/* Background workers of the server, of all extensions and of parallel queries. */
static int
count_workers(void)
{
	int			n = 0;

	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const LocalPgBackendStatus *entry = atp_backend_entry(i);

		n += entry != NULL && entry->backendStatus.st_procpid > 0 && entry->backendStatus.st_backendType == B_BG_WORKER;
	}
	return n;
}

/*
 * The buffer of a consumer's messages, and the memory in which each process decodes.  With workers the messages are in a ring
 * of several such buffers, and the workers decode.
 */
static int64
buffers_of(int workers)
{
	return workers > 1 ? ATP_RING_BATCHES * (int64) ATP_BATCH_ROOM + (workers + 1) * DECODING_BYTES : ATP_BATCH_ROOM + DECODING_BYTES;
}

static void
put_buffers(ReturnSetInfo *rsinfo)
{
	AtpCaller	caller;
	AtpResult	found;
	int64		use = 0;

	SPI_connect();
	caller = atp_as_table_owner("subscription");
	found = atp_query("SELECT id::text AS id, name, workers FROM atproto.subscription WHERE enabled", ATP_NO_ARGS);
	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);

		if (atp_status_has_process(atp_get_text(row, "id")))
			use += buffers_of(atp_get_int4(row, "workers"));
	}
	atp_result_free(found);
	atp_owner_end(caller);
	SPI_finish();
	put_limit(rsinfo, "buffers", NULL, use, NONE, true);
}

static int64
bound_of(int64 setting)
{
	return setting > 0 ? setting : NONE;
}

/* SQL: atproto_internal.limits() */
Datum
atp_limits(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	AtpHourUse	hour;

	InitMaterializedSRF(fcinfo, 0);
	if (!has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
		return (Datum) 0;
	put_disks(rsinfo);
	put_limit(rsinfo, "worker_processes", NULL, count_workers(), max_worker_processes, false);
	put_limit(rsinfo, "databases", NULL, atp_managers_running(), ATP_MANAGERS_MAX, false);
	put_limit(rsinfo, "live_status", NULL, atp_status_slots_used(), atp_status_slots(), false);
	put_buffers(rsinfo);
	put_limit(rsinfo, "export_memory", NULL, NONE, (int64) atp_fetch_memory_kb * 1024, false);
	put_limit(rsinfo, "requests", NULL, atp_fetcher_status_requests(), atp_host_concurrency(), false);
	hour = atp_hour_use();
	put_limit(rsinfo, "requests_hour", NULL, hour.requests, bound_of(hour.requests_max), false);
	put_limit(rsinfo, "download_hour", NULL, hour.bytes, bound_of(hour.bytes_max), false);
	return (Datum) 0;
}

/* SQL: atproto_internal.limit_settings() */
Datum
atp_limit_settings(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[4] = {
		Int64GetDatum(atp_queue_limit), Int64GetDatum(atp_fetch_queue),
		Int64GetDatum(atp_max_role_processes), Int64GetDatum((int64) atp_max_role_mb * 1024 * 1024)
	};
	bool		nulls[4] = {false, false, atp_max_role_processes == 0, atp_max_role_mb == 0};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}
