/*
 * transaction.h
 *		Transactions of background processes.
 */
#ifndef ATP_TRANSACTION_H
#define ATP_TRANSACTION_H

#include "postgres.h"

/* Begin and end a transaction with a snapshot and SPI. */
extern void atp_begin(const char *activity);

/*
 * Like atp_begin(), but first lock a table as an INSERT does (InvalidOid: no table).  This is the place to
 * wait for the lock: the transaction has neither a snapshot nor any other lock yet.
 */
extern void atp_begin_with_table(const char *activity, Oid relid);

extern void atp_commit(void);
extern void atp_abort(void);

#endif							/* ATP_TRANSACTION_H */
