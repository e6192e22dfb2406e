/*
 * direct_partitions.h
 *		Which partition each row goes into, for heap.h.
 */
#ifndef ATP_DIRECT_PARTITIONS_H
#define ATP_DIRECT_PARTITIONS_H

#include "postgres.h"

#include "nodes/execnodes.h"

typedef struct AtpPartitions AtpPartitions;

/* No trigger, rule, generated column, or access method that the rows would have to pass, if they go into this table. */
extern bool atp_leaf_is_plain(Relation rel);

/*
 * Likewise any of the partitions, at any depth; but they are not opened, since there may be many, so
 * generated columns show when a row goes there.  *have_triggers becomes true when one may have triggers.
 */
extern bool atp_partitions_are_plain(Relation rel, bool *have_triggers);

extern AtpPartitions *atp_partitions_open(ResultRelInfo *root, EState *estate);

/*
 * The partition for a row of the whole table, and the row as it is there: in the same slot, or another one
 * that the partitions own, until the next atp_partitions_clear().  NULL: that partition is not plain.
 * ERROR, as from INSERT, when there is none.
 */
extern ResultRelInfo *atp_partition_of(AtpPartitions *p, TupleTableSlot **slot);
extern void atp_partitions_clear(AtpPartitions *p);
extern void atp_partitions_close(AtpPartitions *p);

#endif							/* ATP_DIRECT_PARTITIONS_H */
