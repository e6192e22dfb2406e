/*
 * partition_swap.h
 *		A table in partitions in the place of one without.
 */
#ifndef ATP_PARTITION_SWAP_H
#define ATP_PARTITION_SWAP_H

#include "postgres.h"

#include "nodes/pg_list.h"

/*
 * In two steps, as the table's owner, with SPI connected, an empty search_path, and the table locked.
 *
 * The first renames the table and makes an empty one in its place, with its columns, defaults, checks and
 * comments, and PARTITION BY key, which is of one column.  ERROR when something is on the table that would not be on the new one.  The
 * caller makes partitions, and then the second moves the rows, drops the old table, and brings keys, indexes,
 * privileges, and the views that read the table.
 */
typedef struct AtpSwap AtpSwap;

extern AtpSwap *atp_swap_begin(const char *schema, const char *table, const char *key, const char *column);

/* The old table, quoted, to look at. */
extern const char *atp_swap_old(const AtpSwap *swap);

/* How many rows it had. */
extern uint64 atp_swap_end(AtpSwap *swap);

/* OIDs of the views that the swap will replace: they are locked before the table is. */
extern List *atp_swap_views(Oid relid);

/*
 * A new table: nobody has rights on it but its owner; its replica identity, n_distinct and targets of
 * statistics are those of another one.
 */
extern void atp_swap_like(Oid relid, Oid model);

/* Storage parameters of a table and of its TOAST table, as CREATE TABLE takes them; "": none. */
extern char *atp_swap_options(Oid relid);

/* A table that can become a partition, without indexes: it gets them then.  Its name, quoted. */
extern char *atp_swap_create_part(const char *schema, const char *table, const char *part, const char *options);

#endif							/* ATP_PARTITION_SWAP_H */
