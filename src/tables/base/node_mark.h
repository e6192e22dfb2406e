/*
 * node_mark.h
 *		Marks on the nodes of Citus, by which a node is noticed that has come back with older rows.
 *
 * A standby that is promoted, or a restore of one node, may lack transactions that the coordinator has
 * committed.  The stream does not bring their events again, because the cursor is on the coordinator.  So each
 * transaction of a process that fills a target writes its number into node_mark, on each node that the
 * transaction writes to, and into node_written, on the coordinator.  A node whose number is lower is behind.
 *
 * distribute() makes both tables.  Without them nothing is marked.
 */
#ifndef ATP_NODE_MARK_H
#define ATP_NODE_MARK_H

#include "postgres.h"

#include "config/subscription.h"
#include "tables/base/statements.h"

/* The transaction is about to run a statement on a table that Citus distributes. */
extern void atp_nodes_touch(AtpStatements *set, const AtpStatement *statement, const Datum *values);

/*
 * Before the commit, as the subscription's owner: write this transaction's number to the nodes that it writes
 * to.  ERROR of ATP_ERROR_PASSING if one of these nodes is behind: nothing may be committed there before
 * atp_nodes_repair().
 */
extern void atp_nodes_mark(AtpStatements *set, const AtpSubscription *sub);

/* Has this target both tables, and does Citus distribute node_mark? */
extern bool atp_has_node_marks(const char *target);

/*
 * In a transaction, as the subscription's owner: look at all nodes of the target.  Of a node that is behind, the
 * repositories are marked and are to be fetched, gaps are written for streams of labels, links are marked, and the
 * node counts as complete.  Returns what was found, in one line, palloc'd; NULL: no node is behind.
 */
extern char *atp_nodes_repair(const AtpSubscription *sub);

#endif							/* ATP_NODE_MARK_H */
