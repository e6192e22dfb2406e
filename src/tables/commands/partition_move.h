/*
 * partition_move.h
 *		Rows of a default partition into another table, which is to become a partition.
 */
#ifndef ATP_PARTITION_MOVE_H
#define ATP_PARTITION_MOVE_H

#include "postgres.h"

/*
 * As the owner of the partitioned table, with SPI connected, an empty search_path, and the table and its
 * partitions locked exclusively.
 *
 * A row keeps what it is and only changes its place.  So no trigger fires, foreign keys look at nothing, and
 * publications send nothing: a foreign key ON DELETE CASCADE would remove the rows that refer to this one, and a
 * subscriber would lose it.
 */

/* ERROR if something would hear of it nevertheless, and be wrong then.  Nothing is changed before. */
extern void atp_move_check(Oid table, Oid rest);

/*
 * The rows of rest that fulfil a condition (SQL, the row is r) go into part, which has the columns and checks
 * of the table, and no indexes yet.  Returns how many.
 */
extern uint64 atp_move_rows(Oid table, Oid rest, Oid part, const char *condition);

#endif							/* ATP_PARTITION_MOVE_H */
