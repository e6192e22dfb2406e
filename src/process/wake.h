/*
 * wake.h
 *		Waking the consumer's processes when a transaction commits.
 */
#ifndef ATP_WAKE_H
#define ATP_WAKE_H

#include "postgres.h"

/* When the current transaction commits, wake this database's processes. */
extern void atp_wake_at_commit(void);

#endif							/* ATP_WAKE_H */
