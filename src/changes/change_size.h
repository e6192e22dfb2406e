/*
 * change_size.h
 *		The length of a row's message, known before the message is written.
 */
#ifndef ATP_CHANGE_SIZE_H
#define ATP_CHANGE_SIZE_H

#include "postgres.h"

#include "changes/change.h"

/*
 * Can a message tell these rows of the change within the option max_message?  row, old: NULL if the message has no such
 * row.  A message needs ATP_MESSAGE_REST bytes at most for all but the values of jsonb, bytea and text.
 */
#define ATP_MESSAGE_REST	8192

extern bool atp_change_fits(const AtpRowChange *change, const AtpChangeRow *row, const AtpChangeRow *old);

/* Bytes of a string in a message. */
extern uint64 atp_change_string_size(const char *text, Size n);

#endif							/* ATP_CHANGE_SIZE_H */
