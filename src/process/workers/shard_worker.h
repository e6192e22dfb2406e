/*
 * shard_worker.h
 *		A worker of a subscription that has several.
 */
#ifndef ATP_SHARD_WORKER_H
#define ATP_SHARD_WORKER_H

#include "postgres.h"

#include "config/subscription.h"

/* What it is told; must fit into bgw_extra. */
typedef struct AtpShardWorkerStart
{
	Oid			database;
	Oid			owner;
	int			shard;
	char		name[ATP_NAME_MAX + 1];
} AtpShardWorkerStart;

/* The argument is the handle of the shared memory with the ring. */
extern PGDLLEXPORT void atp_shard_worker_main(Datum arg);

#endif							/* ATP_SHARD_WORKER_H */
