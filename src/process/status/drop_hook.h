/*
 * drop_hook.h
 *		Hooks that tell the background processes of DDL on their database and on the
 *		extension.
 */
#ifndef ATP_DROP_HOOK_H
#define ATP_DROP_HOOK_H

#include "postgres.h"

/*
 * Call from _PG_init().  Where the library is preloaded, DROP DATABASE ends the database's processes, and
 * ALTER and DROP EXTENSION wake them.
 */
extern void atp_drop_hook_init(void);

#endif							/* ATP_DROP_HOOK_H */
