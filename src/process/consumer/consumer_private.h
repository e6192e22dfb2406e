/*
 * consumer_private.h
 *		Declarations shared by the files of the consumer.
 *
 * consumer.c begins and ends the process; consumer_loop.c has the loop, consumer_state.c the states;
 * consumer_settings.c follows the subscription's row; consumer_stream.c has the connection, consumer_pages.c the pages of
 * a directory; consumer_rest.c waits while a limit of the whole database is reached; consumer_history.c reads the archive before the stream, consumer_plan.c decides what the archive is asked for; consumer_passed.c knows which time the stream has passed;
 * consumer_batch.c applies received events, or passes them to the workers.
 */
#ifndef ATP_CONSUMER_PRIVATE_H
#define ATP_CONSUMER_PRIVATE_H

#include "postgres.h"

#include "archive/archive_reader.h"
#include "common/clock.h"
#include "common/compat.h"
#include "config/subscription.h"
#include "net/connection.h"
#include "net/unzstd.h"
#include "process/consumer/consumer.h"
#include "process/workers/shards.h"
#include "process/status/status.h"
#include "process/status/subscription_log.h"
#include "source.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "tables/base/gap.h"
#include "tables/base/history.h"
#include "tables/apply/release.h"
#include "tables/base/statements.h"
#include "tables/apply/plc_answer.h"

/*
 * how often to look after workers: a worker sets our latch when a batch is done, but a worker that never
 * started sets no latch
 */
#define ATP_LOOK_MS		1000

/* What a consumer asks the archive besides the rows of a cycle. */
typedef enum AtpQuestion
{
	ATP_ASK_NONE,
	ATP_ASK_SEAM,				/* does the archive have rows that the stream has left out? */
	ATP_ASK_SETTLE,			/* does the archive have, at the position candidate, the row that the consumer has applied there? */
	ATP_ASK_POSITION,			/* as ATP_ASK_SETTLE, at the position of the cursor, before a cycle */
	ATP_ASK_ANCHOR,				/* does the archive still have the anchor?  Asked before a cycle, and when a process goes on with a cycle */
	ATP_ASK_QUIET				/* has the archive grown, although the stream has brought nothing? */
} AtpQuestion;

/* The limits of the whole database for which a consumer rests. */
typedef enum AtpRest
{
	ATP_REST_NONE,
	ATP_REST_DISK,				/* a volume is nearly full */
	ATP_REST_HOUR				/* the requests or bytes of an hour are used up, and an archive is to be read */
} AtpRest;

/* M-12: the pages of a directory. */
typedef struct AtpPages
{
	bool		tried_stream;	/* after a short page the stream was tried, in vain */
	int64		after;			/* the present page begins behind this number ... */
	int			lines;			/* ... and has so many lines, as far as it has come */
	int64		ahead;			/* the page asked for ahead begins behind this number; 0: none was asked for */
	int64		step;			/* so many numbers lie between the begins of these two pages */
} AtpPages;

typedef struct Consumer
{
	const char *name;
	const char *id;				/* of the subscription for which the process was started */
	bool		managed;		/* a manager started this process, and restarts it */
	MemoryContext loop_cxt;		/* reset with each round of the loop */
	AtpState	state;
	AtpState	shown;			/* the last state shown to other processes */

	/* the subscription's row */
	MemoryContext cxt;			/* for the subscription, and for data that lives as long */
	AtpSubscription *sub;
	const AtpStreamKind *source;	/* the kind of stream */
	char	   *activity;		/* shown by pg_stat_activity while streaming */

	/* the stream */
	MemoryContext conn_cxt;		/* reset with each connection */
	AtpConn    *conn;			/* NULL between connections */
	char	   *asked;			/* the request that was sent, without the cursor */
	AtpUnzstd  *unzstd;			/* NULL: messages are not compressed */
	uint32		dictionary;		/* id of unzstd's dictionary; 0: no dictionary */
	bool		by_pages;		/* M-12: the stream does not reach back to the cursor, so pages are read */
	AtpPages	pages;
	int64		was_too_old;	/* the cursor that the server called too old last, of a subscription with an archive */
	int64		too_old;		/* a cursor before the oldest event the server still has; -1: none */
	uint64		counted_bytes;	/* bytes of the connection already in the statistics */
	uint64		heard_bytes;	/* bytes of the connection when the process waited last */
	AtpTime		last_data;		/* when data came last, or when the connection began */
	AtpTime		last_ping;
	AtpTime		listened;		/* the end of the last wait for data ... */
	AtpTime		waited_from;	/* ... and its begin */
	AtpTime		heard;			/* at this time the server was alive, as later bytes have shown */
	AtpTime		quiet_since;	/* when the last message came, or the stream began ... */
	TimestampTz quiet_from;		/* ... by the time of day */
	AtpTime		quiet_noted;	/* when the silence was written last */
	AtpTime		waiting_until;	/* ATP_STATE_WAITING */
	AtpRest		rest;			/* ATP_STATE_WAITING, because this limit of the whole database is reached */
	AtpTime		undecided_since;	/* ATP_STATE_UNDECIDED */
	const char *undecided_why;
	int			failures;		/* since the last progress */
	int64		drop_seq;		/* the cursor at the last drop caused by the stream's contents */
	int			drops_there;

	/* the archive of the stream's server */
	bool		has_history;	/* it is to be read, and history is its row */
	AtpHistory	history;
	int64		blocks_of_all;	/* while the number of passes is not decided: blocks that one pass for all kinds of rows needs; 0: not known ... */
	bool		decided;		/* ... the number of passes is decided */
	MemoryContext filter_cxt;	/* for the next four; reset when an archive is opened */
	AtpPlanRequest filter;		/* of the pages asked for */
	struct varlena **accounts;	/* the accounts whose rows are read now, sorted; NULL: all accounts are read together ... */
	int			naccounts;		/* ... of this number ... */
	bool		more_accounts;	/* ... and others follow */
	bool	   *applied_again;	/* in phase markers: whether the operations of each of the accounts are applied again; otherwise NULL */
	int			group;			/* accounts in a request; less than ATP_PLAN_DIDS_MAX when the server refuses so many */
	bool		ask_dids;		/* the server applies lists of accounts ... */
	bool		ask_collections;	/* ... and of collections */
	bool		set_back;		/* the next batch begins before the positions of the workers */
	int64		last_row;		/* digest of the row at the position that was applied or handed on last; 0: not known */
	bool		seam_open;		/* of this connection, no event has been compared with the position yet */
	AtpQuestion	audit;			/* what the archive is asked while the stream runs, or before a cycle */
	int64		audit_from;		/* the rows asked for: from here ... */
	int64		audit_to;		/* ... to here, inclusive */
	int64		audit_row;		/* digest of the row that is compared; 0: not known */
	int64		audit_found;	/* ATP_ASK_SEAM: the number of rows found; otherwise 1: the archive has the row audit_row, -1: the archive has a different row */
	int64		candidate;		/* a position to be compared with the archive, when it is sealed; 0: none ... */
	int64		candidate_row;	/* ... and the digest of its row */
	AtpTime		audited;		/* when the archive was asked last */
	bool		anchored;		/* in this cycle, the consumer has compared the anchor with the archive */
	int64		marker;			/* sequence number of a row of this cycle that compaction leaves, the next anchor; 0: no such row came yet ... */
	int64		marker_row;		/* ... the digest of the row */
	bool		has_marker;		/* the present block has had such a row */
	bool		audit_failed;	/* the row of atproto.history may say that the archive cannot be asked */
	bool		sweep_waits;	/* the sweep may end when other subscriptions have passed a time ... */
	AtpTime		sweep_looked;	/* ... and this was asked last */
	AtpArchive *archive;		/* NULL: nothing is read now */
	int64		received;		/* number of the last row put into the batch ... */
	int64		seen;			/* ... and of the last row looked at */
	bool		archive_ready;	/* the next step of the archive need not wait for the network */
	AtpHistoryCounts read;		/* since the row was written last ... */
	AtpTime		read_noted;		/* ... at this time */

	/* received events */
	AtpBatch   *batch;
	AtpTime		applied_in;		/* without workers: how long the last batch took to apply ... */
	AtpTime		applied_at;		/* ... and when this ended */
	AtpTime		deferred;		/* since when a complete batch stays undecoded, waiting for a faster source; 0: not waiting */
	/* the complete batch may be decoded now: the faster source has committed it, or took too long */
	bool		decides;
	Oid			states;			/* the table of repository states; InvalidOid: the stream fills none */
	AtpDecoder *decoder;
	AtpStatements *statements;
	AtpShards  *shards;			/* NULL: this process applies the batches itself */
	AtpPosition position;		/* E-49: position of the last event received, in the batch */
	int64		handed;			/* position passed to the workers; without workers equal to cursor */
	int64		cursor;			/* position committed; -1: no position yet */
	int			layout;			/* of the cursor: see AtpCursor */

	AtpGapWatch gaps;

	/*
	 * The number of workers was changed while the shards' cursors differ.  The change has to wait, because a
	 * worker passes over all events up to its own cursor.  When all shards have reached this position, the
	 * highest of their cursors, the consumer restarts with the new number. -1: no change is pending.
	 */
	int64		reshard_at;

	/*
	 * Records of deleted accounts may still have to be removed: an account can have more than one transaction
	 * should remove.  Each round of the loop removes some, until none are left.  With workers, worker 0 does
	 * this.
	 */
	bool		purge_due;
	AtpTime		purge_look;		/* when purge_due was last set as a precaution: the fetcher may leave records, too (V-47) */
	bool		has_nodes;		/* this database has Citus, so the target may have marks of nodes (node_mark.h) */
	AtpTime		nodes_look;		/* when the consumer compared the marks of the nodes last */
	AtpReleaser releaser;		/* for held events, without workers */
	AtpPlcAnswers logs;			/* of a directory: answers about accounts' logs */
	int64		uncounted[ATP_SKIP_COUNT];	/* skips of messages which move no cursor (skips.h) */
	bool		stats_pending;	/* PostgreSQL's statistics of our transactions are not reported yet */
	AtpLog	   *log;			/* the subscription's log; NULL until this process has claimed the subscription */
	bool		log_ended;		/* the reason for the end has been noted */
} Consumer;

/* --- consumer.c --- */

/* End the process; again: the process should be restarted. */
pg_noreturn extern void atp_consumer_leave(Consumer *c, const char *why, bool again);

/* End the process because the row with this name has another owner or id now: a consumer for this row follows. */
pg_noreturn extern void atp_consumer_leave_to(Consumer *c, const AtpSubscription *sub, const char *why);

/* Stop the subscription and end the process: an operator has to decide. */
pg_noreturn extern void atp_consumer_stop(Consumer *c, const char *reason);

/*
 * Note an event in the subscription's log.  The second function notes why the process ends, and has an effect
 * only once.
 */
extern void atp_consumer_note(Consumer *c, AtpLogged what, const char *detail);
extern void atp_consumer_note_end(Consumer *c, AtpLogged what, const char *detail);

/*
 * Compare the marks of the nodes of Citus with the coordinator's numbers: for a node that has come back with older
 * rows, mark the repositories of the node (node_mark.h).
 */
extern void atp_consumer_look_at_nodes(Consumer *c);

/* Milliseconds until the next comparison is due; -1 in a database without Citus. */
extern long atp_consumer_nodes_look_due(const Consumer *c);

/* --- consumer_loop.c --- */

pg_noreturn extern void atp_consumer_loop(Consumer *c);

/* --- consumer_state.c: a function for each transition between states --- */

extern void atp_consumer_is_starting(Consumer *c);	/* the wait after a crash is over */
extern void atp_consumer_is_waiting(Consumer *c, int delay_ms);
extern void atp_consumer_is_reading(Consumer *c);	/* the archive */
extern void atp_consumer_is_connecting(Consumer *c);
extern void atp_consumer_is_streaming(Consumer *c);
extern void atp_consumer_is_undecided(Consumer *c, const char *why);
extern void atp_consumer_is_decided(Consumer *c);
extern void atp_consumer_is_flushing(Consumer *c);
extern void atp_consumer_is_flushed(Consumer *c, AtpState before);
extern void atp_consumer_is_stopping(Consumer *c);
extern void atp_consumer_is_leaving(Consumer *c);

/* Show the state in pg_stat_activity; call after each transaction. */
extern void atp_consumer_report(const Consumer *c);

/* --- consumer_settings.c --- */

/*
 * Read the subscription's row, and obey it; ends the process when the row is gone, paused, or changed too
 * much.
 */
extern void atp_consumer_read_settings(Consumer *c);

/*
 * An owner that came without triggers, for instance by pg_upgrade, has no entry in pg_shdepend yet: make the entry.  A
 * transaction of its own: a session that removes several subscriptions keeps their owner locked while it waits for a cursor.
 */
extern void atp_consumer_note_owner(void);

/* --- consumer_dictionary.c --- */

/*
 * The dictionary with which the subscription's server may compress messages, palloc'd in cxt; NULL: none.  If
 * the server offers a dictionary, and none was requested before, the fetcher is asked to fetch it.  Call in a
 * transaction with SPI.
 */
extern bytea *atp_dictionary_get(const AtpSubscription *sub, MemoryContext cxt);

/* Use this dictionary from the next connection on; NULL: no compression. */
extern void atp_consumer_take_dictionary(Consumer *c, const bytea *dictionary);

/*
 * Forget the dictionary, which the server no longer knows or uses.  Until the fetcher has fetched a new one,
 * the stream is not compressed.
 */
extern void atp_consumer_lose_dictionary(Consumer *c);

/* --- consumer_stream.c --- */

extern void atp_consumer_connect(Consumer *c);

/* Stop if the owner has lost the right to read server files: ca_file is read with the server's rights. */
extern void atp_consumer_check_ca_file(Consumer *c);

/* Reconnect if the changed settings lead to a different request. */
extern void atp_consumer_ask_anew(Consumer *c);

/* Advance the connection, and decode the messages received. */
extern void atp_consumer_receive(Consumer *c);

/* How long to wait for events that show whether the clock or a message is wrong (ATP_STATE_UNDECIDED). */
extern int	atp_consumer_undecided_ms(const Consumer *c);

/*
 * Close the connection, and schedule a new one.  Events received before are applied first, and the next
 * connection begins after them. why must outlive the batch.
 */
extern void atp_consumer_drop(Consumer *c, AtpDrop drop, const char *why);

/* Enforce the connection's time limits (E-06); returns milliseconds until the next limit, -1: no limit. */
extern long atp_consumer_watch(Consumer *c, AtpTime now);

/* --- consumer_rest.c --- */

/*
 * Is a limit of the whole database reached?  Then the consumer receives and writes nothing.  When a limit is reached first, this
 * function commits what has come, and closes the connection.
 */
extern bool atp_consumer_rests(Consumer *c);

/* --- consumer_pages.c: M-12 --- */

/* Begin with the page behind the cursor; returns its path and query. */
extern char *atp_consumer_begin_pages(Consumer *c);

/* The head of the present page has come: ask for the next page ahead. */
extern void atp_consumer_ask_ahead(Consumer *c);

/* A page was read to its end: read or ask for the next page, or ask for the stream. */
extern void atp_consumer_page_is_read(Consumer *c);

/* Close the connection for pages, and open another connection at once. */
extern void atp_consumer_leave_connection(Consumer *c);

/* The server has closed: are pages to be read, because the stream does not reach back to the cursor? */
extern void atp_consumer_judge_close(Consumer *c);

/* --- consumer_passed.c --- */

/* Take the times of the batch's events from index first on. */
extern void atp_consumer_note_times(Consumer *c, int first);

/* Bytes have come, or the stream has begun; messages: the silence begins anew. */
extern void atp_consumer_heard(Consumer *c, bool messages);

/* If the stream has been silent for long, write the time that the stream has passed. */
extern void atp_consumer_note_quiet(Consumer *c);

/* --- consumer_plan.c --- */

/* The subscription's filter as spans, as far as the server is asked to apply the filter. */
extern AtpPlanRequest atp_consumer_plan_filter(Consumer *c);

/* The filter of this phase: of some accounts, in phase markers or if the filter has more accounts than a request. */
extern void atp_consumer_set_filter(Consumer *c);

/* H-27: write the filters that the server is not asked to apply into atproto.history. */
extern void atp_consumer_note_filtered(Consumer *c);

/* The server has refused a request: ask for less; false: the request had no list. */
extern bool atp_consumer_ask_for_less(Consumer *c);

/* H-26: the first page of a cycle has come; true: the number of passes is decided, and the page is of the first pass. */
extern bool atp_consumer_decide_passes(Consumer *c, const AtpPlan *plan, int *passes);

/* --- consumer_history.c --- */

/* H-03: is the archive to be read before the stream? */
extern bool atp_consumer_has_history(const Consumer *c);

/* In a transaction: may the process write to the row of atproto.history?  False: the name is of another subscription now, or the extension has gone. */
extern bool atp_consumer_locks_history(const Consumer *c);

/* Begin to read, or go on after a wait. */
extern void atp_consumer_history_begin(Consumer *c);

/* Put rows into the batch, and decode them; does not wait. */
extern void atp_consumer_history_read(Consumer *c);

/* Drop what is being received, and begin anew after the position: the filters have changed. */
extern void atp_consumer_history_drop(Consumer *c);

/* The archive cannot be read: wait, and try again. */
extern void atp_consumer_archive_failed(Consumer *c);

/* --- consumer_seam.c --- */

/* H-51: the server calls the cursor too old: begin a cycle, after the row at the position was compared with the archive's. */
extern void atp_consumer_history_again(Consumer *c);

/* Ask for the row at the position; call in place of the first page of a cycle.  False: nothing need be asked. */
extern bool atp_consumer_check_position(Consumer *c);

/* H-55: ask for the anchor; call in place of the first page.  False: nothing need be asked. */
extern bool atp_consumer_check_anchor(Consumer *c);

/* Compare the first event of a connection with the position.  Ends the process if rows have to be read again. */
extern void atp_consumer_judge_seam(Consumer *c);

/* Milliseconds until the archive has to be asked while the stream runs; -1: never. */
extern long atp_consumer_audit_due(const Consumer *c);

/* Go on with what is asked; does not wait. */
extern void atp_consumer_audit(Consumer *c);

/* The digest of the last event of the batch, if its number is the position; 0: not known. */
extern int64 atp_consumer_last_row(Consumer *c);

/* What the archive has for the filters, to be passed to atp_archive_new(). */
extern void atp_consumer_open_archive(Consumer *c);
extern void atp_consumer_close_archive(Consumer *c);

/* --- consumer_batch.c --- */

/* Is there memory for more messages?  With workers, all batches of the ring may be in use. */
extern bool atp_consumer_can_receive(Consumer *c);

/* Is it time to apply the batch? */
extern bool atp_consumer_batch_is_due(const Consumer *c);

/* Milliseconds for which the batch waits for more events. */
extern int	atp_consumer_batch_delay(const Consumer *c);

/*
 * For a source that follows a faster source of the same events: milliseconds for which the complete batch
 * stays undecoded, and the socket unread.
 */
extern long atp_consumer_defers(Consumer *c);

/*
 * For such a source: is the batch to stay undecoded for now, because it is incomplete or waits for the faster
 * source?
 */
extern bool atp_consumer_is_deferring(const Consumer *c);

/* Stop following a faster source. */
extern void atp_consumer_leads(Consumer *c);

/* Apply all events decoded so far, or pass them to the workers. */
extern void atp_consumer_apply(Consumer *c);

/* Pass the batch to the workers, with the message because of which the stream is dropped. */
extern void atp_consumer_hand_broken(Consumer *c);

/* Note the positions that the workers have committed. */
extern void atp_consumer_collect(Consumer *c);

/* Apply all decoded events, and return when they are committed: the cursor is then the last decoded event. */
extern void atp_consumer_flush(Consumer *c);

/*
 * Bounded work between batches: remove records of deleted accounts, look for such records, release held
 * events.
 */
extern void atp_consumer_purge(Consumer *c);
extern long atp_consumer_purge_look_due(const Consumer *c);
extern void atp_consumer_purge_look(Consumer *c);
extern void atp_consumer_release(Consumer *c);

/* M-11: milliseconds until answers of a directory about accounts' logs have to be looked at, -1: never; and a bounded step. */
extern long atp_consumer_logs_due(const Consumer *c);
extern void atp_consumer_logs(Consumer *c);

/* The events of a gap are being read again: has the cursor reached the gap's end?  Then close the gap. */
extern bool atp_consumer_gap_is_over(const Consumer *c);
extern void atp_consumer_close_gap(Consumer *c);

/* Milliseconds until held events have to be looked at; -1: never. */
extern long atp_consumer_release_due(const Consumer *c);

#endif							/* ATP_CONSUMER_PRIVATE_H */
