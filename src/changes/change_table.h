/*
 * change_table.h
 *		The tables whose changes the output plugin tells: a table of a target, and atproto.cursor.
 */
#ifndef ATP_CHANGE_TABLE_H
#define ATP_CHANGE_TABLE_H

#include "postgres.h"

#include "fmgr.h"
#include "utils/relcache.h"

typedef enum AtpChangeKind
{
	ATP_CHANGE_NOTHING,			/* a table of users, or one of which no change is told */
	ATP_CHANGE_RECORD,
	ATP_CHANGE_REPO,
	ATP_CHANGE_LABEL,
	ATP_CHANGE_CURSOR
} AtpChangeKind;

/* The columns of each kind, in the order of change_table.c. */
enum
{
	ATP_RECORD_DID, ATP_RECORD_COLLECTION, ATP_RECORD_RKEY, ATP_RECORD_CID, ATP_RECORD_REV, ATP_RECORD_VALUE, ATP_RECORD_RAW
};
enum
{
	ATP_REPO_DID, ATP_REPO_REV, ATP_REPO_ACTIVE, ATP_REPO_STATUS, ATP_REPO_HANDLE, ATP_REPO_HIDDEN
};
enum
{
	ATP_LABEL_SRC, ATP_LABEL_URI, ATP_LABEL_VAL, ATP_LABEL_CID, ATP_LABEL_NEG, ATP_LABEL_CTS, ATP_LABEL_EXP, ATP_LABEL_VER, ATP_LABEL_SIG
};
enum
{
	ATP_CURSOR_SUBSCRIPTION, ATP_CURSOR_ENDPOINT, ATP_CURSOR_SHARD, ATP_CURSOR_SEQ
};

#define ATP_CHANGE_COLUMNS	9	/* at most */

typedef struct AtpChangeTable
{
	Oid			relid;			/* of the table or partition that is written; key of a hash table */
	Oid			root;			/* the partitioned table, or relid */
	AtpChangeKind kind;
	bool		packed;			/* the column value of a record is of type dagcbor */
	bool		readable;		/* false: the owner has altered the table, and rows cannot be told */
	char	   *target;			/* name of the schema */
	char	   *name;			/* of the table, not of the partition */
	AttrNumber	attnums[ATP_CHANGE_COLUMNS];	/* 0: the table lacks the column */
	FmgrInfo	out[ATP_CHANGE_COLUMNS];	/* output functions */
	bool		varlena[ATP_CHANGE_COLUMNS];	/* values may be stored elsewhere */
} AtpChangeTable;

/* Valid until the next call. */
extern const AtpChangeTable *atp_change_table(Relation relation);

/* Is this a table of a target whose changes are told, or a partition of one?  Outside of the plugin. */
extern bool atp_is_change_table(Oid relid);

/* Is the type one of the extension's? */
extern bool atp_is_extension_type(Oid type);

/* The number grows whenever a table may have been changed or dropped. */
extern uint64 atp_change_catalog_changes(void);

/* A reader begins to read a slot. */
extern void atp_change_tables_begin(void);

/* Number of columns of a kind, and of the key's columns, which come first. */
extern int	atp_change_columns(AtpChangeKind kind);
extern int	atp_change_key_columns(AtpChangeKind kind);

/*
 * JSONBOID, TEXTOID or BYTEAOID, whose values can be of any length; InvalidOid: another type, whose texts are short.  JSONBOID
 * stands for a dagcbor, too, where the table is packed.
 */
extern Oid	atp_change_column_type(AtpChangeKind kind, int column);

#endif							/* ATP_CHANGE_TABLE_H */
