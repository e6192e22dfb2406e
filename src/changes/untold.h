/*
 * untold.h
 *		Rows that are written without a change of what the tables say: readers of slots are not told.
 *
 * partition() copies rows into the new partitions, and revalidate() writes a column that is no part of the record.  The rows' WAL
 * gets an origin that PostgreSQL reserves for what is not to be replicated; only C code and superusers can set an origin.
 */
#ifndef ATP_UNTOLD_H
#define ATP_UNTOLD_H

#include "postgres.h"

#include "common/compat.h"

/* Run work(arg), whose rows have the origin.  An ERROR resets the origin, too. */
extern void atp_write_untold(void (*work) (void *arg), void *arg);

/* Has a change this origin? */
extern bool atp_is_untold(AtpOriginId origin);

#endif							/* ATP_UNTOLD_H */
