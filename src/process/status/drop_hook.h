/*
 * drop_hook.h
 *		What the consumer's processes must know of others' DDL.
 */
#ifndef ATP_DROP_HOOK_H
#define ATP_DROP_HOOK_H

#include "postgres.h"

/*
 * From _PG_init(): where the library is preloaded, DROP DATABASE ends the
 * database's processes, ALTER and DROP EXTENSION wake them.
 */
extern void atp_ddl_init(void);

#endif							/* ATP_DROP_HOOK_H */
