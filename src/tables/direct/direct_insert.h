/*
 * direct_insert.h
 *		Rows into a table without an SQL statement, where the result is the same.
 */
#ifndef ATP_DIRECT_INSERT_H
#define ATP_DIRECT_INSERT_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "tables/base/rows.h"
#include "tables/base/statements.h"

/*
 * SQLSTATE of the ERROR when a row may exist already, or another session is writing the row.  Nothing is wrong: the
 * caller does the transaction again with statements, which wait and look.  No user sees this ERROR.
 */
#define ATP_ERRCODE_CONFLICT	MAKE_SQLSTATE('A', 'T', '0', '0', '1')

typedef struct AtpHeap AtpHeap;

/* The setting atproto.direct_writes. */
extern void atp_heap_init(void);

/* NULL when direct writes might differ from statements; the caller then uses statements. */
extern AtpHeap *atp_heap_open(AtpStatements *set, const AtpTable *table);

/*
 * Do triggers fire for each row?  Then the rows should come in the order of the stream, so that triggers see them in
 * this order.
 */
extern bool atp_heap_fires_each_row(const AtpHeap *heap);
extern void atp_heap_insert(AtpHeap *heap, const AtpRows *rows);

/*
 * Can rows be looked up by the table's key, to be updated or deleted?  True for every keyed table that could be
 * opened; false for other tables with triggers, for partitioned tables, and without a unique index on the key.
 */
extern bool atp_heap_finds(AtpHeap *heap);

/*
 * Find the row with this key under the snapshot of atp_heap_open(): ctid and columns, which stay valid until the next
 * call.
 */
#define ATP_HEAP_KEYS	4

extern bool atp_heap_find(AtpHeap *heap, const Datum *key, ItemPointer place, Datum *values, bool *nulls);

/*
 * Replace or delete the row that the last atp_heap_find() has found; ATP_ERRCODE_CONFLICT if the row has changed
 * since.
 */
extern void atp_heap_update(AtpHeap *heap, ItemPointer place, const AtpRows *rows, int row);
extern void atp_heap_delete(AtpHeap *heap, ItemPointer place);
extern void atp_heap_close(AtpHeap *heap);

#endif							/* ATP_DIRECT_INSERT_H */
