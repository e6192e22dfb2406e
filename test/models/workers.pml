/*
 * Several workers: the ring in shared memory, cursors of shards, re-sharding, workers that live on.
 *
 * Modelled: a consumer that receives events and hands them to its workers, or applies them itself where there is one; a ring
 * with one place or two; workers that are started late, end early, or live on after their consumer has died; the next consumer,
 * which may begin while the former one is still ending; a session that changes the number of workers or sets the cursor back. Servers behind
 * the address have different events: one of them may have forgotten some.
 * Left out: several events in a batch (each event makes a batch), what an event does to the tables (subscription.pml), other changes of
 * settings, letters, purges and held events, which each worker does for its shard as a consumer does.
 * Two shards are enough: a third would do what the second does.
 *
 * short: -DEVENTS=2 -DFAULTS=1 -DPLACES=1
 * long: -DEVENTS=2 -DFAULTS=2 -DPLACES=2
 *
 * Invariants, after each transaction (accounted()):
 *   An event up to the cursor of its shard was applied since the cursor was last set before it, or it is in a gap.
 *   No event is applied twice unless the cursor was set back (apply()).
 *   The position that a consumer calls committed is committed in all shards (collect).
 * When nothing can move (end_quiet): a consumer runs, with as many workers as the subscription wants, and all cursors are at the last event.
 *
 * step claim: config/claim.c atp_claim()
 * step wait: process/consumer/consumer.c wait_for_workers()
 * step read: process/consumer/consumer_settings.c atp_consumer_read_settings()
 * step share: config/cursor.c atp_cursor_share()
 * step begin: process/consumer/consumer_batch.c begin_shards()
 * step gap: process/consumer/consumer_batch.c note_gaps()
 * step hand: process/workers/shards.c atp_shards_hand()
 * step collect: process/workers/shards.c atp_shards_collect()
 * step close: process/workers/ring.c atp_ring_close()
 * step join: process/workers/shard_worker.c attach_ring()
 * step settings: process/workers/shard_worker.c read_settings()
 * step take: process/workers/shard_worker.c decode_share()
 * step move: tables/apply/stream_progress.c move_progress()
 * step done: process/workers/ring.c atp_ring_done()
 * step set: process/manager/control.c atp_set_cursor()
 *
 * mark START: seq, 0, 0: the cursor's first row is inserted
 * mark BEGIN: seq, 0, 0: all rows, which had no position, get one
 * mark MOVE: from, to, shard: a worker, or the consumer (shard 0), moves a row
 * mark SHARE: shards, seq, 0: the rows are shared among another number of shards, and get a new layout
 * mark GAP: after, before, 0: the consumer notes a gap
 * mark SET: seq, 0, 0: a session sets all rows
 * NULL is -1.
 *
 * guard layout (-DEVENTS=2 -DFAULTS=2 -DPLACES=1): a worker whose consumer is ending has claimed its shard after the next consumer looked, and moves the only cursor that is left; the events of the other shard are lost.
 * guard cursor_was: the cursors are set back while a worker applies a batch, which moves its cursor over the events that the operator wants.
 * guard version (-DEVENTS=2 -DFAULTS=2 -DPLACES=1 -DREVERSE -DT_REVERSE): the cursors are set back after the consumer has read them; its workers begin there, and pass over the events up to where the consumer begins.
 * guard own_cursor: one worker has committed a batch, the other not; the next consumer reads it again, and the first worker applies it twice.
 * guard equal: the cursors differ when they are shared: a new shard begins behind events that nobody has applied.
 * guard reshard_at: the number of workers is changed while the cursors differ, and stays as it was for ever.
 * guard begin: a stream begins; one worker commits, the consumer dies; the other shard has no position: the next consumer begins with the newest event, and the rows never become equal, as sharing them needs.
 * guard lowest: the next consumer begins at the highest cursor.
 * guard room: the consumer fills a batch that a worker has not taken yet.
 * guard all_done: a batch counts as done when one worker has done it, and is filled again.
 * guard done_last: a worker says that a batch is done before its commit, and is killed.
 * guard gap_noted: the cursors are at 0 and 2; the server has forgotten 1, and begins with 2; worker 0, which has 2 already, notes no gap, and worker 1 passes over 1.
 */
#include "observe.h"

#define START	1
#define BEGIN	2
#define MOVE	3
#define SHARE	4
#define SET		5
#define GAP		6

#ifdef TRACE
#define EVENTS	1
#define NONE	(-1)
#ifndef SHARDS
#define SHARDS	2
#endif
#define PLACES	3
#define FAULTS	0
#define ORDER_COMES	true
#define KILL_COMES	true
#else
#define NONE	255
#define SHARDS	2
#define ORDER_COMES	(orders == 0 && orders + kills < FAULTS)
#define KILL_COMES	(kills == 0 && orders + kills < FAULTS)
#endif
#define RINGS	2

/* the server */
byte newest = 0;
bit key[EVENTS + 1];		/* the shard of the event, where there are two */

/* atproto.cursor: a row for each shard */
NUMBER cursor[SHARDS] = NONE;
byte rows = 1;
byte layout = 0;
/* atproto.subscription.workers */
byte workers = SHARDS;

/* a gap; all that the server had forgotten is one */
NUMBER gap_after = 0, gap_before = 0;

byte claim = 0;				/* the consumer that has the claim, plus 1 */
byte version = 0;			/* of the subscription's row */
bool taken[SHARDS];			/* the claim of the shard */
byte busy = 0;				/* shards that are claimed */
bool notified[RINGS];

/* the rings: consumer number r has ring r; registered: a worker was started and has not ended; alive: how many of them */
typedef Batch { NUMBER begin; NUMBER last; NUMBER gap; byte left };	/* gap: the event after which a gap begins, plus 1; 0: none; left: workers that have not done it */
typedef Ring { bool closed; bool gone; byte layout; byte version; byte handed; byte done[SHARDS]; bool registered[SHARDS]; byte alive; bool ended; Batch batch[PLACES] };
Ring ring[RINGS];

/* what only the invariants need */
byte kills = 0, orders = 0;		/* one of each at most, and FAULTS of both */
bool owed[EVENTS + 1] = true;	/* not applied since the cursor was last set before it */
byte first = NONE;				/* the first event of the stream as it was begun */

inline accounted()
{
#ifndef TRACE
	for (e : 1 .. EVENTS) {
		if
		:: first != NONE && e >= first ->
			w = (rows == 1 -> 0 : key[e]);
			assert(cursor[w] == NONE || e > cursor[w] || !owed[e] || (e > gap_after && e < gap_before))	/* without cursor_was, gap_noted, layout, room, version */
		:: else
		fi
	}
	e = 0; w = 0
#else
	skip
#endif
}

inline begins(e)
{
	if
	:: first == NONE -> first = e
	:: else
	fi
}

inline apply(e)
{
#ifndef TRACE
	assert(owed[e]);	/* without equal, own_cursor */
	owed[e] = false
#else
	skip
#endif
}

inline note_gap(from, to)
{
	if
	:: gap_before == 0 -> gap_after = from; gap_before = to
	:: else ->
		if
		:: from < gap_after -> gap_after = from
		:: else
		fi;
		if
		:: to > gap_before -> gap_before = to
		:: else
		fi
	fi
}

#ifndef WITHOUT_layout
#define SAME_LAYOUT(l)	(layout == l)
#else
#define SAME_LAYOUT(l)	true
#endif
#ifndef WITHOUT_version
#define SAME_VERSION	(version == ring[r].version)
#else
#define SAME_VERSION	true
#endif
#ifndef WITHOUT_cursor_was
#define IS_AT(w, seq)	(cursor[w] == seq)
#else
#define IS_AT(w, seq)	true
#endif
#ifndef WITHOUT_room
#define ROOM	(ring[me].handed - collected < PLACES)
#else
#define ROOM	(ring[me].handed - collected < PLACES + 1)
#endif
#ifndef WITHOUT_all_done
#define FINISHED	(ring[me].batch[collected % PLACES].left == 0)
#else
#define FINISHED	(ring[me].batch[collected % PLACES].left < n)
#endif
#define IDLE	(n == 1 -> at == last : ring[me].handed == collected)
#ifndef WITHOUT_reshard_at
#define RESHARD	(reshard_at != NONE && last != NONE && last >= reshard_at)
#else
#define RESHARD	false
#endif
#define ALONE(r)	(ring[r].alive == 0)

/* A ring that nobody has is nothing (so that the search does not tell its remains apart). */
inline forget_ring(r)
{
	if
	:: ring[r].closed && ALONE(r) ->
		ring[r].handed = 0; ring[r].layout = 0; ring[r].version = 0; ring[r].ended = false;
		for (w : 0 .. SHARDS - 1) {
			ring[r].done[w] = 0
		}
		for (w : 0 .. PLACES - 1) {
			ring[r].batch[w].begin = 0; ring[r].batch[w].last = 0; ring[r].batch[w].gap = 0; ring[r].batch[w].left = 0
		}
		w = 0
	:: else
	fi
}

active [RINGS] proctype consumer()
{
	byte me = _pid;
	NUMBER at, last;		/* c->cursor, c->position.last; the latter is c->handed, too */
	NUMBER high, reshard_at, gap;
	byte n, mine, seen;		/* shards, their layout, the version of the row */
	NUMBER e;
	byte collected, sent, w;
	bool fresh;				/* the connection has brought no event yet */

end_start:
	/* the second process starts while the first one ends: which of the two comes next makes no difference */
	atomic {
		claim == 0 && ALONE(me) && (me == 0 || !ALONE(0) || ring[0].gone) ->
		claim = me + 1
	};
	/* wait */
	busy == 0;
	/* read, and share the rows among another number of shards */
	atomic {
		notified[me] = false;
		seen = version;
		at = cursor[0]; high = cursor[0]; reshard_at = NONE;
		for (w : 1 .. SHARDS - 1) {
			if
			:: w < rows && (cursor[w] == NONE || (at != NONE && cursor[w] < at)) -> at = cursor[w]
			:: else
			fi;
			if
			:: w < rows && cursor[w] != NONE && (high == NONE || cursor[w] > high) -> high = cursor[w]
			:: else
			fi
		}
		w = 0;
#ifdef TRACE
		PEEK;
		workers = (next_step == SHARE -> next_a : rows);
#endif
		if
#ifndef WITHOUT_equal
		:: rows != workers && at != high -> reshard_at = high
		:: rows != workers && at == high ->
#else
		:: rows != workers ->
#endif
			for (w : 1 .. SHARDS - 1) {
				if
				:: w >= rows && w < workers -> cursor[w] = cursor[0]
				:: w >= workers -> cursor[w] = NONE
				:: else
				fi
			}
			w = 0;
			rows = workers; layout++;
			OBSERVE(SHARE, rows, at, 0);
			accounted()
		:: else
		fi;
		n = rows; mine = layout;
#ifdef WITHOUT_lowest
		at = high
#endif
	};
	/* start the workers, and connect */
	atomic {
		collected = 0;
		if
		:: n > 1 ->
			ring[me].closed = false; ring[me].layout = mine; ring[me].version = seen; ring[me].handed = 0; ring[me].ended = false;
			for (w : 0 .. SHARDS - 1) {
				ring[me].done[w] = 0; ring[me].registered[w] = w < n
			}
			ring[me].alive = n;
			w = 0
		:: else
		fi;
		last = at; fresh = true;
#ifndef TRACE
		do
		:: at == NONE && newest < EVENTS -> newest++; if :: key[newest] = 0 :: key[newest] = 1 fi
		:: break
		od;
		sent = (at == NONE -> newest : at)
#endif
	};
end_stream:	do
	:: /* hand: an event comes; with workers it is handed to them */
		atomic {
			(n == 1 -> at == last : ROOM) && sent < EVENTS && !RESHARD ->
			gap = 0;
#ifdef TRACE
			PEEK;
			if
			:: next_step == BEGIN && at == NONE && n > 1 -> e = next_a + 1
			:: next_step == GAP && n > 1 && next_a == last -> gap = last + 1; e = next_b
			:: next_step == MOVE && next_b > last -> e = next_b
			:: else -> trace_at = -1
			fi;
#else
			sent++;
			/* this server has forgotten the event, and begins with the next */
			if
			:: fresh && last != NONE && sent < EVENTS -> gap = last + 1; sent++
			:: true
			fi;
			do
			:: newest < sent -> newest++; if :: key[newest] = 0 :: key[newest] = 1 fi
			:: else -> break
			od;
			e = sent;
#endif
			fresh = false;
			if
			:: n == 1
			:: else ->
#ifndef WITHOUT_begin
				if
				:: at == NONE ->
					at = e - 1; last = at;
					for (w : 0 .. SHARDS - 1) {
						if
						:: w < rows && cursor[w] == NONE -> cursor[w] = at
						:: else
						fi
					}
					w = 0;
					begins(e);
					OBSERVE(BEGIN, at, 0, 0)
				:: else
				fi;
#endif
#ifndef WITHOUT_gap_noted
				/* the gap before the batch is noted for all shards */
				if
				:: gap != 0 -> note_gap(gap - 1, e); OBSERVE(GAP, last, e, 0)
				:: else
				fi;
#endif
				w = ring[me].handed % PLACES;
				ring[me].batch[w].begin = last; ring[me].batch[w].last = e; ring[me].batch[w].gap = gap; ring[me].batch[w].left = n;
				ring[me].handed++;
				w = 0; gap = 0
			fi;
			last = e; e = 0
		}
	:: /* move: with one shard the consumer applies it */
		atomic {
			n == 1 && at != last ->
			if
			:: IS_AT(0, at) && SAME_LAYOUT(mine) ->
				begins(last);
				apply(last);
				if
				:: gap != 0 -> note_gap(gap - 1, last)
				:: else
				fi;
				OBSERVE(MOVE, at, last, 0);
				cursor[0] = last; at = last; gap = 0;
				accounted()
			:: else -> goto leaves
			fi
		}
	:: /* collect */
		atomic {
			n > 1 && ring[me].handed > collected && FINISHED ->
			at = ring[me].batch[collected % PLACES].last;
			collected++;
#ifndef TRACE
			for (w : 0 .. SHARDS - 1) {
				assert(notified[me] || layout != mine || cursor[w] >= at)	/* without all_done, done_last */
			}
			w = 0
#endif
		}
	:: atomic { n > 1 && ring[me].ended -> goto leaves }
	:: atomic { RESHARD && IDLE -> goto leaves }
	:: atomic { notified[me] && IDLE -> goto leaves }
	:: /* an ERROR: the claim is free before the ring is closed */
		atomic { KILL_COMES -> kills = 1; claim = 0; ring[me].gone = true };
		goto closes
	od;
leaves:
	/* close, and wait for the workers */
	ring[me].closed = true;
	atomic {
		ALONE(me) ->
		claim = 0
	};
closes:
	atomic {
		ring[me].closed = true; ring[me].gone = false;
		forget_ring(me);
		at = 0; last = 0; high = 0; reshard_at = 0; gap = 0; n = 0; mine = 0; seen = 0; collected = 0; sent = 0; fresh = false;
		goto end_start
	}
}

active [RINGS * SHARDS] proctype worker()
{
	byte r = (_pid - RINGS) / SHARDS, me = (_pid - RINGS) % SHARDS;
	NUMBER my, last, gap;
	byte e, w;
	bool mine;				/* has the claim */

end_start:
	ring[r].registered[me];
	/*
	 * join, claim the shard, and read the settings.  One step: who has the claim and has not read yet, only keeps others
	 * waiting.
	 */
	atomic {
		if
		:: taken[me] -> goto ends
		:: else -> taken[me] = true; busy++; mine = true
		fi;
		if
		:: SAME_LAYOUT(ring[r].layout) && SAME_VERSION && me < rows -> my = cursor[me]
		:: else -> goto ends
		fi
	};
end_loop:	do
	:: ring[r].closed -> goto ends
	:: /*
		 * take the batch, and move.  One step: what can come in between is seen by the conditions of the UPDATE,
		 * as when it had come before.
		 */
		atomic {
			!ring[r].closed && ring[r].handed > ring[r].done[me] ->
			w = ring[r].done[me] % PLACES;
			last = ring[r].batch[w].last; gap = ring[r].batch[w].gap;
			my = (my == NONE -> ring[r].batch[w].begin : my);
			w = 0;
#ifdef WITHOUT_done_last
			ring[r].batch[ring[r].done[me] % PLACES].left--; ring[r].done[me]++
		};
		atomic {
#endif
#ifdef TRACE
			/* a consumer that is killed explains as much as a worker that is killed */
			PEEK;
			if
			:: last <= my || (next_step == MOVE && next_a == my && next_b == last && next_c == me)
			:: else -> trace_at = -1
			fi;
#else
			if
			:: true
			:: KILL_COMES -> kills = 1; goto ends
			fi;
#endif
			if
#ifndef WITHOUT_own_cursor
			:: my != NONE && last <= my
#endif
			:: else ->
				if
				:: IS_AT(me, my) && SAME_LAYOUT(ring[r].layout) ->
#ifndef TRACE
					begins(last);
					if
					:: key[last] == me -> apply(last)
					:: else
					fi;
#ifdef WITHOUT_gap_noted
					if
					:: gap != 0 && me == 0 && last > my -> note_gap(gap - 1, last)
					:: else
					fi;
#endif
#endif
					OBSERVE(MOVE, my, last, me);
					cursor[me] = last; my = last;
					accounted()
				:: else -> goto ends
				fi
			fi;
			last = 0; gap = 0;
#ifndef WITHOUT_done_last
			/* done */
			ring[r].batch[ring[r].done[me] % PLACES].left--; ring[r].done[me]++
#endif
		}
	od;
ends:
	atomic {
		ring[r].registered[me] = false; ring[r].alive--; ring[r].ended = true;
		if
		:: mine -> taken[me] = false; busy--
		:: else
		fi;
		mine = false; my = 0; last = 0; gap = 0;
		forget_ring(r);
		goto end_start
	}
}

/* A session changes the number of workers, or sets the cursor back. */
active proctype session()
{
	byte e, w;
	NUMBER to;

#ifndef TRACE
	/* the subscription begins with the next event, or after a given one */
	if
	:: true
	:: atomic { claim == 0 && newest == 0 && rows == 1 && layout == 0 && cursor[0] == NONE -> cursor[0] = 0; first = 1 }
	fi;
#else
	atomic { PEEK; next_step == START -> cursor[0] = next_a; OBSERVE(START, next_a, 0, 0) };
#endif
end:	do
	:: atomic {
			ORDER_COMES ->
#ifdef TRACE
			PEEK;
			if
			:: next_step == SET -> to = next_a; OBSERVE(SET, to, 0, 0)
			:: else -> trace_at = -1
			fi;
#else
			orders++;
#endif
			if
#ifndef TRACE
			:: workers = SHARDS + 1 - workers
			:: cursor[0] != NONE && first != NONE ->
				to = first - 1;
				do
				:: to + 1 < cursor[0] -> to++
				:: break
				od;
				for (e : 1 .. EVENTS) {
					if
					:: e > to -> owed[e] = true
					:: else
					fi
				}
				e = 0;
#else
			:: true ->
#endif
				for (w : 0 .. SHARDS - 1) {
					if
					:: w < rows -> cursor[w] = to
					:: else
					fi
				}
				w = 0;
				accounted()
			fi;
			version++;
			notified[0] = true; notified[1] = true;
			to = 0
		}
	od
}

/* When nothing can move, everything was applied. */
active proctype end_quiet()
{
	byte w;

	timeout ->
	atomic {
		assert(claim != 0);
		assert(rows == workers);	/* without begin, reshard_at */
		for (w : 0 .. SHARDS - 1) {
			assert(w >= rows || cursor[w] == EVENTS || first == NONE)	/* without lowest */
		}
	}
}
