/*
 * direct_partitions.h
 *		Which partition each row goes into, for direct.h.
 */
#ifndef ATP_DIRECT_PARTITIONS_H
#define ATP_DIRECT_PARTITIONS_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct AtpPartitions AtpPartitions;

/*
 * True if this table has no rule, no generated column, no foreign-table or other access method that would have to
 * handle the rows.
 */
extern bool atp_leaf_is_plain(Relation rel);

/*
 * True if all partitions at any depth are plain.  Partitions are not opened, since there may be many; a partition
 * with generated columns is only detected by atp_partition_of().  *have_triggers becomes true when a partition may
 * have triggers.
 */
extern bool atp_partitions_are_plain(Relation rel, bool *have_triggers);

extern AtpPartitions *atp_partitions_open(ResultRelInfo *root, EState *estate);

/*
 * The partition for a row of the whole table.  *slot becomes the row in the layout of the partition: the same slot,
 * or a slot that is valid until the next atp_partitions_clear().  NULL: the partition is not plain.  ERROR, as from
 * INSERT, when no partition accepts the row.
 */
extern ResultRelInfo *atp_partition_of(AtpPartitions *p, TupleTableSlot **slot);
extern void atp_partitions_clear(AtpPartitions *p);
extern void atp_partitions_close(AtpPartitions *p);

#endif							/* ATP_DIRECT_PARTITIONS_H */
