/*
 * partition_move.h
 *		Moves rows of a default partition into a table that is to become a partition.
 */
#ifndef ATP_PARTITION_MOVE_H
#define ATP_PARTITION_MOVE_H

#include "postgres.h"

/*
 * Call as the owner of the partitioned table, with SPI connected, an empty search_path, and the
 * table and its partitions locked exclusively.
 *
 * A moved row stays the same row of the partitioned table.  So no trigger fires, no foreign key is
 * checked, and no publication sends a change: otherwise ON DELETE CASCADE would delete rows that
 * refer to the moved row, and a subscriber would lose the row.
 */

/* ERROR if a publication or slot would still send the deletions.  Called before any change. */
extern void atp_move_check(Oid table, Oid rest);

/*
 * Move the rows of rest that fulfil the condition (SQL on a row r) into part, which has the columns
 * and checks of the table, but no indexes yet.  Returns the number of rows.
 */
extern uint64 atp_move_rows(Oid table, Oid rest, Oid part, const char *condition);

#endif							/* ATP_PARTITION_MOVE_H */
