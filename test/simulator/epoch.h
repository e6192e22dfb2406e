/*
 * epoch.h
 *		Changes of identities: every so many messages (--epoch) some accounts get
 *		another key, or move.
 */
#ifndef SIM_EPOCH_H
#define SIM_EPOCH_H

#include "core/codec/cbor_write.h"
#include "network.h"

/* Is the next message the first of an epoch?  The directory may change then, and not at other times. */
extern bool epoch_begins(const Network *net);

/* From which message on the directory knows what has happened in this epoch so far, */
extern int64_t epoch_now(const Network *net);
/* and what happens only now. */
extern int64_t epoch_next(const Network *net);

/* Chooses whose identity changes, and tells the directory. */
extern void epoch_change(Network *net);

/* Writes the next of the messages about it; false when there are none. */
extern bool epoch_write(Network *net, AtpCborWriter *w);

extern void epoch_free(void);

#endif							/* SIM_EPOCH_H */
