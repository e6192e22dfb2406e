/*
 * command_progress.c
 *		How far long commands are: see command_progress.h.
 *
 * Most of the work of a command is done by few statements, each of which reads a whole table.  So the executor counts the
 * rows that such a statement reads (Instrumentation, as for EXPLAIN ANALYZE without times), and a timer copies the count
 * into shared memory.  The timer's handler only reads and writes numbers: an executor's node is read only while its
 * statement runs.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/partition.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "common/compat.h"
#include "common/command_progress.h"
#include "common/shared.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_progress);

#define ENTRIES		64			/* commands at a time, in all databases */
#define SCANS_MAX	1024		/* partitions whose rows are counted */
#define TELL_MS		500

typedef struct Entry
{
	int			pid;			/* 0: free */
	Oid			database;
	Oid			role;
	char		command[32];
	char		target[NAMEDATALEN];
	char		phase[96];
	TimestampTz started_at;
	TimestampTz phase_at;
	int64		total;			/* -1: not known */
	pg_atomic_uint64 done;		/* written without the lock: a number that stands alone, in no order with the rest */
} Entry;

static Entry *entries = NULL;	/* shared; NULL when not preloaded */
static Entry *mine = NULL;		/* the command of this process */
static int	level;				/* nesting of transactions in which the command began */
static int	depth;				/* nesting of triggers in which the command began */

/* Of the statement that is counted. */
static Oid	counted = InvalidOid;	/* the table; InvalidOid: no statement is counted */
static QueryDesc *query = NULL;
static AtpNodeInstrumentation *scans[SCANS_MAX];
static volatile int nscans = 0;

static TimeoutId timer;
static bool hooked = false;
static ExecutorStart_hook_type prev_start = NULL;
static ExecutorRun_hook_type prev_run = NULL;

static Size
entries_size(void)
{
	return ENTRIES * sizeof(Entry);
}

void
atp_progress_init(void)
{
	if (process_shared_preload_libraries_in_progress)
		atp_shared_part(entries_size, (void **) &entries);
}

/* ------------------------------------------------------------------------
 * Rows that a statement reads
 * ------------------------------------------------------------------------
 */

/* The timer's handler. */
static void
tell_rows(void)
{
	double		rows = 0;

	for (int i = 0; i < nscans; i++)
		rows += scans[i]->ntuples + scans[i]->tuplecount + scans[i]->nfiltered1 + scans[i]->nfiltered2;
	if (mine != NULL && nscans > 0)
		pg_atomic_write_u64(&mine->done, (uint64) rows);
}

static void
forget_query(void)
{
	disable_timeout(timer, false);
	tell_rows();
	nscans = 0;
	query = NULL;
}

/* The executor's nodes of a statement are freed, perhaps without a run: a cursor may be closed before the first FETCH. */
static void
on_free(void *desc)
{
	if (query != desc)
		return;
	nscans = 0;
	query = NULL;
}

static void
watch_query(QueryDesc *desc)
{
	MemoryContextCallback *freed = MemoryContextAlloc(desc->estate->es_query_cxt, sizeof(MemoryContextCallback));

	freed->func = on_free;
	freed->arg = desc;
	MemoryContextRegisterResetCallback(desc->estate->es_query_cxt, freed);
	query = desc;
}

/* Is it the command itself that runs, and not a trigger of a table that the command writes? */
static bool
in_command(void)
{
	return mine != NULL && DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0)) == depth;
}

/* Is it a partition of the counted table, at any level? */
static bool
is_of_counted(Oid relid)
{
	while (relid != counted && get_rel_relispartition(relid))
		relid = get_partition_parent(relid, true);
	return relid == counted;
}

static bool
find_scans(PlanState *node, void *context)
{
	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_SeqScanState:
		case T_IndexScanState:
		case T_IndexOnlyScanState:
		case T_BitmapHeapScanState:
			if (nscans < SCANS_MAX && node->instrument != NULL && is_of_counted(RelationGetRelid(((ScanState *) node)->ss_currentRelation)))
				scans[nscans++] = node->instrument;
			break;
		default:
			break;
	}
	return planstate_tree_walker(node, find_scans, context);
}

static bool
has_custom_scan(PlanState *node, void *context)
{
	return node != NULL && (IsA(node, CustomScanState) || planstate_tree_walker(node, has_custom_scan, context));
}

/*
 * Only the first statement in progress counts: the statements of its triggers do not.
 *
 * Nor does a statement with nodes of another extension, and these must not see that rows are counted: Citus then takes the
 * statement for EXPLAIN ANALYZE when it runs, and gives the number of shards as the number of rows.
 */
static void
on_start(QueryDesc *desc, int flags)
{
	bool		count = OidIsValid(counted) && query == NULL && in_command();
	int			asked = desc->instrument_options;

	if (count)
		desc->instrument_options |= INSTRUMENT_ROWS;
	if (prev_start != NULL)
		prev_start(desc, flags);
	else
		standard_ExecutorStart(desc, flags);
	if (!count)
		return;
	nscans = 0;
	if (has_custom_scan(desc->planstate, NULL))
		desc->instrument_options = desc->estate->es_instrument = asked;
	else
		(void) find_scans(desc->planstate, NULL);
	if (nscans > 0)
		watch_query(desc);
}

/* The nodes are read by the timer only while the statement runs, and not after an error, which frees them. */
static void
on_run(ATP_EXECUTOR_RUN_PARAMETERS)
{
	bool		counts = desc == query;

	if (counts)
		enable_timeout_every(timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TELL_MS), TELL_MS);
	PG_TRY();
	{
		if (prev_run != NULL)
			ATP_EXECUTOR_RUN(prev_run);
		else
			ATP_EXECUTOR_RUN(standard_ExecutorRun);
	}
	PG_FINALLY();
	{
		if (counts)
			forget_query();
	}
	PG_END_TRY();
}

/* ------------------------------------------------------------------------
 * Commands
 * ------------------------------------------------------------------------
 */
static void
end_entry(void)
{
	nscans = 0;
	query = NULL;
	counted = InvalidOid;
	if (mine == NULL)
		return;
	atp_shared_lock(LW_EXCLUSIVE);
	mine->pid = 0;
	atp_shared_unlock();
	mine = NULL;
}

static void
on_process_exit(int code, Datum arg)
{
	end_entry();
}

static void
on_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT)
		end_entry();
}

static void
on_subtransaction(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB && mine != NULL && GetCurrentTransactionNestLevel() <= level)
		end_entry();
}

static void
install_hooks(void)
{
	if (hooked)
		return;
	timer = RegisterTimeout(USER_TIMEOUT, tell_rows);
	RegisterXactCallback(on_transaction, NULL);
	RegisterSubXactCallback(on_subtransaction, NULL);
	before_shmem_exit(on_process_exit, (Datum) 0);
	prev_start = ExecutorStart_hook;
	ExecutorStart_hook = on_start;
	prev_run = ExecutorRun_hook;
	ExecutorRun_hook = on_run;
	hooked = true;
}

void
atp_progress_begin(const char *command, const char *target)
{
	if (entries == NULL || mine != NULL)
		return;
	install_hooks();
	atp_shared_lock(LW_EXCLUSIVE);
	for (int i = 0; i < ENTRIES && mine == NULL; i++)
		if (entries[i].pid == 0)
			mine = &entries[i];
	if (mine != NULL)
	{
		mine->pid = MyProcPid;
		mine->database = MyDatabaseId;
		mine->role = GetUserId();
		atp_shared_text(mine->command, sizeof(mine->command), command);
		strlcpy(mine->target, target, NAMEDATALEN);
		mine->phase[0] = '\0';
		mine->started_at = mine->phase_at = GetCurrentTimestamp();
		mine->total = -1;
		pg_atomic_init_u64(&mine->done, 0);
		level = GetCurrentTransactionNestLevel();
		depth = DatumGetInt32(DirectFunctionCall1(pg_trigger_depth, (Datum) 0));
	}
	atp_shared_unlock();
}

void
atp_progress_phase(const char *phase, int64 total)
{
	if (!in_command())
		return;
	query = NULL;
	nscans = 0;
	counted = InvalidOid;
	atp_shared_lock(LW_EXCLUSIVE);
	atp_shared_text(mine->phase, sizeof(mine->phase), phase);
	mine->phase_at = GetCurrentTimestamp();
	mine->total = total;
	pg_atomic_write_u64(&mine->done, 0);
	atp_shared_unlock();
}

void
atp_progress_reads(const char *phase, Oid relid)
{
	atp_progress_phase(phase, atp_progress_rows_of(relid));
	if (in_command())
		counted = relid;
}

void
atp_progress_to(int64 done)
{
	if (in_command())
		pg_atomic_write_u64(&mine->done, (uint64) done);
}

void
atp_progress_end(void)
{
	if (in_command())
		end_entry();
}

/* The row count of the last VACUUM or ANALYZE; of a partitioned table the sum over its partitions. */
int64
atp_progress_rows_of(Oid relid)
{
	double		rows = 0;
	ListCell   *cell;

	if (mine == NULL)
		return -1;
	foreach(cell, find_all_inheritors(relid, NoLock, NULL))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));

		if (!HeapTupleIsValid(tuple))
			continue;
		if (((Form_pg_class) GETSTRUCT(tuple))->relkind != RELKIND_PARTITIONED_TABLE)
			rows += Max(((Form_pg_class) GETSTRUCT(tuple))->reltuples, 0);
		ReleaseSysCache(tuple);
	}
	return rows > 0 ? (int64) rows : -1;
}

/* ------------------------------------------------------------------------
 * The view
 * ------------------------------------------------------------------------
 */

/* SQL: atproto_internal.progress() */
Datum
atp_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Entry	   *copy = palloc(entries_size());
	int			n = 0;

	InitMaterializedSRF(fcinfo, 0);
	atp_shared_lock(LW_SHARED);
	for (int i = 0; entries != NULL && i < ENTRIES; i++)
		if (entries[i].pid != 0 && entries[i].database == MyDatabaseId)
			copy[n++] = entries[i];
	atp_shared_unlock();
	for (int i = 0; i < n; i++)
	{
		int64		done = (int64) pg_atomic_read_u64(&copy[i].done);
		int64		total = copy[i].total < 0 ? -1 : Max(copy[i].total, done);
		Datum		values[8];
		bool		nulls[8] = {0};

		if (!has_privs_of_role(GetUserId(), copy[i].role) && !has_privs_of_role(GetUserId(), ROLE_PG_MONITOR))
			continue;
		values[0] = Int32GetDatum(copy[i].pid);
		values[1] = CStringGetTextDatum(copy[i].command);
		values[2] = CStringGetTextDatum(copy[i].target);
		values[3] = CStringGetTextDatum(copy[i].phase);
		values[4] = Int64GetDatum(done);
		values[5] = Int64GetDatum(total);
		nulls[5] = total < 0;
		values[6] = TimestampTzGetDatum(copy[i].started_at);
		values[7] = TimestampTzGetDatum(copy[i].phase_at);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
