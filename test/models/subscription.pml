/*
 * One subscription: its consumer, its cursor, its gaps, and the operator's orders.
 *
 * Modelled: a server that numbers its events, forgets old ones, may pass over some and repeats the
 * event at the cursor; consumers that are started at any time and killed between any two steps; an operator's
 * session that sets the cursor or calls refill(), one or two orders in a transaction; one repository
 * with one record, whose commits form a chain, as far as refill() needs it.
 * Left out: levels of verification and held events (repository.pml), other sources of the same tables (sources.pml), workers (workers.pml), names,
 * owners and settings (names.pml); streams without numbers, or whose numbers are times.
 * Other repositories and records add nothing: an event touches one repository, and a second one would only take longer.
 *
 * short: -DEVENTS=3 -DORDERS=1
 * long: -DEVENTS=4 -DORDERS=1
 *
 * Invariants, after each transaction (accounted()):
 *   An event up to the cursor was read since the cursor was last set before it, or the server passed it over, or it is in a gap.
 *   Such an event is in the tables, is a dead letter, is older than what the tables have, or is in a gap that is not closed.
 *   No event is committed twice unless the operator has set the cursor back (settle()).
 *   A gap begins where the cursor was, and is noted once.
 *   If the repository is called synchronized, then its record is what its commits say.
 *   At most one consumer is connected.
 * When nothing can move (end_quiet): the cursor is at the last event; no gap waits to be closed; no mark of a refill waits
 * for a commit that was read.
 *
 * waits for ever without skip_locked
 *
 * step claim: config/claim.c atp_claim()
 * step read: process/consumer/consumer_settings.c atp_consumer_read_settings()
 * step connect: process/consumer/consumer_stream.c atp_consumer_connect()
 * step receive: stream/position.c atp_position_take()
 * step oldest: process/consumer/consumer_batch.c note_oldest()
 * step begin: tables/apply/apply.c begin_locked()
 * step lock: tables/apply/stream_progress.c lock_progress()
 * step move: tables/apply/stream_progress.c move_progress()
 * step piece: tables/apply/apply_pieces.c atp_pieces_apply()
 * step settle: tables/repos/repo_refill.c atp_repo_take_reread()
 * step jump: tables/repos/held_leave.c atp_refills_jump()
 * step close: tables/base/gap.c atp_gap_close()
 * step set: process/manager/control.c atp_set_cursor()
 * step refill: tables/commands/refill.c atp_refill()
 *
 * mark START: seq, 0, 0: the cursor's row is inserted
 * mark MOVE: from, to, events: a transaction of the consumer moves the cursor ...
 * mark GAP: after, before, why: ... and notes a gap (why 1: the server has forgotten events; 2: set_cursor(), after the mark SET)
 * mark LETTER: seq, 0, 0: ... and writes a dead letter of an event
 * mark SET: from, to, refill: a session sets the cursor; refill 1: by refill(), which also marks the repositories
 * mark CLOSE: after, before, 0: a gap is closed because its events were read again, by the consumer, or after the mark SET
 * Of a transaction with several marks, MOVE or SET is the first, then CLOSE, LETTER, GAP.
 * NULL is -1.
 *
 * guard claim: two consumers of one subscription are connected at the same time.
 * guard cursor_was: the operator sets the cursor back while a batch is applied; the batch moves the cursor over the events that the operator wants.
 * guard skip_locked: a session has set the cursor and calls refill(), which wants the table repo; the batch holds it, and waits for the cursor: both wait for ever.
 * guard lock_cursor (-DREVERSE -DT_REVERSE): set_cursor() notes a gap from 1 on; a batch moves the cursor from 1 to 2; the cursor is set: the gap names an event that was read.
 * guard reach: a piece moves the cursor to the end of the batch; the consumer is killed, and the other pieces are lost.
 * guard gap_once (-DEVENTS=4 -DORDERS=0): a batch in pieces notes its gap with each piece.
 * guard notified: the cursor is set back while the consumer waits at the end of the stream, and it waits on.
 * guard repo_lock (-DREVERSE -DT_REVERSE): refill() sees no repository; a batch makes it with the commit after a gap; then refill() sets the cursor back: the missing commit is passed over as old, and the gap is closed.
 * guard oldest: refill() reads from the oldest event, which is after the gap; the gap is closed.
 * guard left: the cursor is at 1, and the server has forgotten 2; refill() reads from the oldest event, 3: nothing tells that 2 is missing.
 * guard late_close (-DEVENTS=3 -DORDERS=1 -DKILLS=2): the consumer dies between the transaction that reaches the end of a gap and the one that closes the gap; the next consumer sees no gap ahead.
 * guard jump (-DEVENTS=2 -DORDERS=2 -DREVERSE -DT_REVERSE): refill() has put a record; the cursor is set beyond rev: the repository stays unproven for ever, as no audit looks at what is being refilled.
 * guard unproven: refill() has put a record that a later commit deletes; until it reaches this commit the repository is called synchronized.
 * guard newer: a refill puts an older record over the newer one; then a commit is missing, and the record is removed as one that the refill has written.
 */
#include "observe.h"

#define MOVE	1
#define GAP		2
#define LETTER	3
#define SET		4
#define CLOSE	5

#define START	6

#define CONSUMERS	2
#define BATCH		2	/* events of a batch */
#ifdef TRACE
#define EVENTS		1	/* a trace has no events, only numbers */
#define NONE		(-1)
#define GAPS		16
#define ORDER_COMES	true
#define KILL_COMES	true
#define KILLED		skip
#define LOSSES		0
#else
#define NONE		255
#define GAPS		2
#define ORDER_COMES	(orders < ORDERS)
#ifndef KILLS
#define KILLS		1
#endif
#define KILL_COMES	(kills < KILLS)
#define KILLED		kills++
#define LOSSES		1
#endif

/* kinds of events: PUT and DEL are commits of the repository, BAD a commit whose record the database refuses (one at most) */
mtype = { PUT, DEL, BAD };
/* states of the repository */
mtype = { NEW, PARTIAL, SYNCED, UNPROVEN, BROKEN };
/* of a gap: it is not being read again; it is; it will be when the oldest event comes */
mtype = { NOT, AGAIN, OLDEST };

/* the server */
byte newest = 0;			/* its last event */
byte oldest = 1;			/* the first one that it still has; the servers behind an address may differ */
mtype kind[EVENTS + 1];
bool bads = false;

/* atproto.cursor */
NUMBER cursor = NONE;
NUMBER read_from = 0;
NUMBER left = 0;			/* where the cursor was before it was set to the oldest event, which has not come yet; 0: no such */
byte cursor_lock = 0;		/* who has locked the row */

/* atproto.gap */
typedef Gap { bool there; bool open; NUMBER after; NUMBER before; mtype again };
Gap gap[GAPS];

/* the table repo, with one row, and the table record */
byte batches = 0;			/* transactions that write to repo */
byte repo_excl = 0;			/* a session that has locked the table against them */
byte row_lock = 0;			/* who has locked the repository's row */
byte rev = 0;				/* 0: no row yet */
byte record = 0;			/* the commit that put the record; 0: none */
mtype sync = NEW;
bool refill = false;		/* refill_by */
byte first_rev = 0;
bool again = false;			/* the record was written by the refill: its indexed_at is not before refill_at */
byte refill_rev = 0;
mtype refill_sync = NEW;	/* NEW: NULL */

/* atproto.dead_letter */
bool letter[EVENTS + 1];

byte claim = 0;
bool notified[CONSUMERS + 1];

byte kills = 0, losses = 0;	/* how often a process was killed, and the server passed over an event */

/* what only the invariants need */
byte connected = 0;
byte first = NONE;			/* the first event that was acknowledged: what came before the subscription is not its own, until refill() */
bool filling = false;		/* the cursor was last set by refill() */
bool owed[EVENTS + 1] = true;		/* the event was not read since the cursor was last set before it */
byte live = 0;				/* the record as the commits that were not read again made it */
bool fate[EVENTS + 1];		/* the event is in the tables or a dead letter */
bool passed[EVENTS + 1];	/* the server once passed over the event */

inline in_gap(e, yes)
{
	yes = false;
	for (g : 0 .. GAPS - 1) {
		if
		:: gap[g].open && e > gap[g].after && e < gap[g].before -> yes = true
		:: else
		fi
	}
}

inline accounted()
{
#ifndef TRACE
	for (e : 1 .. EVENTS) {
		if
		:: cursor != NONE && e >= first && e <= cursor ->
			in_gap(e, yes);
			assert(!owed[e] || passed[e] || yes);	/* without cursor_was, reach */
			assert(fate[e] || passed[e] || yes)	/* without left, oldest, repo_lock */
		:: else
		fi
	}
	assert(record >= live);	/* without newer */
	/* complete says that the record is what all commits up to rev have made of it */
	if
	:: sync == SYNCED ->
		want = 0;
		for (e : 1 .. EVENTS) {
			if
			:: e <= rev && kind[e] == PUT -> want = e
			:: e <= rev && kind[e] == DEL -> want = 0
			:: e <= rev && kind[e] == BAD -> want = NONE
			:: else
			fi
		}
		assert(record == want)	/* without unproven */
	:: else
	fi
#endif
	yes = false; want = 0; e = 0; g = 0
}

/* POSITION of control.c */
#define POSITION	(left != 0 -> left : cursor)

/* close_read() of gap.c: gaps that the cursor has passed again */
#define OVER(g)	(gap[g].open && gap[g].again == AGAIN && cursor != NONE && gap[g].before != NONE && cursor + 1 >= gap[g].before && read_from <= gap[g].after)

hidden NUMBER closed_after;
hidden NUMBER closed_before;

inline close_read()
{
	for (g : 0 .. GAPS - 1) {
		if
#if defined(TRACE) && !defined(UNLOCKED)
		/* a gap that a session has locked stays open; with -DUNLOCKED no session does */
		:: true
#endif
		:: OVER(g) ->
			closed_after = gap[g].after; closed_before = gap[g].before;
			OBSERVE(CLOSE, closed_after, closed_before, 0);
			gap[g].open = false; gap[g].after = 0; gap[g].before = 0; gap[g].again = NOT
		:: else
		fi
	}
	g = 0
}



/* atp_gap_watch(): the ends of gaps that are being read again, ahead of the cursor */
#define AHEAD(g)	(gap[g].open && gap[g].again == AGAIN && gap[g].before != NONE && (cursor == NONE || cursor + 1 < gap[g].before))

inline watch()
{
	watches = AHEAD(0) || AHEAD(1)
}

/* A row of atproto.gap.  The search has room for GAPS rows; closed ones are used again. */
inline note_gap(from, to)
{
	g = 0;
	do
	:: g < GAPS && gap[g].open -> g++
	:: else -> break
	od;
	assert(g < GAPS);
	gap[g].open = true;
	gap[g].after = from; gap[g].before = to; gap[g].again = NOT;
	g = 0
}

inline undo()
{
	if
	:: again && record <= refill_rev -> record = 0; again = false; live = 0
	:: else
	fi;
	sync = BROKEN; refill_sync = BROKEN
}

inline end_refill()
{
	if
	:: refill_sync != NEW && sync == UNPROVEN -> sync = refill_sync
	:: else
	fi;
	refill = false; refill_rev = 0; refill_sync = NEW; again = false
}

#ifndef WITHOUT_newer
#define IS_OLDER(e)	(record < e)
#else
#define IS_OLDER(e)	true
#endif

/* The cursor jumps over events: what the refill has written stays unproven, for an audit. */
inline jump()
{
#ifndef WITHOUT_jump
	if
	:: refill && refill_sync != NEW -> refill = false; refill_rev = 0; refill_sync = NEW; again = false
	:: else
	fi
#else
	skip
#endif
}

/* The record after a commit.  A commit that is read again replaces only older ones (ATP_PUT_OLDER_RECORDS). */
inline write_record(e)
{
	if
	:: kind[e] == PUT && IS_OLDER(e) ->
		record = e; again = refill;
		if
		:: !refill -> live = e
		:: else
		fi
	:: kind[e] == DEL && record < e -> record = 0; live = 0
	:: kind[e] == BAD -> letter[e] = true
	:: else
	fi;
	fate[e] = true
}

/* The commit e in a transaction: take_commit() of repo_effect.c, and atp_repo_take_reread(). */
inline take_commit(e)
{
	if
	:: refill && e <= rev && (e == rev || e > refill_rev) ->
		if
		:: refill_sync != NEW && e - 1 != refill_rev -> undo()
		:: else
		fi;
		if
		:: refill_sync != NEW || kind[e] != DEL ->
			if
			:: sync != UNPROVEN || refill_sync == NEW -> refill_sync = sync
			:: else
			fi;
			if
#ifndef WITHOUT_unproven
			:: sync == SYNCED || sync == PARTIAL -> sync = UNPROVEN
#endif
			:: else
			fi
		:: else
		fi;
		if
		:: kind[e] == BAD && refill_sync == SYNCED -> refill_sync = UNPROVEN
		:: else
		fi;
		refill_rev = e;
		if
		:: e < first_rev -> first_rev = e
		:: else
		fi;
		write_record(e);
		if
		:: e == rev -> end_refill()
		:: else
		fi
	:: else ->
		if
		:: refill && e > rev ->
			if
			:: refill_sync != NEW -> undo()
			:: else
			fi;
			end_refill()
		:: else
		fi;
		if
		:: e <= rev ->
			/* passed over as old; does it show that records are missing? */
			if
			:: e < first_rev && !fate[e] && record < e -> sync = BROKEN
			:: else
			fi
		:: else ->
			if
			:: rev == 0 && e == 1 -> sync = SYNCED; first_rev = e
			:: rev == 0 && e != 1 -> sync = PARTIAL; first_rev = e
			:: rev != 0 && e - 1 != rev -> sync = BROKEN
			:: else
			fi;
			if
			:: kind[e] == BAD && sync == SYNCED -> sync = UNPROVEN
			:: else
			fi;
			rev = e;
			write_record(e)
		fi
	fi
}

/* The server has one more event.  It matters only when somebody looks, so this is done then. */
inline publish()
{
	newest++;
	if
	:: kind[newest] = PUT
	:: kind[newest] = DEL
	:: !bads -> kind[newest] = BAD; bads = true
	fi
}

inline settle(e)
{
	assert(owed[e]);
	owed[e] = false; passed[e] = passed[e] && !filling;
	if
	:: first == NONE || (filling && e < first) -> first = e
	:: else
	fi;
	take_commit(e)
}

/* All that the end of a process gives back; its transaction is rolled back. */
inline release_locks()
{
	if
	:: writing -> batches--; writing = false
	:: else
	fi;
	if
	:: row_lock == me -> row_lock = 0
	:: else
	fi;
	if
	:: cursor_lock == me -> cursor_lock = 0
	:: else
	fi
}

#ifndef WITHOUT_claim
#define MAY_CLAIM	(claim == 0)
#else
#define MAY_CLAIM	true
#endif
#define SEEN(e)	((seen >> (e)) & 1)

active [CONSUMERS] proctype consumer()
{
	byte me = _pid + 1;
	NUMBER at, last;			/* c->cursor, c->position.last */
	NUMBER gap_after, gap_before;	/* batch->gaps; before 0: none */
	byte seen, n;				/* the events of the batch, and their number */
	byte sent;					/* the server has sent its events up to this one */
	bool overlap, outdated, writing, existed, piece;
	bool watches;				/* c->gaps.next: the cursor has not come to the end of a gap that is being read again */
#ifdef TRACE
	int counted;				/* cursor.events has grown by this */
#endif
	NUMBER hi;					/* the end of the transaction's events */
	byte e, g, want;
	bool yes;

end_start:
	/* the second process is started while the first one runs */
	atomic {
		MAY_CLAIM && (_pid == 0 || connected == 1) ->
		claim = me
	};
	do
	:: /* read: the row of the cursor is locked while it is read */
		atomic {
			cursor_lock == 0 ->
			notified[_pid] = false;
			at = cursor;
#ifndef WITHOUT_late_close
			close_read();
#endif
			watch()
		};
		/* connect */
		atomic {
			connected++;
			assert(connected <= 1);	/* without claim */
			last = at; overlap = at != NONE && at > 0; outdated = false;
			oldest = 1;
			do
			:: oldest < newest -> oldest++
			:: newest < EVENTS && at == NONE -> publish()
			:: break
			od;
			if
			:: at == NONE -> sent = newest
			:: else ->
				sent = at;
				if
				:: overlap && at >= oldest -> sent = at - 1
				:: true
				fi;
				if
				:: sent + 1 < oldest -> sent = oldest - 1; outdated = at > 0
				:: else
				fi
			fi
		};
end_stream:	do
#ifdef TRACE
		:: /* the server sends what the next transaction has */
			atomic {
				n == 0 && !notified[_pid] ->
				PEEK;
				if
				:: next_step == MOVE && next_a == at -> last = next_b; n = 1; overlap = false
				:: else -> trace_at = -1
				fi
			}
#else
		:: /* receive */
			atomic {
				sent < EVENTS && n < BATCH && !notified[_pid] ->
				if
				:: sent == newest -> publish()
				:: else
				fi;
				sent++; e = sent;
				if
				:: true ->
					if
					:: e == last && overlap -> skip
					:: else ->
						assert(last == NONE || e > last);
						if
						:: outdated -> gap_after = last; gap_before = e; outdated = false
						:: else
						fi;
						last = e; seen = seen | (1 << e); n++
					fi;
					overlap = false
				:: losses < LOSSES && e != last -> losses++; passed[e] = true
				fi;
				e = 0
			}
#endif
		:: n > 0 ->
apply:		/* oldest: a stream read from its oldest event */
			atomic {
				if
				:: KILL_COMES -> KILLED; goto dies
				:: true
				fi;
				if
#ifdef TRACE
				/* nobody has noted whether the oldest event is before the gap */
				:: at == 0 -> for (g : 0 .. GAPS - 1) { if :: gap[g].again == OLDEST -> gap[g].again = AGAIN :: else fi }; g = 0
#else
				:: at == 0 ->
					e = 1;
					do
					:: !SEEN(e) -> e++
					:: else -> break
					od;
#ifndef WITHOUT_left
					if
					:: left != 0 && left + 1 < e -> gap_after = left; gap_before = e
					:: else
					fi;
#endif
					for (g : 0 .. GAPS - 1) {
						if
						:: gap[g].open && gap[g].again == OLDEST ->
							if
#ifndef WITHOUT_oldest
							:: gap[g].after + 1 < e -> gap[g].again = NOT
#endif
							:: else -> gap[g].again = AGAIN
							fi
						:: else
						fi
					}
					g = 0; e = 0;
					watch()
#endif
				:: else
				fi;
				if
				:: gap_before != 0 -> jump()
				:: else
				fi
			};
			/* begin: the batch locks the table, and reads the repository's state */
			atomic {
				repo_excl == 0 && (rev == 0 || row_lock == 0) ->
				batches++; writing = true; existed = rev != 0;
				if
				:: existed -> row_lock = me
				:: else
				fi
			};
			/* lock the cursor without waiting, move it, and commit */
			atomic {
				if
#ifndef WITHOUT_skip_locked
				:: cursor_lock != 0 ->
					release_locks();
					cursor_lock == 0;
					goto apply
#endif
				:: cursor_lock == 0
				fi;
				if
				:: !existed && rev != 0 -> release_locks(); goto apply
				:: else
				fi;
#ifndef WITHOUT_cursor_was
				if
				:: cursor != at -> release_locks(); goto dies
				:: else
				fi;
#endif
				/* a refused record leads to pieces: the transaction ends after any of the events */
				hi = last; piece = false;
#ifndef TRACE
				e = 1;
				do
				:: e <= EVENTS && !(SEEN(e) && kind[e] == BAD) -> e++
				:: else -> break
				od;
				if
				:: e <= EVENTS ->
					e = 1;
					do
					:: e < last && SEEN(e) -> hi = e; piece = true; break
					:: e < last -> e++
					:: else -> break
					od
				:: else
				fi;
				for (e : 1 .. EVENTS) {
					if
					:: SEEN(e) && e <= hi -> settle(e); seen = seen & ~(1 << e); n--
					:: else
					fi
				}
#endif
#ifdef TRACE
				PEEK; counted = next_c;
#endif
				OBSERVE(MOVE, at, hi, counted);
#ifdef TRACE
				/* the events that the batch had, as far as the transaction tells */
				gap_before = 0;
				do
				:: PEEK;
					if
					:: next_step == GAP && gap_before == 0 && next_a == POSITION && next_b > at && next_b <= hi -> gap_after = next_a; gap_before = next_b; break
					:: next_step == LETTER && next_a >= at && next_a <= hi -> OBSERVE(LETTER, next_a, next_b, 0)
					:: else -> break
					fi
				od;
				/* no event is counted twice; with a server that passes over no number, none is left out */
				if
				:: at >= 0 && counted > hi - (gap_before != 0 -> gap_before - 1 : at) -> trace_at = -1
#ifdef WHOLE
				:: at > 0 && counted < hi - (gap_before != 0 -> gap_before - 1 : at) -> trace_at = -1
#endif
				:: else
				fi;
				counted = 0;
#endif
				if
				:: gap_before != 0 ->
					assert(gap_after == POSITION);	/* without gap_once */
					note_gap(gap_after, gap_before); read_from = gap_before - 1;
					OBSERVE(GAP, gap_after, gap_before, 1);
					for (e : 1 .. EVENTS) {
						if
						:: e > gap_after && e < gap_before -> owed[e] = false
						:: else
						fi
					}
#ifndef WITHOUT_gap_once
					gap_after = 0; gap_before = 0
#endif
				:: else
				fi;
				for (e : 1 .. EVENTS) {
					if
					:: e <= hi && (passed[e] || at == 0) -> owed[e] = false
					:: else
					fi
				}
				cursor = hi; left = 0;
#ifdef WITHOUT_reach
				cursor = last;
#endif
				at = cursor;
				release_locks();
				accounted();
				hi = 0; existed = false;
				if
				:: piece -> piece = false; goto apply
				:: else
				fi;
				gap_after = 0; gap_before = 0; seen = 0; n = 0
			}
		:: /* close the gaps that are over */
			atomic {
#ifdef TRACE
				PEEK;
				if
				:: next_step == CLOSE
				:: else -> trace_at = -1
				fi;
#else
				watches && (OVER(0) || OVER(1)) && cursor_lock == 0 ->
#endif
				close_read();
				watch();
				accounted()
			}
		:: /* the subscription's row has changed */
			atomic {
#ifndef WITHOUT_notified
				notified[_pid] && n == 0 && cursor_lock == 0 ->
#else
				false ->
#endif
				notified[_pid] = false;
				if
				:: cursor != at -> goto dies
				:: else
				fi;
#ifndef WITHOUT_late_close
				close_read();
#endif
				watch()
			}
		:: atomic { KILL_COMES -> KILLED; goto dies }
		od;
dies:	atomic {
			release_locks();
			if
			:: claim == me -> claim = 0
			:: else
			fi;
			connected--;
			at = 0; last = 0; gap_after = 0; gap_before = 0; seen = 0; n = 0; sent = 0; hi = 0;
			overlap = false; outdated = false; watches = false; existed = false; piece = false; e = 0; g = 0; want = 0; yes = false;
			goto end_start
		}
	od
}

#ifdef TRACE
/* the cursor's row is inserted */
active proctype begins()
{
	atomic { PEEK; next_step == START -> cursor = next_a; read_from = next_a; OBSERVE(START, cursor, 0, 0) }
}
#endif

/* A session of the operator, which sets the cursor to a position, or refills from it. */
active proctype operator()
{
	byte me = _pid + 1;
	NUMBER to, was, beyond;
	bool fills, marks, before;	/* before: the session has set the cursor before, in the same transaction */
	byte orders, e, g, want;
	bool yes;

	do
	:: ORDER_COMES ->
		atomic {
#ifndef TRACE
			orders++;
#endif
			if
			:: fills = true
			:: fills = false
			fi;
			if
			:: fills -> before = true
			:: before = false
			fi;
			to = 0;
#ifdef TRACE
			PEEK;
			if
			:: next_step == SET && next_c == fills -> to = next_b
			:: else -> trace_at = -1
			fi
#else
			do
			:: to < newest -> to++
			:: break
			od
#endif
		};
		if
		:: before -> atomic { cursor_lock == 0 -> cursor_lock = me }
		:: else
		fi;
		/* refill: lock the table repo against batches, and mark the repositories that are there */
		if
		:: fills ->
			atomic {
#ifndef WITHOUT_repo_lock
				batches == 0 ->
				repo_excl = me;
#endif
				rev == 0 || row_lock == 0 ->
				marks = rev != 0;
				if
				:: marks -> row_lock = me
				:: else
				fi
			}
		:: else
		fi;
		/* set: lock the cursor, and read where it is */
		atomic {
#ifndef WITHOUT_lock_cursor
			cursor_lock == 0 || cursor_lock == me ->
			cursor_lock = me;
#endif
			was = POSITION
		};
		/* set it, and commit */
		atomic {
			cursor_lock == 0 || cursor_lock == me ->
			assert(was == POSITION);	/* without lock_cursor */
			OBSERVE(SET, cursor, to, fills);
			close_read();
			for (g : 0 .. GAPS - 1) {
				if
				:: gap[g].open && !(to >= 1 && to <= cursor && read_from <= gap[g].after && cursor != NONE) -> gap[g].again = NOT
				:: else
				fi
			}
			g = 0;
			if
			:: was != NONE && was > 0 && (to == NONE || to > was) ->
				beyond = (to == NONE -> NONE : to + 1);
				note_gap(was, beyond);
				jump();
				OBSERVE(GAP, was, beyond, 2);
				for (e : 1 .. EVENTS) {
					if
					:: e > was && e <= to -> owed[e] = false
					:: else
					fi
				}
			:: else
			fi;
			if
			:: cursor != NONE && to >= read_from && to <= cursor
			:: else -> read_from = to
			fi;
			cursor = to;
			left = (to == 0 && was != NONE -> was : 0);
			for (e : 1 .. EVENTS) {
				if
				:: e > to -> owed[e] = true
				:: e <= to && was != NONE && e <= was -> owed[e] = false	/* the order to read it again is taken back */
				:: else
				fi
			}
			if
			:: fills ->
				if
				:: marks -> refill = true; refill_rev = 0; refill_sync = NEW; again = false
				:: else
				fi;
				for (g : 0 .. GAPS - 1) {
					if
					:: gap[g].open && to == 0 -> gap[g].again = OLDEST
					:: gap[g].open && to != 0 && gap[g].after >= to -> gap[g].again = AGAIN
					:: else
					fi
				}
				g = 0
			:: else
			fi;
			filling = fills;
			repo_excl = 0; cursor_lock = 0;
			if
			:: row_lock == me -> row_lock = 0
			:: else
			fi;
			for (e : 0 .. CONSUMERS - 1) {
				notified[e] = true
			}
			e = 0;
			accounted();
			to = 0; was = 0; beyond = 0; fills = false; marks = false; before = false
		}
	:: else -> break
	od
}

/* When nothing can move, nothing waits for what has happened. */
active proctype end_quiet()
{
	byte e, g;
	bool yes;

	timeout ->
	atomic {
		assert(connected == 1);
		for (e : 1 .. EVENTS) {
			assert(cursor == NONE || e <= cursor || passed[e] || e < oldest)	/* without notified */
		}
		assert(!OVER(0) && !OVER(1));	/* without late_close */
		if
		:: refill && refill_sync != NEW -> assert(passed[rev] || owed[rev])	/* without jump */
		:: else
		fi
	}
}
