/*
 * manager.h
 *		The manager, one process for each database in atproto.databases: starts the
 *		consumers and the fetcher of its database.
 */
#ifndef ATP_MANAGER_H
#define ATP_MANAGER_H

#include "postgres.h"

/* The number of the manager for the current database; -1: no manager. */
extern int	atp_manager_number(void);

/* Is the library preloaded?  Without that there is no manager at all. */
extern bool atp_manager_is_preloaded(void);

/* From _PG_init(): while preloading, register a manager for each database. */
extern void atp_manager_init(void);

extern PGDLLEXPORT void atp_manager_main(Datum arg);

#endif							/* ATP_MANAGER_H */
