/*
 * export.h
 *		Whole repositories, as com.atproto.sync.getRepo gives them (--exports, --export).
 */
#ifndef SIM_EXPORT_H
#define SIM_EXPORT_H

#include "network.h"

/* Those that have a commit, into DIR/EPOCH/DID.car. */
extern void export_all(Network *net, uint64_t epoch);

/* The one that --export names, when it has come to that revision. */
extern void export_if_asked(Network *net, const Account *account);

#endif							/* SIM_EXPORT_H */
