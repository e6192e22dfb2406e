/*
 * check.h
 *		Invariants between the tables: each is a query that returns the rows that break the
 *		invariant (check.c).
 *
 * An invariant is an entry in a list below, and nothing else.  In its SQL, # is the quoted schema
 * of the data tables, @ the schema of our types and operators, $1 the target's name, and {sample}
 * follows a table of which a share is enough.  The query runs for each target and returns did,
 * object, detail; with ATP_CHECK_ONCE it runs once and returns target, did, object, detail.
 *
 * A query returns no row that a running process will repair within seconds.  To add an invariant:
 * the entry, and its damage in test/t/operate/270_check.pl.
 */
#ifndef ATP_CHECK_H
#define ATP_CHECK_H

typedef struct AtpInvariant
{
	const char *what;			/* name for users and tests; must stay stable */
	/*
	 * What the query reads: relations, as "#." or "atproto." and a name, followed by ".column" if
	 * the query needs a column that tables of an earlier version lack, and by ":" and a type of the extension if only
	 * a column of this type has the invariant.  If any is missing, the invariant does not apply.  "!": the query looks for rows that are missing, so a row hidden by
	 * row security would be reported wrongly.
	 */
	const char *reads;
	int			flags;
	const char *sql;
	const char *mend;			/* {target}, {did}, {object}: values of the row, as SQL literals */
} AtpInvariant;

/* Flags. */
#define ATP_CHECK_ONCE	1		/* a query for all targets */
#define ATP_CHECK_DEEP	2		/* only with deep => true */
#define ATP_CHECK_PLAIN	4		/* not for tables that Citus keeps */
#define ATP_CHECK_WHOLE	8		/* whole tables are joined, with row counts unknown to the planner:
								 * no nested loops */
#define ATP_CHECK_NODES	16		/* only for tables whose nodes Citus has and marks tell apart (node_mark.h) */

/* SQL: the formats of messages (source.c). */
#define ATP_CHECK_FORMATS "('dag-cbor', 'json', 'jetstream', 'plc')"

/* Each list ends with a NULL. */
extern const AtpInvariant atp_check_repos[];	/* repositories and their records */
extern const AtpInvariant atp_check_links[];
extern const AtpInvariant atp_check_events[];	/* record_event, collection_count */
extern const AtpInvariant atp_check_waiting[];	/* held events, jobs, status requests, audits */
extern const AtpInvariant atp_check_streams[];	/* subscriptions, cursors, gaps, dead letters */
extern const AtpInvariant atp_check_plc[];	/* logs of did:plc accounts */
extern const AtpInvariant atp_check_nodes[];	/* nodes of Citus */
extern const AtpInvariant atp_check_shapes[];	/* tables, partitions, numbers */

#endif							/* ATP_CHECK_H */
