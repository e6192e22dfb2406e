/*
 * direct_insert.h
 *		Rows into a table without an SQL statement, where that comes to the same.
 */
#ifndef ATP_DIRECT_INSERT_H
#define ATP_DIRECT_INSERT_H

#include "postgres.h"

#include "storage/itemptr.h"
#include "tables/base/rows.h"
#include "tables/base/statements.h"

/*
 * SQLSTATE of the ERROR when a row may be there already, or somebody else is
 * writing it: nothing is wrong, the transaction is to be done again with
 * statements, which wait and look.  No user sees it.
 */
#define ATP_ERRCODE_CONFLICT	MAKE_SQLSTATE('A', 'T', '0', '0', '1')

typedef struct AtpHeap AtpHeap;

/* The setting atproto.direct_writes. */
extern void atp_heap_init(void);

/* NULL when it would not come to the same; the statements always do. */
extern AtpHeap *atp_heap_open(AtpStatements *set, const AtpTable *table);

/* Do triggers see each row?  They should see them in the order in which they came. */
extern bool atp_heap_fires_each_row(const AtpHeap *heap);
extern void atp_heap_insert(AtpHeap *heap, const AtpRows *rows);

/* Can rows be looked for by the table's key, to be updated or deleted?  Of a keyed table always; not where it has triggers. */
extern bool atp_heap_finds(AtpHeap *heap);

/*
 * The row with this key, as of when the heap was opened: where it lies, and its columns, which stay
 * valid until the next call.
 */
#define ATP_HEAP_KEYS	4

extern bool atp_heap_find(AtpHeap *heap, const Datum *key, ItemPointer place, Datum *values, bool *nulls);

/* Replace a row that was found by one of these, or remove it; a conflict if it has changed since. */
extern void atp_heap_update(AtpHeap *heap, ItemPointer place, const AtpRows *rows, int row);
extern void atp_heap_delete(AtpHeap *heap, ItemPointer place);
extern void atp_heap_close(AtpHeap *heap);

#endif							/* ATP_DIRECT_INSERT_H */
