/*
 * message.h
 *		The beginning that all messages of the stream share, and those that are
 *		about accounts.
 */
#ifndef SIM_MESSAGE_H
#define SIM_MESSAGE_H

#include "core/codec/cbor_write.h"
#include "network.h"

/* Header, and the head of a payload with so many fields; counts the message. */
extern void message_begin(Network *net, AtpCborWriter *w, AtpReposKind kind, unsigned fields);

extern void message_put_seq(Network *net, AtpCborWriter *w);	/* the next one */
extern void message_put_time(const Network *net, AtpCborWriter *w);

extern void identity_write(Network *net, Account *account, AtpCborWriter *w);
extern void account_write(Network *net, Account *account, AtpCborWriter *w);

#endif							/* SIM_MESSAGE_H */
