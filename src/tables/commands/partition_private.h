/*
 * partition_private.h
 *		What the files of atproto.partition() share.
 *
 * partition.c reads arguments, takes locks and goes from step to step, partition_make.c makes partitions,
 * partition_keep.c removes what is over.  partition_swap.h puts a table in partitions in the place of one
 * without, partition_move.h moves rows out of a default partition.
 */
#ifndef ATP_PARTITION_PRIVATE_H
#define ATP_PARTITION_PRIVATE_H

#include "postgres.h"

#include "config/owner.h"
#include "fmgr.h"
#include "nodes/pg_list.h"

/* When the network began: no month before that is anybody's. */
#define ATP_FIRST_MONTH	"2022-11-01"

/* How a table is cut. */
typedef struct AtpCut
{
	const char *table;
	const char *key;			/* as pg_get_partkeydef() says it */
	const char *column;			/* that the key is of */
	bool		months;			/* of its values; else one partition for each value */
	const char *order;			/* SQL of a row r: its value, in an order that "C" has, too */
	const char *type;			/* of the column, for literals */
	const char *bound;			/* SQL: such a value, where month m begins, m a timestamp in UTC */
} AtpCut;

extern const AtpCut atp_cut_record_collection;
extern const AtpCut atp_cut_record_month;
extern const AtpCut atp_cut_event_month;

/*
 * A call.  With pieces each step is a transaction; else all of them are in the caller's.
 * In a step the table's owner works, and names are looked for in pg_catalog only.
 */
typedef struct AtpParting
{
	FunctionCallInfo fcinfo;
	bool		pieces;
	MemoryContext cxt;			/* for what outlives a step */
	const char *schema;
	const AtpCut *cut;
	char	   *name;			/* the table's, quoted, with its schema */
	char	   *options;		/* storage parameters of new partitions: those of the table, or of its default partition */
	bool		in_step;
	int			nest;
	AtpCaller	caller;
} AtpParting;

/* A partition that is to be there. */
typedef struct AtpPart
{
	char	   *name;			/* without the schema */
	char	   *values;			/* after FOR VALUES */
	char	   *condition;		/* the same as SQL on a row r */
} AtpPart;

/* --- partition.c --- */

/* A step begins, of the table of the cut, and ends. */
extern void atp_parting_begin(AtpParting *w);
extern void atp_parting_end(AtpParting *w);

/* A line of what was done. */
extern void atp_parting_say(AtpParting *w, const char *text);

/* One value, as text; NULL: null, or no row. */
extern char *atp_parting_ask(const char *sql);

/* A relation of the schema; InvalidOid: there is none. */
extern Oid	atp_parting_relid(AtpParting *w, const char *table);
extern char *atp_parting_rest(AtpParting *w);	/* the default partition's name, without the schema */

/* For a step that makes or removes partitions: the table exclusively, and before it the table link, if that is written. */
extern void atp_parting_lock(AtpParting *w, bool links);

/* Against those who write into one partition, or link; readers go on. */
extern void atp_parting_lock_part(AtpParting *w, const char *part);

/* --- partition_make.c --- */

/* Partitions that are to be there and are not: for collections; for the months from now on, and those of which a table has rows. */
extern List *atp_missing_collections(AtpParting *w, char **collections, int n);
extern List *atp_missing_months(AtpParting *w, int ahead, const char *rows_of, const char *keep);

extern void atp_make_part(AtpParting *w, const AtpPart *part);
extern void atp_make_rest(AtpParting *w);

/* --- partition_keep.c --- */

/* Remove months that ended longer ago than keep, an interval, and rows of the default partition that are as old. */
extern void atp_remove_months(AtpParting *w, const char *keep);

#endif							/* ATP_PARTITION_PRIVATE_H */
