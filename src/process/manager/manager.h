/*
 * manager.h
 *		One process for each database named in atproto.databases: it starts that
 *		database's consumers.
 */
#ifndef ATP_MANAGER_H
#define ATP_MANAGER_H

#include "postgres.h"

/* Which of the managers serves this process's database; -1: none. */
extern int	atp_manager_number(void);

/* From _PG_init(): while preloading, register one manager for each database. */
extern void atp_manager_init(void);

extern PGDLLEXPORT void atp_manager_main(Datum arg);

#endif							/* ATP_MANAGER_H */
