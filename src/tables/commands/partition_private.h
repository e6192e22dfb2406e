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
#include "config/spi.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "tables/records/table_link.h"

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

/* For a step that makes or removes partitions: the table exclusively ... */
extern void atp_parting_lock(AtpParting *w);

/* ... and before it the table link, if that is written.  Each attempt begins with first(arg): see partition_lock.h. */
extern void atp_parting_lock_after(AtpParting *w, bool links, void (*first) (void *arg), void *arg);

/* --- partition_make.c --- */

/* Partitions that are to be there and are not: for collections; for the months from now on, and those of which a table has rows. */
extern List *atp_missing_collections(AtpParting *w, char **collections, int n);
extern List *atp_missing_months(AtpParting *w, int ahead, const char *rows_of, const char *keep);

extern void atp_make_part(AtpParting *w, const AtpPart *part);
extern void atp_make_rest(AtpParting *w);

/* --- partition_keep.c --- */

/* Remove months that ended longer ago than keep, an interval, and rows of the default partition that are as old. */
extern void atp_remove_months(AtpParting *w, const char *keep);

/* --- partition_links.c --- */

/* SQL: a row of four arrays, the whole keys of all links of these rows, in the order of the table's key. */
#define ATP_LINKS_OF(rows) \
	"SELECT array_agg(i.target) AS targets, array_agg(i.source) AS sources, array_agg(i.rkey) AS rkeys, array_agg(i.did) AS dids" \
	" FROM (SELECT * FROM (" ATP_LINK_IMAGE(ATP_LINK_PLACES(rows), "") ") u" \
	"  ORDER BY target USING OPERATOR(@.<), source, rkey USING OPERATOR(@.<), did USING OPERATOR(@.<)) i"

/* Remove these links. */
extern void atp_remove_links(AtpParting *w, AtpTuple found);

/* Where Citus keeps the rows: remove all rows of a partition with their links, in steps; or those that are left, in this one. */
extern void atp_remove_rows_apart(AtpParting *w, const char *part);
extern void atp_remove_rest_apart(AtpParting *w, const char *part);

#endif							/* ATP_PARTITION_PRIVATE_H */
