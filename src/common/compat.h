/*
 * compat.h
 *		Differences between PostgreSQL 15 and 19, so that no function body needs a
 *		PG_VERSION_NUM test.  Include after postgres.h.
 */
#ifndef ATP_COMPAT_H
#define ATP_COMPAT_H

#if PG_VERSION_NUM < 150001
#error "atproto needs PostgreSQL 15.1 or newer"
#endif

#include "access/htup_details.h"
#if PG_VERSION_NUM >= 190000
#include "utils/wait_event.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "nodes/miscnodes.h"
#include "varatt.h"
#else
/* Soft errors came with 16: before, an input error is always hard. */
#define ereturn(context_, dummy_, ...) \
	do { \
		(void) (context_); \
		ereport(ERROR, __VA_ARGS__); \
		return dummy_; \
	} while (0)
#endif

/*
 * PostgreSQL 18 writes pg_noreturn before a declaration; earlier versions have an attribute after the
 * declaration.
 */
#ifndef pg_noreturn
#define pg_noreturn	_Noreturn
#endif

/* The number of this process in the server's array of PGPROCs. */
#if PG_VERSION_NUM >= 170000
#define ATP_MY_PROC_NUMBER	MyProcNumber
#else
#define ATP_MY_PROC_NUMBER	MyProc->pgprocno
#endif

/* The PGPROC of a virtual transaction; NULL if its process has ended. */
#if PG_VERSION_NUM >= 170000
#include "storage/procarray.h"
#define ATP_TRANSACTION_PROC(vxid)	ProcNumberGetProc((vxid).procNumber)
#else
#include "storage/sinvaladt.h"
#define ATP_TRANSACTION_PROC(vxid)	BackendIdGetProc((vxid).backendId)
#endif

/* CreateWaitEventSet() takes a resource owner since 17, a memory context before. */
#if PG_VERSION_NUM >= 170000
#define atp_create_wait_event_set(n) CreateWaitEventSet(NULL, (n))
#else
#define atp_create_wait_event_set(n) CreateWaitEventSet(CurrentMemoryContext, (n))
#endif

/* Privileges on a schema and on a database: since 16 object_aclcheck() serves all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define atp_schema_aclcheck(schema, role, mode) object_aclcheck(NamespaceRelationId, (schema), (role), (mode))
#define atp_database_aclcheck(database, role, mode) object_aclcheck(DatabaseRelationId, (database), (role), (mode))
#else
#define atp_schema_aclcheck(schema, role, mode) pg_namespace_aclcheck((schema), (role), (mode))
#define atp_database_aclcheck(database, role, mode) pg_database_aclcheck((database), (role), (mode))
#endif

/* Skip support, by which an index scan skips over a leading column, came with 18. */
#if PG_VERSION_NUM >= 180000
#include "utils/skipsupport.h"
#define ATP_HAS_SKIP_SUPPORT
#endif

/* An entry, from 1 on, of the session's copy of the statuses of all processes. */
#if PG_VERSION_NUM >= 160000
#define atp_backend_entry(i) pgstat_get_local_beentry_by_index(i)
#else
#define atp_backend_entry(i) pgstat_fetch_stat_local_beentry(i)
#endif

/* Parameters of ExecutorRun(), and its call. */
#if PG_VERSION_NUM >= 180000
#define ATP_EXECUTOR_RUN_PARAMETERS QueryDesc *desc, ScanDirection direction, uint64 count
#define ATP_EXECUTOR_RUN(run) run(desc, direction, count)
#else
#define ATP_EXECUTOR_RUN_PARAMETERS QueryDesc *desc, ScanDirection direction, uint64 count, bool execute_once
#define ATP_EXECUTOR_RUN(run) run(desc, direction, count, execute_once)
#endif

/* Custom wait events have names since 17. */
#if PG_VERSION_NUM >= 170000
#define atp_new_wait_event(name) WaitEventExtensionNew(name)
#else
#define atp_new_wait_event(name) PG_WAIT_EXTENSION
#endif

/* Since 16 the relations' required privileges are in a list apart from the range table. */
#if PG_VERSION_NUM >= 160000
#define atp_check_permissions(stmt) \
	((void) ExecCheckPermissions((stmt)->rtable, (stmt)->permInfos, true))
#else
#define atp_check_permissions(stmt) ((void) ExecCheckRTPerms((stmt)->rtable, true))
#endif

/*
 * Insert the index entries of a new row, setting *duplicate if a unique index may have the key already; and
 * the entries of an updated row, as far as the result of the table's update requires.
 */
#if PG_VERSION_NUM >= 160000
#define AtpUpdateIndexes TU_UpdateIndexes
#else
#define AtpUpdateIndexes bool
#endif
#if PG_VERSION_NUM >= 190000
#define atp_insert_index_tuples(result, slot, estate, duplicate) \
	ExecInsertIndexTuples((result), (estate), EIIT_NO_DUPE_ERROR, (slot), NIL, (duplicate))
#define atp_update_index_tuples(result, slot, estate, indexes) \
	do { \
		if ((indexes) != TU_None) \
			(void) ExecInsertIndexTuples((result), (estate), \
										 EIIT_IS_UPDATE | ((indexes) == TU_Summarizing ? EIIT_ONLY_SUMMARIZING : 0), \
										 (slot), NIL, NULL); \
	} while (0)
#elif PG_VERSION_NUM >= 160000
#define atp_insert_index_tuples(result, slot, estate, duplicate) \
	ExecInsertIndexTuples((result), (slot), (estate), false, true, (duplicate), NIL, false)
#define atp_update_index_tuples(result, slot, estate, indexes) \
	do { \
		if ((indexes) != TU_None) \
			(void) ExecInsertIndexTuples((result), (slot), (estate), true, false, NULL, NIL, \
										 (indexes) == TU_Summarizing); \
	} while (0)
#else
#define atp_insert_index_tuples(result, slot, estate, duplicate) \
	ExecInsertIndexTuples((result), (slot), (estate), false, true, (duplicate), NIL)
#define atp_update_index_tuples(result, slot, estate, indexes) \
	do { \
		if (indexes) \
			(void) ExecInsertIndexTuples((result), (slot), (estate), true, false, NULL, NIL); \
	} while (0)
#endif

/*
 * Initialize an executor state with a range table of a single relation, and tell the executor which columns
 * an UPDATE writes.  Since 16 these columns are in the list of privileges; since 18 the call also names the
 * partitions left after pruning.
 */
#if PG_VERSION_NUM >= 180000
#define atp_init_range_table(estate, rte, infos) ExecInitRangeTable((estate), list_make1(rte), (infos), bms_make_singleton(1))
#elif PG_VERSION_NUM >= 160000
#define atp_init_range_table(estate, rte, infos) ExecInitRangeTable((estate), list_make1(rte), (infos))
#endif
#if PG_VERSION_NUM >= 160000
#define atp_tell_updated(estate, rte, columns) \
	do { \
		List	   *infos_ = NIL; \
		addRTEPermissionInfo(&infos_, (rte))->updatedCols = (columns); \
		atp_init_range_table((estate), (rte), infos_); \
	} while (0)
#else
#define atp_tell_updated(estate, rte, columns) \
	do { \
		(rte)->updatedCols = (columns); \
		ExecInitRangeTable((estate), list_make1(rte)); \
	} while (0)
#endif

/* The map from the row type of the partitioned table to a partition's; NULL: both have the same layout. */
#if PG_VERSION_NUM >= 160000
#define atp_map_to_partition(leaf, estate)	ExecGetRootToChildMap((leaf), (estate))
#else
#define atp_map_to_partition(leaf, estate)	((leaf)->ri_RootToPartitionMap)
#endif

/* Since 18 index_beginscan() takes a counter of scans, and since 19 flags. */
#if PG_VERSION_NUM >= 190000
#define atp_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan((heap), (index), (snapshot), NULL, (nkeys), 0, SO_NONE)
#elif PG_VERSION_NUM >= 180000
#define atp_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan((heap), (index), (snapshot), NULL, (nkeys), 0)
#else
#define atp_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan((heap), (index), (snapshot), (nkeys), 0)
#endif

/* Run a query to its end.  Since 18 ExecutorRun() is not told whether the query runs only once. */
#if PG_VERSION_NUM >= 180000
#define atp_executor_run(desc)	ExecutorRun((desc), ForwardScanDirection, 0)
#else
#define atp_executor_run(desc)	ExecutorRun((desc), ForwardScanDirection, 0, true)
#endif

/* Update or delete a row that the active snapshot sees.  Since 19 both functions take options. */
#if PG_VERSION_NUM >= 190000
#define atp_table_tuple_update(rel, place, slot, failure, mode, indexes) \
	table_tuple_update((rel), (place), (slot), GetCurrentCommandId(true), 0, GetActiveSnapshot(), InvalidSnapshot, true, \
					   (failure), (mode), (indexes))
#define atp_table_tuple_delete(rel, place, failure) \
	table_tuple_delete((rel), (place), GetCurrentCommandId(true), 0, GetActiveSnapshot(), InvalidSnapshot, true, (failure))
#else
#define atp_table_tuple_update(rel, place, slot, failure, mode, indexes) \
	table_tuple_update((rel), (place), (slot), GetCurrentCommandId(true), GetActiveSnapshot(), InvalidSnapshot, true, \
					   (failure), (mode), (indexes))
#define atp_table_tuple_delete(rel, place, failure) \
	table_tuple_delete((rel), (place), GetCurrentCommandId(true), GetActiveSnapshot(), InvalidSnapshot, true, (failure), false)
#endif

/*
 * Prune a page that this transaction is about to write.  Since 19 pruning may also set the page's bit in the
 * visibility map, for which the caller keeps the map's page pinned from call to call.
 */
#if PG_VERSION_NUM >= 190000
#define atp_heap_page_prune(rel, buffer) \
	do { \
		Buffer		map_ = InvalidBuffer; \
		heap_page_prune_opt((rel), (buffer), &map_, false); \
		if (BufferIsValid(map_)) \
			ReleaseBuffer(map_); \
	} while (0)
#else
#define atp_heap_page_prune(rel, buffer) heap_page_prune_opt((rel), (buffer))
#endif

/* Since 19 the planner is told whether EXPLAIN has asked for the plan. */
#if PG_VERSION_NUM >= 190000
#define atp_plan_query(query, sql, params)	pg_plan_query((query), (sql), 0, (params), NULL)
#else
#define atp_plan_query(query, sql, params)	pg_plan_query((query), (sql), 0, (params))
#endif

/* Counters of one node of a plan. */
#if PG_VERSION_NUM >= 190000
#define AtpNodeInstrumentation NodeInstrumentation
#else
#define AtpNodeInstrumentation Instrumentation
#endif

/* The hook that may change what the planner knows of a table, and its parameters; rel->indexlist is complete. */
#if PG_VERSION_NUM >= 190000
#define AtpRelationHook build_simple_rel_hook_type
#define atp_relation_hook build_simple_rel_hook
#define ATP_RELATION_HOOK_PARAMETERS PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte
#define ATP_RELATION_HOOK(hook) hook(root, rel, rte)
#else
#define AtpRelationHook get_relation_info_hook_type
#define atp_relation_hook get_relation_info_hook
#define ATP_RELATION_HOOK_PARAMETERS PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel
#define ATP_RELATION_HOOK(hook) hook(root, relid, inhparent, rel)
#endif

/* The buffer argument of FileWrite() is const since 16. */
#if PG_VERSION_NUM >= 160000
#define atp_file_write(file, bytes, n, at, event)	((int) FileWrite((file), (bytes), (n), (at), (event)))
#else
#define atp_file_write(file, bytes, n, at, event)	FileWrite((file), unconstify(char *, (const char *) (bytes)), (n), (at), (event))
#endif

/* The next datum of a sort of values that are passed by value; 16 has added an argument. */
#if PG_VERSION_NUM >= 160000
#define atp_tuplesort_getdatum(sort, value, isnull) tuplesort_getdatum((sort), true, false, (value), (isnull), NULL)
#else
#define atp_tuplesort_getdatum(sort, value, isnull) tuplesort_getdatum((sort), true, (value), (isnull), NULL)
#endif

/* The origin that the session's changes have in WAL. */
#if PG_VERSION_NUM >= 190000
#define AtpOriginId ReplOriginId
#define ATP_SESSION_ORIGIN	replorigin_xact_state.origin
#else
#define AtpOriginId RepOriginId
#define ATP_SESSION_ORIGIN	replorigin_session_origin
#endif

/* Write a message for output plugins, as a part of the transaction.  Since 17 the caller says whether to flush. */
#if PG_VERSION_NUM >= 170000
#define ATP_LOG_MESSAGE(prefix, text, n)	LogLogicalMessage((prefix), (text), (n), true, false)
#else
#define ATP_LOG_MESSAGE(prefix, text, n)	LogLogicalMessage((prefix), (text), (n), true)
#endif

/* Since 16 the server itself keeps the connection alive while a large transaction is decoded. */
#define ATP_PLUGIN_KEEPS_ALIVE	(PG_VERSION_NUM < 160000)

/* The time of a decoded transaction's commit; 19 has taken the name of the union. */
#if PG_VERSION_NUM >= 190000
#define ATP_COMMIT_TIME(txn)	((txn)->commit_time)
#else
#define ATP_COMMIT_TIME(txn)	((txn)->xact_time.commit_time)
#endif

/* A tuple of a decoded change; NULL: there is none.  Before 17 the tuple is inside of a buffer. */
#if PG_VERSION_NUM >= 170000
#define ATP_CHANGE_TUPLE(buffer)	(buffer)
#else
#define ATP_CHANGE_TUPLE(buffer)	((buffer) == NULL ? NULL : &(buffer)->tuple)
#endif

/*
 * A column of a table's row.  heap_getattr() does the same, but newer minor versions have made it call a function that
 * earlier ones lack: a library that was built with such a version could not be loaded by an earlier one.
 */
static inline Datum
atp_tuple_column(HeapTuple tuple, int number, TupleDesc desc, bool *isnull)
{
	if (number > (int) HeapTupleHeaderGetNatts(tuple->t_data))
		return getmissingattr(desc, number, isnull);
	return fastgetattr(tuple, number, desc, isnull);
}

#endif							/* ATP_COMPAT_H */
