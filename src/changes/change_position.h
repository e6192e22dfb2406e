/*
 * change_position.h
 *		The position that a transaction has reached: its end in WAL, and its place in the streams of the sources.
 */
#ifndef ATP_CHANGE_POSITION_H
#define ATP_CHANGE_POSITION_H

#include "postgres.h"

#include "changes/change.h"

/* The transaction's last message. */
extern void atp_change_tell_position(const AtpChanges *changes, AtpChangeTxn *txn, TimestampTz time);

#endif							/* ATP_CHANGE_POSITION_H */
