/*
 * change.h
 *		What the output plugin keeps while decoding: for a reader, and for a transaction.
 */
#ifndef ATP_CHANGE_H
#define ATP_CHANGE_H

#include "postgres.h"

#include "changes/change_options.h"
#include "changes/change_table.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "utils/hsearch.h"

/* A reader of a slot: LogicalDecodingContext.output_plugin_private. */
typedef struct AtpChanges
{
	LogicalDecodingContext *ctx;
	AtpChangeOptions options;
	MemoryContext row;			/* reset after each change */
} AtpChanges;


/* A committed transaction: ReorderBufferTXN.output_plugin_private. */
typedef struct AtpChangeTxn
{
	MemoryContext context;
	XLogRecPtr	lsn;			/* end of the commit record */
	int64		n;				/* messages so far */
	MemoryContext repo_context; /* of repos */
	HTAB	   *repos;			/* change_repo.c; NULL: no repository yet */
	List	   *sources;		/* change_position.c: in the order of their first changes */
	HTAB	   *source_index;	/* NULL: no source yet */
	uint64		source_size;	/* bytes of sources in the message of the position */
	bool		more_sources;	/* others do not fit into the message */
	List	   *drops;			/* announce.c */
	uint64		drops_seen;		/* atp_change_catalog_changes() when drops were looked at */
	List	   *unknown;		/* OIDs: tables for which the reader was told that a change cannot be read */
} AtpChangeTxn;

/*
 * A row, old or new: the columns of its table's kind, in the order of change_table.h.  unchanged: a large value that an UPDATE
 * left alone, which WAL does not have; nulls is true, too.
 */
typedef struct AtpChangeRow
{
	const AtpChangeTable *table;
	Datum		values[ATP_CHANGE_COLUMNS];
	bool		nulls[ATP_CHANGE_COLUMNS];
	bool		unchanged[ATP_CHANGE_COLUMNS];
} AtpChangeRow;

/* A change of a row.  had, has: the row before and after; NULL: no row, or no row in WAL. */
typedef struct AtpRowChange
{
	AtpChanges *changes;
	AtpChangeTxn *txn;
	const AtpChangeTable *table;
	bool		update;
	AtpChangeRow *had;
	AtpChangeRow *has;
	bool		whole;			/* had has all columns, not only the key (REPLICA IDENTITY FULL) */
} AtpRowChange;

/* The messages of a change, by the kind of table. */
extern void atp_change_of_record(const AtpRowChange *change);
extern void atp_change_of_repo(const AtpRowChange *change);
extern void atp_change_of_label(const AtpRowChange *change);
extern void atp_change_of_cursor(const AtpRowChange *change);

/* The revision of a repository that the transaction has written so far; 0: no revision. */
extern uint64 atp_change_rev(const AtpChangeTxn *txn, const struct varlena *did);

/* Has the reader asked for this target?  And for the kinds of messages that changes of the table are? */
extern bool atp_change_is_wanted(const AtpChanges *changes, const AtpChangeTable *table);
extern bool atp_change_is_asked(const AtpChanges *changes, const AtpChangeTable *table);

/* Tell once in a transaction that the table has a change that the reader is not told: the reader has to read the table anew. */
extern void atp_change_tell_unknown(const AtpChanges *changes, AtpChangeTxn *txn, const AtpChangeTable *table);

/* The next change of the repository's row changes the handle, or the status (announce.h). */
extern void atp_change_announce(AtpChangeTxn *txn, const struct varlena *did, int what);

#endif							/* ATP_CHANGE_H */
