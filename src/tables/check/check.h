/*
 * check.h
 *		Invariants between the tables, each a query that gives what breaks it (check.c).
 *
 * An invariant is an entry in one of the lists below, and nothing else: its query stands as plain
 * SQL, in which # is the quoted schema of the data tables, @ that of our types and operators, $1
 * the target's name, and {sample} stands behind a table of which a share is enough.  It gives
 *
 *		did, object, detail					of each target
 *		target, did, object, detail			with ATP_CHECK_ONCE
 *
 * and no row of what a running process will have mended within seconds.  To add one: the entry, and
 * its damage in test/t/270_check.pl.
 */
#ifndef ATP_CHECK_H
#define ATP_CHECK_H

typedef struct AtpInvariant
{
	const char *what;			/* its name for users and tests, which stays */
	/*
	 * What the query reads: relations, "#." or "atproto." and a name, and ".column" where it needs one
	 * that tables of an earlier version lack.  Without one of them the invariant does not apply.  "!":
	 * that a row is not there counts, so one that row security hides would be missed wrongly.
	 */
	const char *reads;
	int			flags;
	const char *sql;
	const char *mend;			/* {target}, {did}, {object}: of the row, as SQL literals */
} AtpInvariant;

/* Flags. */
#define ATP_CHECK_ONCE	1		/* of all targets in one query */
#define ATP_CHECK_DEEP	2		/* only with deep => true */
#define ATP_CHECK_PLAIN	4		/* not where Citus keeps the rows */
#define ATP_CHECK_WHOLE	8		/* nobody can estimate its rows: joins of whole tables are no nested loops */
#define ATP_CHECK_NODES	16		/* only where Citus marks its nodes (node_mark.h) */

/* SQL: how messages are written (source.c). */
#define ATP_CHECK_FORMATS "('dag-cbor', 'json', 'jetstream')"

/* Each ends with a NULL. */
extern const AtpInvariant atp_check_repos[];	/* repositories and their records */
extern const AtpInvariant atp_check_links[];
extern const AtpInvariant atp_check_events[];	/* record_event, collection_count */
extern const AtpInvariant atp_check_waiting[];	/* held events, jobs, wishes, audits */
extern const AtpInvariant atp_check_streams[];	/* subscriptions, cursors, gaps, dead letters */
extern const AtpInvariant atp_check_nodes[];	/* nodes of Citus */
extern const AtpInvariant atp_check_shapes[];	/* tables, partitions, numbers */

#endif							/* ATP_CHECK_H */
