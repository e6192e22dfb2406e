/*
 * export.h
 *		Whole repositories, as com.atproto.sync.getRepo gives them (--exports, --export).
 */
#ifndef SIM_EXPORT_H
#define SIM_EXPORT_H

#include "network.h"

/* Write the repository of each account with a commit into DIR/EPOCH/DID.car. */
extern void export_all(Network *net, uint64_t epoch);

/* Write the account's repository if --export names the account and the account's present revision. */
extern void export_if_asked(Network *net, const Account *account);

#endif							/* SIM_EXPORT_H */
