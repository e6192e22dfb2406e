/*
 * transaction.h
 *		A transaction of a background process.
 */
#ifndef ATP_TRANSACTION_H
#define ATP_TRANSACTION_H

#include "postgres.h"

/* Start and end a transaction with a snapshot and SPI, for a few statements. */
extern void atp_begin(const char *activity);
extern void atp_commit(void);
extern void atp_abort(void);

#endif							/* ATP_TRANSACTION_H */
