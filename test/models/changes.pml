/*
 * Changes, from the consumer's commits by a replication slot to a reader with a store of its own.
 *
 * Modelled: a consumer that commits its events in transactions; the WAL, which a crash cuts at what was flushed, and a
 * promotion at what the standby has received; a slot, of which a crash and a promotion know an older position, or nothing;
 * two processes of one reader, which share a store, because a process may outlive its connection. The reader streams, or
 * calls SQL functions: pg_logical_slot_peek_changes(), and pg_replication_slot_advance() after its commit.
 * A change is the number of its event. So the law of the reader is short: each change that is applied is the next one.
 * After a promotion the consumer reads the network again from its cursor, and cuts the events into other transactions.
 * An LSN is the number of a transaction; 0 is where the WAL begins. A transaction without changes stands for the WAL of
 * other tables and databases: a reader that streams hears of its LSN by a keepalive, a reader with SQL asks for the end of the
 * WAL before a peek that finds nothing.
 * Left out: several consumers, because the WAL has put their commits in order; readers that keep no position in their
 * transaction, which repeat; polling a table by a rising number, which overlooks a transaction that commits late.
 *
 * short: -DTXS=2 -DEVENTS=2 -DFAULTS=1
 * long: -DTXS=2 -DEVENTS=3 -DFAULTS=2
 *
 * Invariants:
 *   Each applied change is the next one: no change is lost or comes twice, and the order is that of the commits (apply()).
 *   The reader begins anew, with a copy of the tables, only if it must: the slot was dropped or moved by a stranger, or is not on
 *   the promoted standby, or the standby was not told to be ahead of the reader.
 * When nothing can move (end_quiet), the store has all changes, and the slot keeps no WAL that the reader does not need.
 *
 * step commits: tables/apply/stream_progress.c move_progress()
 * step receive: changes/change_position.c atp_change_tell_position()
 * step begin: examples/search.py connect()
 * step look: examples/search.py connect()
 * step store: examples/search.py end()
 * step confirm: examples/search.py follow()
 * step build: examples/search.py build()
 *
 * guard own_position: the server crashes, and its slot has an older position: the reader begins there, and applies a transaction twice.
 * guard end: the message names the beginning of the commit; the reader is killed and begins there, and the last transaction comes again.
 * guard one_transaction: the reader is killed between its changes and its position, and applies the changes again.
 * guard flush: the reader confirms what it has received, and is killed before the changes are stored. With SQL, this is pg_logical_slot_get_changes(), which moves the slot although the reader's transaction is rolled back.
 * guard idle: the reader confirms the LSN of a keepalive without storing the LSN: the slot is ahead of the store, as when a stranger has read the slot, and the reader begins anew for nothing.
 * guard moved: a stranger has read the slot; the reader goes on behind the changes that the stranger has read.
 * guard look_last: the reader looks at the slot before it begins; a stranger reads the slot in between, and the reader goes on behind what the stranger has read.
 * guard still: the reader has read its position, and finds the slot further: another process of the reader has stored and confirmed meanwhile; the reader begins anew for nothing.
 * guard position_was: a process stores what it has received before its connection was lost; another process has stored the same changes already.
 * guard n: the reader stores half of a transaction, is killed, and applies the first half again.
 * guard flushed: the reader gets what the server has not flushed; the server crashes, and writes another transaction in its place.
 * guard timeline: the reader has transaction 2, the promoted standby has only 1, and writes a transaction 2 of its own: the reader passes over that transaction.
 * guard standby_first: the server sends what the standby does not have; the standby is promoted, and the reader must begin anew.
 * guard slot_known (-DTXS=2 -DEVENTS=2 -DFAULTS=2): a stranger reads the slot, the reader peeks, the stranger drops the slot; the reader finds none, so none that is further than its position, and stores what comes after the changes that the stranger has read.
 * guard snapshot: the tables are copied after the slot was made, without its snapshot: what was committed in between is applied twice.
 * guard build_again: the reader is killed between the slot and the copy; the next process finds the slot and an empty store, and follows the slot.
 * guard build_lock: two processes build the store; one replaces the slot of the other by one that begins later, and the store with the earlier position begins anew for nothing.
 */
#include "observe.h"

#define READERS	2
#define NOBODY	0

/* the server: WAL, slot, timeline */
byte upto[TXS + 1];			/* the events up to the end of this transaction; so what the cursor was */
byte written = 0, flushed = 0;	/* the last transaction in memory, on disk */
byte received = 0;			/* on the disk of the standby */
bool promoted = false;		/* the standby is the server now: timeline 2, which began at switched */
byte switched = 0;
bool there = false;			/* the slot */
byte confirmed = 0;			/* its confirmed_flush_lsn */
byte saved = 0;				/* an older confirmed_flush_lsn, which the disk or the standby may have */
byte user = NOBODY;		/* who is connected to the slot */
byte building = NOBODY;		/* who has the store's lock for building it */

/* settings */
bool syncs;					/* the slot is synchronized to the standby (17) */
bool waits;					/* and the server sends a reader only what the standby has (synchronized_standby_slots) */
bool sql;					/* the reader calls functions in place of streaming */

/* the store of the reader */
bool built = false;
byte life = 0;				/* how often it was built: LSNs here are coarse, and the same one may come again */
byte pos = 0, n = 0;		/* the last transaction that is stored as a whole; changes of the next one */
bool on_new = false;		/* the timeline of pos */
byte seen = 0;				/* what the store has: the last event */

bool connected[READERS + 1];
bool runs = false;			/* the first process is there; the second one starts beside it */
byte faults = 0;

/* what only the invariants need */
bool reason = false;		/* something was lost, so that the reader must begin anew */

#define FAULT	(faults < FAULTS)

inline apply(e)
{
	assert(e == seen + 1);	/* without build_again, end, look_last, moved, n, one_transaction, own_position, position_was, slot_known, snapshot, timeline */
	seen = e
}

/* The server has no connection any more. */
inline break_all()
{
	user = NOBODY;
	for (r : 1 .. READERS) {
		connected[r] = false
	}
	r = 0
}

/* WAL that is gone is nothing: the search must not tell its remains apart. */
inline cut(at)
{
	written = at; flushed = at;
	for (r : 1 .. TXS) {
		if
		:: r > at -> upto[r] = 0
		:: else
		fi
	}
	r = 0
}

active proctype server()
{
	byte r;

	atomic {
		if :: syncs = true; waits = true :: syncs = true :: true fi;
		if :: sql = true :: sql = false fi
	};
end:	do
	:: atomic {				/* commits: rows and cursor */
			written < TXS ->
			written++; upto[written] = upto[written - 1];
			if
			:: upto[written] < EVENTS -> upto[written]++
			:: upto[written] + 1 < EVENTS -> upto[written] = upto[written] + 2
			:: true
			fi
		}
	:: atomic { flushed < written -> flushed = written }
	:: atomic { !promoted && received < flushed -> received = flushed }
	:: atomic {				/* a crash */
			FAULT && (flushed < written || user != NOBODY || sql) -> faults++;
			cut(flushed);
			if
			:: confirmed = saved
			:: true
			fi;
			break_all()
		}
	:: atomic {				/* a promotion */
			FAULT && !promoted -> faults++;
			promoted = true; switched = received;
			reason = reason || !waits;
			if
			:: there && syncs && confirmed <= received
			:: there && syncs && saved <= received -> confirmed = saved
			:: !syncs || !there || saved > received -> there = false; confirmed = 0; saved = 0; reason = true
			fi;
			cut(received);
			break_all()
		}
	:: atomic {				/* a stranger reads the slot, or drops it */
			FAULT && there && user == NOBODY -> faults++;
			if
			:: confirmed < flushed -> confirmed = flushed
			:: there = false; confirmed = 0; saved = 0
			fi;
			reason = true
		}
	od
}

#ifndef WITHOUT_flushed
#define ON_DISK	flushed
#else
#define ON_DISK	written
#endif
#ifndef WITHOUT_standby_first
#define READY	(waits && !promoted -> received : ON_DISK)
#else
#define READY	ON_DISK
#endif
#define HIGHER(a, b)	(a > b -> a : b)

#ifndef WITHOUT_build_lock
#define STORE_FREE	(building == NOBODY)
#else
#define STORE_FREE	true
#endif
#ifndef WITHOUT_own_position
#define BEGIN_AT	at = HIGHER(my_pos, confirmed)
#else
#define BEGIN_AT	at = confirmed
#endif

/* The messages of the next transaction.  A keepalive, or the end of the WAL before a peek that found nothing, has none. */
inline receive()
{
	at++; lsn = at; first = upto[at - 1] + 1; last = upto[at]; pending = true;
#ifndef WITHOUT_n
	if
	:: first <= last -> first = first + my_n
	:: else
	fi;
#endif
#ifdef WITHOUT_end
	if
	:: first <= last -> lsn = at - 1
	:: else
	fi;
#endif
#ifdef WITHOUT_flush
	confirmed = HIGHER(confirmed, at);
#endif
#ifdef WITHOUT_idle
	if
	:: first > last -> confirmed = HIGHER(confirmed, at)
	:: else
	fi;
#endif
	skip
}

/* a reader with SQL asks again and again; the search need not know of answers that change nothing */
#define ANYTHING	(!built || !there || !sql || HIGHER(pos, confirmed) < READY || confirmed != pos || (promoted && !on_new && pos > switched))

active [READERS] proctype reader()
{
	byte me = _pid, slot_at, my_pos, my_n, my_life, at, lsn, first, last, e;
	bool my_new, server_new, gone, pending;

end_start:
	/* begin, at the position that the store has: only one process can stream; peek_changes returns one transaction, or the end of the WAL */
	atomic {
		(sql || user == NOBODY) && STORE_FREE && ANYTHING && (me == 1 || runs) ->
		if
		:: me == 1 -> runs = true
		:: else
		fi;
		connected[me] = true; server_new = promoted;
#ifdef WITHOUT_look_last
		slot_at = confirmed
	};
	atomic {
		if
		:: connected[me] && (sql || user == NOBODY)
		:: else -> goto leaves
		fi;
#endif
		my_pos = pos; my_n = n; my_new = on_new; my_life = life;
		if
		:: !built -> goto build
		:: built && !there ->
			gone = true
		:: built && there ->
#ifndef WITHOUT_own_position
			at = HIGHER(my_pos, confirmed);
#else
			at = confirmed;
#endif
			if
			:: !sql -> user = me
			:: sql && at < READY -> receive()
			:: else
			fi
		fi
	};
	/* look */
	atomic {
		if
		:: connected[me]
		:: else -> goto leaves
		fi;
#ifndef WITHOUT_look_last
		slot_at = confirmed;
#endif
#ifndef WITHOUT_slot_known
		gone = gone || !there;
#endif
#ifndef WITHOUT_moved
		gone = gone || slot_at > my_pos;
#endif
#ifndef WITHOUT_timeline
		gone = gone || (server_new && !my_new && my_pos + (my_n > 0 -> 1 : 0) > switched);
#endif
		slot_at = 0;
		if
		:: gone ->
#ifndef WITHOUT_still
			if
			:: my_life == life && built && pos == my_pos && n == my_n && on_new == my_new
			:: else -> goto leaves
			fi;
#endif
			assert(reason);	/* without build_lock, flush, idle, standby_first, still */
			built = false; pos = 0; n = 0; on_new = false; seen = 0;
			goto build
		:: else
		fi
	};
end_stream:	do
	:: atomic { connected[me] && !sql && !pending && at < READY -> receive() }
	:: /* store, also when the connection is gone */
		atomic {
			pending ->
#ifndef WITHOUT_position_was
			if
			:: my_life == life && built && pos == my_pos && n == my_n && on_new == my_new
			:: else -> goto leaves
			fi;
#endif
			my_new = server_new; on_new = server_new;
			if
			:: first < last -> apply(first); first++; my_n++; n = my_n	/* a reader may cut in a long transaction */
			:: true ->
				for (e : first .. last) {
					apply(e)
				}
				e = 0;
#ifdef WITHOUT_one_transaction
				if
				:: FAULT -> faults++; goto leaves
				:: true
				fi;
#endif
				my_pos = lsn; pos = lsn; my_n = 0; n = 0; pending = false; lsn = 0; first = 0; last = 0
			fi
		}
	:: atomic {				/* confirm */
			connected[me] && there && !pending && confirmed < my_pos ->
			confirmed = my_pos;
			if
			:: sql -> goto leaves
			:: else
			fi
		}
	:: atomic { FAULT && connected[me] -> faults++; goto leaves }	/* killed */
	:: atomic { !pending && (!connected[me] || (sql && (confirmed >= my_pos || !there))) -> goto leaves }
	od;
build:	/* lock the store for the time that this takes; a slot that is there was made by a process that was killed */
	atomic {
		if
		:: connected[me] && !built && STORE_FREE && (user == NOBODY || user == me)
		:: else -> goto leaves
		fi;
		building = me;
		flushed = written;
#ifdef WITHOUT_build_again
		if
		:: there
		:: else ->
#endif
		there = true; confirmed = flushed; saved = flushed;
#ifdef WITHOUT_build_again
		fi;
#endif
		reason = false;
		lsn = confirmed; last = upto[flushed]
	};
	/* copy the tables, unless the process is killed */
	atomic {
		if
		:: FAULT -> faults++
		:: connected[me] && !built ->
#ifdef WITHOUT_snapshot
			last = upto[written];
#endif
			built = true; life++; pos = lsn; n = 0; on_new = server_new; seen = last
		:: !connected[me] || built
		fi
	};
leaves:	atomic {
		connected[me] = false;
		if
		:: me == 1 -> runs = false
		:: else
		fi;
		if
		:: user == me -> user = NOBODY
		:: else
		fi;
		if
		:: building == me -> building = NOBODY
		:: else
		fi;
		slot_at = 0; my_pos = 0; my_n = 0; my_life = 0; at = 0; lsn = 0; first = 0; last = 0; e = 0;
		my_new = false; server_new = false; gone = false; pending = false;
		goto end_start
	}
}

/* When nothing can move, the store has everything, and the server may forget all WAL before it. */
active proctype end_quiet()
{
	timeout ->
	atomic {
		assert(built);
		assert(pos == flushed && n == 0 && seen == upto[flushed]);	/* without slot_known, timeline */
		assert(there && confirmed == pos)
	}
}
