/*
 * transaction.h
 *		A transaction of a background process.
 */
#ifndef ATP_TRANSACTION_H
#define ATP_TRANSACTION_H

#include "postgres.h"

/* Start and end a transaction with a snapshot and SPI, for a few statements. */
extern void atp_begin(const char *activity);

/*
 * Likewise, with a table that is locked as an INSERT locks it (InvalidOid: none), and that may be waited for:
 * without a snapshot, and with nothing else locked.
 */
extern void atp_begin_with_table(const char *activity, Oid relid);

extern void atp_commit(void);
extern void atp_abort(void);

#endif							/* ATP_TRANSACTION_H */
