/*
 * partition_swap.h
 *		Replaces a plain table by a partitioned table.
 */
#ifndef ATP_PARTITION_SWAP_H
#define ATP_PARTITION_SWAP_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * A swap has two steps.  Call as the table's owner, with SPI connected, an empty search_path, and
 * the table locked.
 *
 * atp_swap_begin() renames the table, and makes an empty table with the old name, the same columns,
 * defaults, checks and comments, and PARTITION BY key, which is of a single column.  ERROR if the
 * old table has objects that the new table would lack.  The caller then makes partitions.
 * atp_swap_end() copies the rows, makes keys, indexes and privileges, replaces the views, and drops
 * the old table.
 */
typedef struct AtpSwap AtpSwap;

extern AtpSwap *atp_swap_begin(const char *schema, const char *table, const char *key, const char *column);

/* The old table's name, quoted. */
extern const char *atp_swap_old(const AtpSwap *swap);

/* Returns the number of rows. */
extern uint64 atp_swap_end(AtpSwap *swap);

/* OIDs of the views that the swap will replace: the caller locks the views before the table. */
extern List *atp_swap_views(Oid relid);

/*
 * Prepare a new table: only its owner has privileges; replica identity, n_distinct and statistics
 * targets are those of the model.
 */
extern void atp_swap_like(Oid relid, Oid model);

/* Storage parameters of a table and its TOAST table, as clause of CREATE TABLE; "": none. */
extern char *atp_swap_options(Oid relid);

/*
 * Make a table that can become a partition; indexes are added when the table is attached.  Returns
 * its name, quoted.
 */
extern char *atp_swap_create_part(const char *schema, const char *table, const char *part, const char *options);

#endif							/* ATP_PARTITION_SWAP_H */
