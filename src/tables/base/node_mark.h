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

/*
 * For a transaction that will call atp_nodes_mark(), before it locks any row: wait until no atp_nodes_repair() of the
 * target runs, and keep later ones waiting until the end of the transaction.  atp_tables_lock() does the same.
 */
extern void atp_nodes_hold(const char *target);

/* Has this target both tables, and does Citus distribute node_mark? */
extern bool atp_has_node_marks(const char *target);

/*
 * In a transaction of its own, as the subscription's owner: is a node of the target behind?  Keeps locks on rows of
 * node_mark, for which writers wait that have locks on other rows: so atp_nodes_repair() needs another transaction.
 */
extern bool atp_nodes_are_behind(const char *target);

/*
 * In a transaction without locks on the target's tables, as the subscription's owner: look at all nodes of the target
 * again, while no writer has changed any row.  Of a node that is behind, the repositories are marked and are to be
 * fetched, gaps are written for streams of labels, links are marked, and the node counts as settled.  Returns what was
 * found, in one line, palloc'd; NULL: no node is behind any more.
 */
extern char *atp_nodes_repair(const AtpSubscription *sub);

#endif							/* ATP_NODE_MARK_H */
