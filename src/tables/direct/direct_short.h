/*
 * direct_short.h
 *		New rows without their last columns, where these are null.
 *
 * The header of a row with a null has a bit for each column: 32 bytes for nine columns instead of 24.  In most rows of
 * record only the last columns, raw and fault, are null.  A row that ends before them has no null, and PostgreSQL reads a
 * column that a row lacks as null, as after ALTER TABLE ... ADD COLUMN.
 */
#ifndef ATP_DIRECT_SHORT_H
#define ATP_DIRECT_SHORT_H

#include "postgres.h"

#include "executor/tuptable.h"

/*
 * Puts the short tuple into a slot for heap tuples, if the whole row's header is larger.  The tuple is in the current memory
 * context: clear the slot before the context is reset.
 */
extern void atp_shorten(TupleTableSlot *slot);

#endif							/* ATP_DIRECT_SHORT_H */
