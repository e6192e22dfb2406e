/*
 * table.h
 *		What a data table is: its columns, the statements on it, and the view
 *		beside it.  Each table describes itself in a file of its own.
 *
 * They are ordinary tables in a schema of the user's choice and no members of
 * the extension: so the user's indexes, triggers, partitions, grants and row
 * security on them are dumped and restored with everything else.
 */
#ifndef ATP_TABLE_H
#define ATP_TABLE_H

#include "postgres.h"

/* Types of columns and of parameters. */
typedef enum AtpType
{
	ATP_TYPE_END,				/* of a list of types */
	/* the extension's */
	ATP_TYPE_DID,
	ATP_TYPE_NSID,
	ATP_TYPE_RKEY,
	ATP_TYPE_CID,
	ATP_TYPE_TID,
	ATP_TYPE_HANDLE,
	ATP_TYPE_ATURI,
	/* PostgreSQL's */
	ATP_TYPE_JSONB,
	ATP_TYPE_BYTEA,
	ATP_TYPE_BOOL,
	ATP_TYPE_TEXT,
	ATP_TYPE_INT4,
	ATP_TYPE_INT8,
	ATP_TYPE_TIMESTAMP,
	ATP_TYPE_OID,
	ATP_TYPE_PLACE,
	ATP_TYPE_COUNT
} AtpType;

/* A parameter that is an array of these. */
#define ATP_ARRAY(type)	(ATP_TYPE_COUNT + (type))

#define atp_type_is_ours(type)	((type) >= ATP_TYPE_DID && (type) <= ATP_TYPE_ATURI)

/* How a column gets its values. */
typedef enum AtpWritten
{
	ATP_KEY,					/* with each row, which it tells from others */
	ATP_VALUE,					/* with each row */
	ATP_COMMON,					/* as a parameter, the same in all rows of a statement */
	ATP_APART					/* by its default, or by statements that are about it */
} AtpWritten;

typedef struct AtpColumn
{
	const char *name;
	AtpType		type;
	AtpWritten	written;
	const char *constraints;	/* in CREATE TABLE; NULL: none */
	const char *comment;		/* NULL: none */
	/* where it is in the struct that a row becomes, for tables that have such a one */
	size_t		at;
	size_t		known;			/* a bool, false: null; 0: a null pointer tells */
	const char *more;			/* SQL after it was added, or its table made; NULL: none */
} AtpColumn;

#define ATP_STATEMENT_ARGS	32

/*
 * A statement.  In its SQL stands # for the schema of the data tables and @ for
 * that of our operators; and of the table's columns that are written with each row,
 *
 *		{columns}		their names
 *		{r.columns}		likewise, an ATP_KEY as r.name: what it is joined with has it, too
 *		{arrays}		the parameters after args, each an array of one of them
 *		{set u}			name = u.name of each ATP_VALUE
 */
typedef struct AtpStatement
{
	const char *sql;
	int			result;			/* SPI_OK_... */
	int			args[16];		/* AtpType, or ATP_ARRAY of it */
	AtpType		columns[12];		/* that come back and are read */
	const struct AtpTable *table;	/* NULL: none of the data tables */
	int			flags;
	const struct AtpStatement *distributed;	/* instead, where Citus keeps the table's rows, or it has the column that shard_setup adds; NULL: the same */
} AtpStatement;

/* Flags. */
#define ATP_ROWS_IN		1		/* {arrays} are parameters */
#define ATP_ROWS_OUT	2		/* {columns} come back and are read */
/*
 * Planned each time, for the table as it has grown by now: what joins arrays with
 * it.  All others are planned once, and their large parameters are not copied into a plan.
 */
#define ATP_PLANNED_ANEW	4
#define ATP_AS_HEAP		8		/* heap.c does the same: who may run it may do that */
/*
 * Planned once, and for an index in whose order the rows come, however small the
 * table is at that time.
 */
#define ATP_BY_INDEX	16
#define ATP_BY_KEY		32		/* planned anew, and only for a unique index: it knows the key of each row (key_plan.h) */

typedef struct AtpTable
{
	const char *name;
	int			use;			/* ATP_USE_... */
	const AtpColumn *columns;
	int			ncolumns;
	const char *key;			/* constraints of the table; NULL: none but those of columns */
	const char *options;		/* after the columns; or NULL */
	const char *more;			/* SQL after that, in order; or NULL */
	const char *comment;
	/* a view beside it */
	const char *view;			/* its name; NULL: none */
	const char *view_query;
	const char *view_comment;
	const AtpStatement *statements;
	int			nstatements;
	bool		keyed;			/* its rows are always looked for, by the first column, which is the key */
	const char *renewed;		/* the column that each update sets to its default, as each insertion does; NULL: none */
	const char *shard_by;		/* atproto.distribute(): this column says which server has a row; NULL: this one has all */
	/*
	 * SQL that adds that column, which is none of columns: statements then are those that distributed names.
	 * NULL: it is one of them.
	 */
	const char *shard_setup;
	/* the column, one of columns, that the column shard_setup adds follows from, and how; NULL: shard_by is one of columns */
	const char *routed_by;
	struct varlena *(*route) (const struct varlena *value);
} AtpTable;

/* As shard_by: each server has a copy of all rows. */
#define ATP_EVERYWHERE	""

/* What of the target schema a subscription uses. */
#define ATP_USE_REPOS		1	/* record, repo */
#define ATP_USE_EVENTS		2	/* record_event */
#define ATP_USE_LABELS		4
#define ATP_USE_MESSAGES	8
#define ATP_USE_LINKS		16	/* link, link_source */
#define ATP_USE_COUNTS		32	/* collection_count */

extern const AtpTable atp_record_table;
extern const AtpTable atp_repo_table;
extern const AtpTable atp_record_event_table;
extern const AtpTable atp_label_table;
extern const AtpTable atp_message_table;
extern const AtpTable atp_link_source_table;
extern const AtpTable atp_link_table;
extern const AtpTable atp_collection_count_table;

/* All of them, in the order in which they are made; ends with NULL. */
extern const AtpTable *const atp_tables[];

/* The columns that are written with each row, palloc'd. */
extern const AtpColumn **atp_row_columns(const AtpTable *table, int *n);

/* A type's name, and its OID where it is PostgreSQL's. */
extern const char *atp_type_name(AtpType type);
extern Oid	atp_type_oid(AtpType type);

/* Has this table, which is one of a schema's, the column that shard_setup adds? */
extern bool atp_has_shard_column(const AtpTable *table, Oid relid);

/* Can a table that is there already get this column? */
extern bool atp_column_can_be_added(const AtpColumn *column);

/* Has this version, or one before it, made the relation that has the table's name? */
extern bool atp_table_is_ours(const AtpTable *table, Oid relid);

/*
 * Replace, in SQL of ours, # by the quoted schema of the data tables and @ by
 * the quoted schema of our types and operators.  palloc'd.
 */
extern char *atp_expand_sql(const char *sql, const char *target);

/* The SQL of a statement; {arrays} begin after so many parameters. */
extern char *atp_expand_statement(const AtpStatement *statement, int nargs, const char *target);

/*
 * Make those of the tables that schema target does not have yet, and add columns
 * that its tables lack; SPI is open.
 */
extern void atp_create_tables(const char *target);

#endif							/* ATP_TABLE_H */
