/*
 * directory.h
 *		What a directory has to say of the accounts, and from when on: DID documents
 *		and keys (--directory).
 */
#ifndef SIM_DIRECTORY_H
#define SIM_DIRECTORY_H

#include "network.h"

extern void directory_open(const Options *o);

/*
 * What holds from the message with this seq on: the account's key, host and handle.
 * lags: the first who asks then is still told what held before.  Nothing without
 * --directory.
 */
extern void directory_tell(Network *net, const Account *account, int64_t from, bool lags);

/* It is gone. */
extern void directory_forget(const Network *net, const Account *account, int64_t from);

extern void directory_close(void);

#endif							/* SIM_DIRECTORY_H */
