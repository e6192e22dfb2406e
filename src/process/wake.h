/*
 * wake.h
 *		Waking the consumer's processes, and ending them for DROP DATABASE.
 */
#ifndef ATP_WAKE_H
#define ATP_WAKE_H

#include "postgres.h"

/* When the current transaction commits, wake this database's processes. */
extern void atp_wake_at_commit(void);

/*
 * From _PG_init(): where the library is preloaded, DROP DATABASE ends the
 * database's processes, ALTER and DROP EXTENSION wake them.
 */
extern void atp_wake_init(void);

#endif							/* ATP_WAKE_H */
