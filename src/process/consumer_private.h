/*
 * consumer_private.h
 *		What the files of the consumer share.
 *
 * consumer.c begins and ends it, consumer_loop.c is its loop, consumer_state.c
 * its states, consumer_settings.c follows the subscription's row,
 * consumer_stream.c the connection, consumer_batch.c brings what came into the
 * tables.
 */
#ifndef ATP_CONSUMER_PRIVATE_H
#define ATP_CONSUMER_PRIVATE_H

#include "postgres.h"

#include "clock.h"
#include "compat.h"
#include "config/subscription.h"
#include "net/connection.h"
#include "net/unzstd.h"
#include "process/consumer.h"
#include "process/shards.h"
#include "process/status.h"
#include "process/subscription_log.h"
#include "source.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "tables/gap.h"
#include "tables/release.h"
#include "tables/statements.h"

#define ATP_LOOK_MS		1000	/* workers tell what they have done; one that never started tells nobody */

typedef struct Consumer
{
	const char *name;
	bool		managed;		/* by a manager, which restarts it */
	MemoryContext loop_cxt;		/* reset with each round of the loop */
	AtpState	state;
	AtpState	shown;			/* the last one that others could see */

	/* the subscription's row */
	MemoryContext cxt;			/* the subscription, and whatever lives as long */
	AtpSubscription *sub;
	const AtpSource *source;	/* what kind of stream it is */
	char	   *activity;		/* what pg_stat_activity shows while streaming */

	/* the stream */
	MemoryContext conn_cxt;		/* reset with each connection */
	AtpConn    *conn;			/* NULL between connections */
	char	   *asked;			/* what it was asked for, but for the cursor */
	AtpUnzstd  *unzstd;			/* NULL: messages are not compressed */
	uint32		dictionary;		/* the number of its dictionary; 0: none */
	int64		too_old;		/* a cursor that the server has nothing from any more; -1: none */
	uint64		counted_bytes;	/* of the connection, already in the statistics */
	uint64		heard_bytes;	/* of it, when the process waited last */
	AtpTime		last_data;		/* or when the present connection began */
	AtpTime		last_ping;
	AtpTime		listened;		/* the end of the last wait for data */
	AtpTime		waiting_until;	/* ATP_STATE_WAITING */
	AtpTime		undecided_since;	/* ATP_STATE_UNDECIDED */
	const char *undecided_why;
	int			failures;		/* since the last progress */
	int64		drop_seq;		/* where the stream was dropped for its contents */
	int			drops_there;

	/* what came */
	AtpBatch   *batch;
	AtpTime		applied_in;		/* what the last one took, without workers ... */
	AtpTime		applied_at;		/* ... and when it ended */
	AtpTime		deferred;		/* what has come is not decoded, since then; 0: it may be */
	bool		decides;		/* the other one has it, or has taken too long */
	Oid			states;			/* the table of states of repositories; InvalidOid: it fills none */
	AtpDecoder *decoder;
	AtpStatements *statements;
	AtpShards  *shards;			/* NULL: this process applies what it receives */
	AtpPosition position;		/* taken into the batch */
	int64		handed;			/* given to the workers; the cursor without them */
	int64		cursor;			/* committed; -1: none */
	int			layout;			/* of the cursor: see AtpCursor */

	AtpGapWatch gaps;

	/*
	 * The number of workers has been changed, and their cursors differ, so it
	 * cannot be obeyed yet: a worker passes over what is in its cursor.  At this
	 * position, the highest of them, all have the same, and the consumer starts
	 * anew.  -1: nothing was changed.
	 */
	int64		reshard_at;

	/*
	 * Records of deleted accounts may be left: more than one transaction should
	 * remove.  Each round of the loop removes some, until none are found.  With
	 * workers, the first of them does it.
	 */
	bool		purge_due;
	AtpTime		purge_look;		/* when that was last taken for possible: the fetcher may leave some (V-47) */
	bool		has_nodes;		/* Citus distributes the tables, and marks tell which rows its nodes have ... */
	AtpTime		nodes_look;		/* ... which was looked at then */
	AtpReleaser releaser;		/* of what is held, without workers */
	int64		uncounted[ATP_SKIP_COUNT];	/* skips of messages that move no cursor (skips.h) */
	bool		stats_pending;	/* PostgreSQL's, of our transactions */
	AtpLog	   *log;			/* of what happens; NULL before the subscription is this process's */
	bool		log_ended;		/* why it ends is in the log */
} Consumer;

/* --- consumer.c --- */

/* End the process; again: it is to come back. */
pg_noreturn extern void atp_consumer_leave(Consumer *c, const char *why, bool again);

/* End the subscription, too: an operator has to decide. */
pg_noreturn extern void atp_consumer_stop(Consumer *c, const char *reason);

/* Note what happened; what ends the process, once. */
extern void atp_consumer_note(Consumer *c, AtpLogged what, const char *detail);
extern void atp_consumer_note_end(Consumer *c, AtpLogged what, const char *detail);

/* Look whether a node of Citus has come back with older rows, and take back what is known of them (node_mark.h). */
extern void atp_consumer_look_at_nodes(Consumer *c);
extern long atp_consumer_nodes_look_due(const Consumer *c);

/* --- consumer_loop.c --- */

pg_noreturn extern void atp_consumer_loop(Consumer *c);

/* --- consumer_state.c: a function for each way from one state to another --- */

extern void atp_consumer_is_starting(Consumer *c);	/* the wait after a crash is over */
extern void atp_consumer_is_waiting(Consumer *c, int delay_ms);
extern void atp_consumer_is_connecting(Consumer *c);
extern void atp_consumer_is_streaming(Consumer *c);
extern void atp_consumer_is_undecided(Consumer *c, const char *why);
extern void atp_consumer_is_decided(Consumer *c);
extern void atp_consumer_is_settling(Consumer *c);
extern void atp_consumer_is_settled(Consumer *c, AtpState before);
extern void atp_consumer_is_stopping(Consumer *c);
extern void atp_consumer_is_leaving(Consumer *c);

/* What pg_stat_activity shows while no transaction is open. */
extern void atp_consumer_report(const Consumer *c);

/* --- consumer_settings.c --- */

/* Take the subscription's row as it is now, or leave. */
extern void atp_consumer_read_settings(Consumer *c);

/* --- consumer_dictionary.c --- */

/*
 * By which dictionary the server of the subscription may compress what it sends,
 * palloc'd in cxt; NULL: none.  Where the server has one, it is fetched.  In a transaction with SPI.
 */
extern bytea *atp_dictionary_get(const AtpSubscription *sub, MemoryContext cxt);

/* From the next connection on; NULL: none. */
extern void atp_consumer_take_dictionary(Consumer *c, const bytea *dictionary);

/* The server does not know it any more: until it has been fetched again, there is none. */
extern void atp_consumer_lose_dictionary(Consumer *c);

/* --- consumer_stream.c --- */

extern void atp_consumer_connect(Consumer *c);

/* As the settings have become, would something else be asked for?  Then it connects anew. */
extern void atp_consumer_ask_anew(Consumer *c);

/* Move the connection on, and decode what has come. */
extern void atp_consumer_receive(Consumer *c);

/* How long events that tell whose clock is wrong are waited for (ATP_STATE_UNDECIDED). */
extern int	atp_consumer_patience_ms(const Consumer *c);

/*
 * Give the connection up, and say when to try again.  What it brought is kept:
 * the next one begins after it.  why must outlive the batch.
 */
extern void atp_consumer_drop(Consumer *c, AtpDrop drop, const char *why);

/* Time limits of the connection (E-06); returns milliseconds until the next, -1: none. */
extern long atp_consumer_watch(Consumer *c, AtpTime now);

/* --- consumer_batch.c --- */

/* Is there memory for what may come? */
extern bool atp_consumer_can_receive(Consumer *c);

/* Is it time to bring what has come into the tables? */
extern bool atp_consumer_batch_is_due(const Consumer *c);

/* Milliseconds that what has come waits for more. */
extern int	atp_consumer_batch_delay(const Consumer *c);

/* Of the second source of the same events: milliseconds for which the batch, as it has come, stays as it is, and nothing is read. */
extern long atp_consumer_defers(Consumer *c);

/* Or is it still to come, before it is decoded? */
extern bool atp_consumer_is_deferring(const Consumer *c);

/* It waits for no other source from now on. */
extern void atp_consumer_leads(Consumer *c);

/* Everything decoded so far into the tables, or to the workers. */
extern void atp_consumer_apply(Consumer *c);

/* To the workers, with the message that the stream is dropped for. */
extern void atp_consumer_hand_broken(Consumer *c);

/* What the workers have committed. */
extern void atp_consumer_collect(Consumer *c);

/* Apply, and it is there when this returns: the cursor is what was decoded. */
extern void atp_consumer_settle(Consumer *c);

/* One bounded step each. */
extern void atp_consumer_purge(Consumer *c);
extern long atp_consumer_purge_look_due(const Consumer *c);
extern void atp_consumer_purge_look(Consumer *c);
extern void atp_consumer_release(Consumer *c);

/* Events of a gap have been read again, to its end. */
extern bool atp_consumer_gap_is_over(const Consumer *c);
extern void atp_consumer_close_gap(Consumer *c);

/* Milliseconds until held events are to be looked at; -1: they are not. */
extern long atp_consumer_release_due(const Consumer *c);

#endif							/* ATP_CONSUMER_PRIVATE_H */
