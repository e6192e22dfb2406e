/*
 * shard_worker.h
 *		An apply worker: several of these processes apply a subscription's events.
 */
#ifndef ATP_SHARD_WORKER_H
#define ATP_SHARD_WORKER_H

#include "postgres.h"

#include "config/subscription.h"

/* Arguments of a new worker; must fit into bgw_extra. */
typedef struct AtpShardWorkerStart
{
	Oid			database;
	Oid			owner;
	int			shard;
	char		id[ATP_ID_LEN + 1];
	char		name[ATP_NAME_MAX + 1];
} AtpShardWorkerStart;

/* The argument is the handle of the shared memory with the ring. */
extern PGDLLEXPORT void atp_shard_worker_main(Datum arg);

#endif							/* ATP_SHARD_WORKER_H */
