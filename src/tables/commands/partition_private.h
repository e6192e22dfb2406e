/*
 * partition_private.h
 *		Shared by the files of atproto.partition().
 *
 * partition.c reads arguments, takes locks, and runs the steps; partition_make.c makes partitions;
 * partition_keep.c removes months that are over.  partition_swap.h replaces a plain table by a
 * partitioned table, and partition_move.h moves rows out of a default partition.
 */
#ifndef ATP_PARTITION_PRIVATE_H
#define ATP_PARTITION_PRIVATE_H

#include "postgres.h"

#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "nodes/pg_list.h"
#include "tables/records/table_link.h"

/* The first month of the network; record keys before are not times. */
#define ATP_FIRST_MONTH	"2022-11-01"

/* How a table is partitioned. */
typedef struct AtpCut
{
	const char *table;
	const char *key;			/* in the form of pg_get_partkeydef() */
	const char *column;			/* the partition key's column */
	bool		months;			/* partitions by month; false: a partition for each value */
	const char *order;			/* SQL: the column's value of a row r, as a text or time that sorts
								 * like the partition bounds */
	const char *type;			/* type of the column, for literals */
	const char *bound;			/* SQL: the column's value at the begin of month m, a timestamp in
								 * UTC */
} AtpCut;

extern const AtpCut atp_cut_record_collection;
extern const AtpCut atp_cut_record_month;
extern const AtpCut atp_cut_event_month;

/*
 * A call.  pieces: each step is a transaction (maintain_partitions()); else all steps run in the
 * caller's transaction.  A step runs as the table's owner, with search_path = pg_catalog, pg_temp.
 */
typedef struct AtpParting
{
	FunctionCallInfo fcinfo;
	bool		pieces;
	MemoryContext cxt;			/* memory for data beyond a step */
	const char *schema;
	const AtpCut *cut;
	char	   *name;			/* the table, quoted, with its schema */
	char	   *options;		/* storage parameters of new partitions: as of the table, or of its
								 * default partition */
	bool		in_step;
	int			nest;
	AtpCaller	caller;
} AtpParting;

/* A partition to make. */
typedef struct AtpPart
{
	char	   *name;			/* without the schema */
	char	   *values;			/* follows FOR VALUES */
	char	   *condition;		/* the values as SQL condition on a row r */
} AtpPart;

/* --- partition.c --- */

/* Begin and end a step, as the owner of the cut's table. */
extern void atp_parting_begin(AtpParting *w);
extern void atp_parting_end(AtpParting *w);

/* Report a line: a row of partition(), a NOTICE of maintain_partitions(). */
extern void atp_parting_say(AtpParting *w, const char *text);

/* A single value, as text; NULL: null, or no row. */
extern char *atp_parting_ask(const char *sql);

/* OID of a relation in the schema; InvalidOid: no such relation. */
extern Oid	atp_parting_relid(AtpParting *w, const char *table);
extern char *atp_parting_rest(AtpParting *w);	/* name of the default partition, without the
												 * schema */

/* Lock the table exclusively, before partitions are made or removed ... */
extern void atp_parting_lock(AtpParting *w);

/*
 * ... after the table link, if links are written.  Each attempt begins with first(arg): see
 * partition_lock.h.
 */
extern void atp_parting_lock_after(AtpParting *w, bool links, void (*first) (void *arg), void *arg);

/* --- partition_make.c --- */

/*
 * Missing partitions: of collections; of months from now on, and of months of which the table
 * rows_of has rows.
 */
extern List *atp_missing_collections(AtpParting *w, char **collections, int n);
extern List *atp_missing_months(AtpParting *w, int ahead, const char *rows_of, const char *keep);

extern void atp_make_part(AtpParting *w, const AtpPart *part);
extern void atp_make_rest(AtpParting *w);

/* --- partition_keep.c --- */

/*
 * Remove months that ended longer ago than keep (an interval), and rows of the default partition of
 * the same age.
 */
extern void atp_remove_months(AtpParting *w, const char *keep);

/* --- partition_claims.c --- */

/*
 * Repositories that lose records of a month are no longer synchronized or proven: dids is SQL, a query of their DIDs.  The
 * rows of the repositories stay locked until the end of the step, as while a consumer writes records of the repositories.
 */
extern void atp_parting_withdraw_some(AtpParting *w, const char *dids);

/* The same for the accounts of an array, whose records Citus keeps. */
extern void atp_parting_withdraw_apart(AtpParting *w, AtpArg dids);

/* The same for all accounts with records in a partition; only repositories that claim something are locked. */
extern void atp_parting_withdraw_month(AtpParting *w, const char *part);

/* The same, and nobody else can claim anything until the end of the transaction; sessions that read go on. */
extern void atp_parting_withdraw_last(AtpParting *w, const char *part);

/* SQL: does row r belong to no repository that claims to be synchronized?  "true" if the rows are of a table without claims. */
extern const char *atp_parting_unclaimed(AtpParting *w);

/* --- partition_links.c --- */

/*
 * SQL: four arrays in a row, the whole keys of all links of these rows, in the order of the primary
 * key.
 */
#define ATP_LINKS_OF(rows) \
	"SELECT array_agg(i.target) AS targets, array_agg(i.source) AS sources, array_agg(i.rkey) AS rkeys, array_agg(i.did) AS dids" \
	" FROM (SELECT * FROM (" ATP_LINK_IMAGE(ATP_LINK_PLACES(rows), "") ") u" \
	"  ORDER BY target USING OPERATOR(@.<), source, rkey USING OPERATOR(@.<), did USING OPERATOR(@.<)) i"

/* Remove the links whose keys are in the four arrays. */
extern void atp_remove_links(AtpParting *w, AtpTuple found);

/*
 * If Citus keeps the rows: remove all rows of a partition with their links, in steps; or the
 * remaining rows, in the current step.
 */
extern void atp_remove_rows_apart(AtpParting *w, const char *part);
extern void atp_remove_rest_apart(AtpParting *w, const char *part);

#endif							/* ATP_PARTITION_PRIVATE_H */
