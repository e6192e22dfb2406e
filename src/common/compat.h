/*
 * compat.h
 *		Differences between PostgreSQL 15 and 18, so that no function body needs a
 *		PG_VERSION_NUM test.  Include after postgres.h.
 */
#ifndef ATP_COMPAT_H
#define ATP_COMPAT_H

#if PG_VERSION_NUM < 150001
#error "atproto needs PostgreSQL 15.1 or newer"
#endif

#include "access/htup_details.h"
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
#define atp_insert_index_tuples(result, slot, estate, duplicate) \
	ExecInsertIndexTuples((result), (slot), (estate), false, true, (duplicate), NIL, false)
#define atp_update_index_tuples(result, slot, estate, indexes) \
	do { \
		if ((indexes) != TU_None) \
			(void) ExecInsertIndexTuples((result), (slot), (estate), true, false, NULL, NIL, \
										 (indexes) == TU_Summarizing); \
	} while (0)
#else
#define AtpUpdateIndexes bool
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

/* Since 18 index_beginscan() takes a counter of scans. */
#if PG_VERSION_NUM >= 180000
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

/* The buffer argument of FileWrite() is const since 16. */
#if PG_VERSION_NUM >= 160000
#define atp_file_write(file, bytes, n, at, event)	((int) FileWrite((file), (bytes), (n), (at), (event)))
#else
#define atp_file_write(file, bytes, n, at, event)	FileWrite((file), unconstify(char *, (const char *) (bytes)), (n), (at), (event))
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
