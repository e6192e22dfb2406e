/*
 * table.h
 *		What a data table is: the columns, the statements, and the view beside the table.
 *
 * Each table describes itself in a separate file.  The tables are ordinary tables in a schema of
 * the user's choice and no members of the extension, so pg_dump saves the tables with the user's
 * indexes, triggers, partitions, grants and row security.
 */
#ifndef ATP_TABLE_H
#define ATP_TABLE_H

#include "postgres.h"

/* Types of columns and of parameters. */
typedef enum AtpType
{
	ATP_TYPE_END,				/* end of a list of types */
	/* types of the extension */
	ATP_TYPE_DID,
	ATP_TYPE_NSID,
	ATP_TYPE_RKEY,
	ATP_TYPE_CID,
	ATP_TYPE_TID,
	ATP_TYPE_HANDLE,
	ATP_TYPE_ATURI,
	ATP_TYPE_DAGCBOR,
	/* types of PostgreSQL */
	ATP_TYPE_JSONB,
	ATP_TYPE_BYTEA,
	ATP_TYPE_BOOL,
	ATP_TYPE_TEXT,
	ATP_TYPE_INT4,
	ATP_TYPE_INT8,
	ATP_TYPE_TIMESTAMP,
	ATP_TYPE_OID,
	ATP_TYPE_CTID,
	/* of the values of records: dagcbor or jsonb, by the target (atp_value_type()) */
	ATP_TYPE_VALUE,
	ATP_TYPE_COUNT
} AtpType;

/* AtpType of an array parameter. */
#define ATP_ARRAY(type)	(ATP_TYPE_COUNT + (type))

#define atp_type_is_ours(type)	((type) >= ATP_TYPE_DID && (type) <= ATP_TYPE_DAGCBOR)

/* How a column gets values. */
typedef enum AtpWritten
{
	ATP_KEY,					/* with each row; identifies the row */
	ATP_VALUE,					/* with each row */
	ATP_COMMON,					/* as a parameter shared by all rows of a statement */
	ATP_APART					/* by the column's default, or by statements written for the column */
} AtpWritten;

typedef struct AtpColumn
{
	const char *name;
	AtpType		type;
	AtpWritten	written;
	const char *constraints;	/* in CREATE TABLE, or NULL */
	const char *comment;		/* NULL: none */
	/* offset of the value in the struct of a row, for tables with a struct */
	size_t		at;
	size_t		known;			/* offset of a bool, false: SQL null; 0: a NULL pointer is SQL null */
	const char *more;			/* SQL to run after the column was added or the table made; NULL: none */
	const char *index;			/* index that "more" makes, and that a table of an earlier version lacks though it
								 * has the column; NULL: none */
} AtpColumn;

#define ATP_STATEMENT_ARGS	40

/*
 * A statement.  In the SQL, # stands for the schema of the data tables and @ for the schema of the extension's
 * operators.  For the table's columns that are written with each row stand:
 *
 * {columns}: their names.
 *
 * {r.columns}: their names, an ATP_KEY as r.name, because the joined relation has a column of the same name.
 *
 * {arrays}: parameters after args, an array for each column.
 *
 * {set u}: name = u.name for each ATP_VALUE.
 */
typedef struct AtpStatement
{
	const char *sql;
	int			result;			/* SPI_OK_... */
	int			args[16];		/* AtpType, or ATP_ARRAY(AtpType) */
	AtpType		columns[12];	/* types of the returned columns */
	const struct AtpTable *table;	/* NULL: no data table */
	int			flags;
	const struct AtpStatement *distributed; /* variant for a table under Citus or with shard_setup's column; or NULL */
} AtpStatement;

/* Flags. */
#define ATP_ROWS_IN		1		/* {arrays} are parameters */
#define ATP_ROWS_OUT	2		/* {columns} are returned and read */
/*
 * Planned at each run, for the table's present size: for statements joining arrays with the table.  All statements
 * without this flag are planned once, so that large arrays are not copied into a plan.
 */
#define ATP_PLANNED_ANEW	4
#define ATP_DIRECT		8		/* direct.h does the same, with the statement's privileges */
/*
 * Planned once, with sequential scans, bitmap scans and sorts disabled, so that rows come in the order of an index,
 * however small the table is at that time.
 */
#define ATP_BY_INDEX	16
#define ATP_BY_KEY		32		/* planned at each run, with unique indexes only: the whole key is known (key_plan.h) */

typedef struct AtpTable
{
	const char *name;
	int			use;			/* ATP_USE_... */
	const AtpColumn *columns;
	int			ncolumns;
	const char *key;			/* table constraints; NULL: column constraints only */
	const char *options;		/* SQL after the list of columns; or NULL */
	const char *more;			/* SQL to run after CREATE TABLE; or NULL */
	const char *comment;
	/* the view beside the table */
	const char *view;			/* name of the view; NULL: no view */
	const char *view_query;
	const char *view_comment;
	const char *view_more;		/* SQL to run after CREATE VIEW; or NULL */
	const AtpStatement *statements;
	int			nstatements;
	bool		whole;			/* a row that row security hides would be taken for a missing row: no subscription fills such a table */
	bool		keyed;			/* rows are always looked up by the first column, which is the primary key */
	const char *renewed;		/* column set to the default by each update and insertion, or NULL */
	const char *shard_by;		/* column by which distribute() divides rows; NULL: all on the coordinator */
	/*
	 * SQL that adds the column shard_by when it is not in columns; the table then uses the variants in
	 * AtpStatement.distributed.  NULL: shard_by is in columns.
	 */
	const char *shard_setup;
	/* the column, one of columns, that the column shard_setup adds follows from, and how; NULL: shard_by is one of columns */
	const char *routed_by;
	struct varlena *(*route) (const struct varlena *value);
} AtpTable;

/* Value of shard_by: each server has a copy of all rows. */
#define ATP_EVERYWHERE	""

/* The data tables in use by a subscription, as bits. */
#define ATP_USE_REPOS		1	/* record, repo */
#define ATP_USE_EVENTS		2	/* record_event */
#define ATP_USE_LABELS		4
#define ATP_USE_MESSAGES	8
#define ATP_USE_LINKS		16	/* link, link_source, link_count */
#define ATP_USE_COUNTS		32	/* collection_count */
#define ATP_USE_SWEEP		64	/* sweep_deletion, while a sweep runs */
#define ATP_USE_PLC			128 /* plc_text, plc_operation, plc_refused */

extern const AtpTable atp_record_table;
extern const AtpTable atp_repo_table;
extern const AtpTable atp_record_event_table;
extern const AtpTable atp_label_table;
extern const AtpTable atp_message_table;
extern const AtpTable atp_link_source_table;
extern const AtpTable atp_link_table;
extern const AtpTable atp_link_count_table;
extern const AtpTable atp_collection_count_table;
extern const AtpTable atp_sweep_deletion_table;
extern const AtpTable atp_plc_text_table;
extern const AtpTable atp_plc_operation_table;
extern const AtpTable atp_plc_refused_table;

#ifdef ATP_INJECTION_POINTS
/* Define the setting atproto.test_value. */
extern void atp_table_init(void);
#else
#define atp_table_init()	((void) 0)
#endif

/* All data tables, in the order in which they are made; ends with NULL. */
extern const AtpTable *const atp_tables[];

/* The columns written with each row, palloc'd. */
extern const AtpColumn **atp_row_columns(const AtpTable *table, int *n);

/* The type that stands for "type" in a target whose values are of the type dagcbor (packs), or jsonb. */
extern AtpType atp_value_type(AtpType type, bool packs);

/* Name of a type; OID of a PostgreSQL type (the OID of an extension type differs between databases). */
extern const char *atp_type_name(AtpType type);
extern Oid	atp_type_oid(AtpType type);

/* Does this table of a schema have the column that shard_setup adds? */
extern bool atp_has_shard_column(const AtpTable *table, Oid relid);

/* Can the column be added to an existing table? */
extern bool atp_column_can_be_added(const AtpColumn *column);

/* Was the relation with the table's name made by this or an older version of the extension? */
extern bool atp_table_is_ours(const AtpTable *table, Oid relid);

/*
 * Replace # by the quoted schema of the data tables and @ by the quoted schema of the extension's types and
 * operators.  palloc'd.
 */
extern char *atp_expand_sql(const char *sql, const char *target);

/* The SQL of a statement; the parameters of {arrays} begin after nargs parameters. */
extern char *atp_expand_statement(const AtpStatement *statement, int nargs, const char *target);

/*
 * Make the data tables missing in schema target, and add columns missing in existing tables; SPI is connected.  value is the
 * type of the values of records, "jsonb" or "dagcbor"; NULL: the type that the table record has already, else jsonb.
 */
extern void atp_create_tables(const char *target, const char *value);

#endif							/* ATP_TABLE_H */
