/*
 * direct.h
 *		Rows into a table without an SQL statement, where the result is the same.
 */
#ifndef ATP_DIRECT_H
#define ATP_DIRECT_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "tables/base/rows.h"
#include "tables/base/statements.h"

/*
 * SQLSTATE of the ERROR when a row may exist already, or another session is writing the row.  Nothing is wrong: the
 * caller does the transaction again with statements, which wait and look.  No user sees this ERROR.
 */
#define ATP_ERRCODE_CONFLICT	MAKE_SQLSTATE('A', 'T', '0', '0', '1')

typedef struct AtpDirect AtpDirect;

/* The setting atproto.direct_writes. */
extern void atp_direct_init(void);

/* NULL when direct writes might differ from statements; the caller then uses statements. */
extern AtpDirect *atp_direct_open(AtpStatements *set, const AtpTable *table);

/*
 * Do triggers fire for each row?  Then the rows should come in the order of the stream, so that triggers see them in
 * this order.
 */
extern bool atp_direct_fires_each_row(const AtpDirect *direct);
extern void atp_direct_insert(AtpDirect *direct, const AtpRows *rows);

/*
 * Can rows be looked up by the table's key, to be updated or deleted?  Always true for a keyed table.  A table that is
 * not keyed must have no trigger and no partitions, and needs a unique index on the key.
 */
extern bool atp_direct_finds(AtpDirect *direct);

/*
 * Find the row with this key under the snapshot of atp_direct_open(): ctid and columns, which stay valid until the next
 * call.
 */
#define ATP_DIRECT_KEYS	4

extern bool atp_direct_find(AtpDirect *direct, const Datum *key, ItemPointer place, Datum *values, bool *nulls);

/*
 * Replace or delete the row that the last atp_direct_find() has found; ATP_ERRCODE_CONFLICT if the row has changed
 * since.
 */
extern void atp_direct_update(AtpDirect *direct, ItemPointer place, const AtpRows *rows, int row);
extern void atp_direct_delete(AtpDirect *direct, ItemPointer place);
extern void atp_direct_close(AtpDirect *direct);

#endif							/* ATP_DIRECT_H */
