/*
 * partition_swap.h
 *		A table in partitions in the place of one without.
 */
#ifndef ATP_PARTITION_SWAP_H
#define ATP_PARTITION_SWAP_H

#include "postgres.h"

/*
 * In two steps, as the table's owner, with SPI connected, an empty search_path, and the table locked.
 *
 * The first renames the table and makes an empty one in its place, with its columns, defaults, checks and
 * comments, and PARTITION BY key.  ERROR when something is on the table that would not be on the new one.  The
 * caller makes partitions, and then the second moves the rows, drops the old table, and brings keys, indexes,
 * privileges, and the views that read the table.
 */
typedef struct AtpSwap AtpSwap;

extern AtpSwap *atp_swap_begin(const char *schema, const char *table, const char *key);

/* The old table, quoted, to look at. */
extern const char *atp_swap_old(const AtpSwap *swap);

/* How many rows it had. */
extern uint64 atp_swap_end(AtpSwap *swap);

/* Before the table is locked: the views that the swap will replace. */
extern void atp_swap_lock_views(Oid relid);

/* Names of the columns that are written, quoted.  A partition may have them in another order. */
extern char *atp_swap_columns(Oid relid);

/* A new table: nobody has rights on it but its owner, and its replica identity is that of another one. */
extern void atp_swap_like(Oid relid, Oid model);

#endif							/* ATP_PARTITION_SWAP_H */
