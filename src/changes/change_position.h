/*
 * change_position.h
 *		The position after a transaction: in WAL, and in the streams of the sources.
 */
#ifndef ATP_CHANGE_POSITION_H
#define ATP_CHANGE_POSITION_H

#include "postgres.h"

#include "changes/change.h"

/* The transaction's last message. */
extern void atp_change_tell_position(const AtpChanges *changes, AtpChangeTxn *txn, TimestampTz time);

#endif							/* ATP_CHANGE_POSITION_H */
