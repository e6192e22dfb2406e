/*
 * History from a Jetstream archive, and its seam to the stream of the same server.
 *
 * The server has a log of rows.  It seals the newest rows, has removed any superseded row of these when the reader looks, calls an old cursor too old, and
 * loses rows without a word in one of three ways (`mood`).  The reader plans, reads the rows in one pass or in two, goes on with the
 * stream, is killed and cut off.  An account has two records, with deletions of a record, of the account, and #syncs;
 * another account has one record.  The rows of a resync are rows like others here.
 *
 * Left out: other writers of the target (sweep.pml); transfers, blocks and pages, whose faults only repeat a step; several workers (workers.pml);
 * filters, because a row outside the filter is a row without an effect; a log whose rows change places so that the row at the position
 * is by chance the same: this needs three accounts.
 *
 * short: -DN=3 -DFAULTS=1 -DKINDS=3
 * long: -DN=4 -DFAULTS=1 -DKINDS=4
 *
 * N rows; FAULTS: kills and cuts; KINDS of rows: a record, the other account's record, a marker, a second record, a deletion.
 *
 * Invariants:
 * - In the end the table is the fold of all rows in the order of their numbers, or the reader has stopped and says why.
 * - The position passes no row without its effect, unless a later row supersedes it (accounted()).
 * - No row has an effect twice, unless the server has sent it under two numbers, or the reader says that it reads again (take()).
 * - When nothing can move, the reader follows the stream, at its end, and no seam waits for its audit.
 *
 * step plan: process/consumer/consumer_history.c take_plan()
 * step download: archive/archive_reader.c atp_archive_next()
 * step apply: tables/apply/stream_progress.c move_progress()
 * step markers: process/consumer/consumer_history.c begin_pass()
 * step connect: process/consumer/consumer_stream.c atp_consumer_connect()
 * step receive: process/consumer/consumer_seam.c atp_consumer_judge_seam()
 * step audit: process/consumer/consumer_seam.c end_audit()
 * step quiet_stream: process/consumer/consumer_seam.c take_plan()
 * step settle: process/consumer/consumer_seam.c atp_consumer_check_position()
 *
 * guard one_transaction: the position is committed before the rows; the reader is killed between.
 * guard mode: pass one has read commits up to the middle; the reader is killed, plans anew, and finds that one pass is cheaper: nobody reads the markers
 *     before its position.
 * guard by_number: an account's host was restored: a #sync has a lower revision than the records before it.  All rows are as new as the #sync,
 *     so the account is not read once more, and a record stays that the #sync has removed.
 * guard pinned: rows are sealed while pass one reads to the tip; pass two asks for the markers to the new tip, and the position becomes
 *     this tip: the records before it are passed.
 * guard audit: the server's look-back is 0: the stream begins at the newest row, without a word.
 * guard each_seam (-DN=4 -DFAULTS=1 -DKINDS=2): the stream is cut twice before the first seam can be audited; only the last seam is kept.
 * guard quiet: the stream has begun at the newest row, and no further row comes: there is no first row, so there is no audit.
 * guard every: the stream is cut for a moment, the server's look-back is 0; only long cuts are audited.
 * guard boundary: the server is killed; rows that the stream had shown were not on its disk, and get other numbers.  One of the
 *     numbers below the position is now a row that the reader has never seen.
 * guard settles: the same, or another instance answers; the archive's tip is taken as settled, although the row at the position was not compared with the archive's.
 * guard too_old: the same, and the cursor is too old: the next cycle begins at the position.
 * guard instance: another server stands behind the name, with as many numbers: rows below the position are others.
 */
#include "observe.h"

/* rows */
#define PUT0	1
#define PUT1	2
#define DEL0	3
#define PURGE	4			/* a #sync, or the account's deletion */
#define OTHER	5			/* the other account's record */

/* what this server does */
#define HONEST	0
#define FALLS	1			/* a #sync has a revision lower than the rows before it */
#define CRASHES	2			/* rows that the stream has shown are not on the disk */
#define SILENT	3			/* look-back 0: any cursor begins at the newest row */
#define ANOTHER	4			/* another instance */
byte mood = HONEST;

/* the log: row s has the contents row[s], the kind of contents c is kind[c] */
byte row[N + 1], kind[N + 1];
byte later[N + 1];			/* the row that supersedes this one; 0: none.  Only records are ever superseded */
bool lives = false;
byte newest = 0, sealed = 0;
byte place = 0;				/* FALLS: the #sync; CRASHES, ANOTHER: this row and the next one change places */
bool instance = 0, spoilt = false;
byte faults = 0;

/* the row of history, and the cursor */
#define PLAN	0
#define ROWS	1
#define MARKERS	2
#define STREAM	3
byte phase = PLAN;
byte position = 0, last = 0;	/* last: what the row at the position was */
byte settled = 0;			/* up to here, the numbers are on the server's disk, and are what they were when they had their effect */
byte tip = 0;
bool two = false;			/* in two passes */
byte known = 0;				/* which instance; 0: not known yet */
bool stopped = false;
#define SEAMS	(FAULTS + 2)
byte from[SEAMS], to[SEAMS];	/* seams without an audit, the first one first; to = 0: none */

/* the tables: contents of the row that has written each record; 0: none */
byte rec[6];				/* the last three: folded in memory, zero between transactions */
#define FOLDED	3
byte oldest = 0;			/* the lowest number of a row of the account since the last marker that has removed all; 0: none */

/* the process of the reader */
bool connected = false, first = false;
byte next = 0;				/* the next row of the connection */
#ifdef WITHOUT_one_transaction
bool moved = false;
#endif

/* only for the invariants */
short effect = 0;			/* bit c: contents c had an effect */
bool rewound = false;

hidden byte s, q, u;

#define IS_COMMIT(c)	(kind[c] != PURGE)
#define REV(c)			(mood == FALLS && (c) == place -> 0 : (c))
#define CAN_CHANGE(x)	((kind[x] == OTHER) != (kind[x + 1] == OTHER))

inline find_later()
{
	for (s : 1 .. N) {
		later[s] = 0;
		for (u : s + 1 .. N) {
			if
			:: later[s] == 0 && (kind[row[s]] == PUT0 || kind[row[s]] == PUT1) && (!IS_COMMIT(row[u]) || kind[row[u]] == kind[row[s]]) -> later[s] = u
			:: later[s] == 0 && kind[row[s]] == PUT0 && kind[row[u]] == DEL0 -> later[s] = u
			:: later[s] == 0 && kind[row[s]] == OTHER && kind[row[u]] == OTHER -> later[s] = u
			:: else
			fi
		}
	}
	s = 0; u = 0
}

/*
 * May row x be gone?  At any moment, of each segment the reader sees any generation: the server compacts between two answers, and
 * a cache gives an older one.
 */
#define SUPERSEDED(x)	(later[x] != 0 && later[x] <= sealed)

/* the effect of contents c on the records from at on */
inline fold(at, c)
{
	if
	:: kind[c] == PUT0 -> rec[at + 0] = c
	:: kind[c] == PUT1 -> rec[at + 1] = c
	:: kind[c] == OTHER -> rec[at + 2] = c
	:: kind[c] == DEL0 -> rec[at + 0] = 0
	:: kind[c] == PURGE -> rec[at + 0] = 0; rec[at + 1] = 0
	fi
}

/* Row x has its effect. */
inline take(x)
{
	assert(!(effect & (1 << row[x])) || rewound || spoilt);
	effect = effect | (1 << row[x]);
	if
	:: !IS_COMMIT(row[x]) -> oldest = 0
	:: (kind[row[x]] == PUT0 || kind[row[x]] == PUT1) && (oldest == 0 || oldest > (x)) -> oldest = x
	:: else
	fi;
	fold(0, row[x])
}

/* The position is p, and the next step is a plan. */
inline plan_from(p)
{
	rewound = rewound || (p) < position;
	position = (p); last = 0; phase = PLAN; tip = 0; connected = false; first = false; next = 0;
	for (u : 0 .. SEAMS - 1) {
		if
		:: from[u] >= (p) -> from[u] = 0; to[u] = 0
		:: else
		fi
	}
	u = 0
}

/* A seam between rows a and b is noted. */
inline note_seam(a, b)
{
	u = 0;
#ifndef WITHOUT_each_seam
	do
	:: to[u] != 0 -> u++
	:: else -> break
	od;
#endif
	from[u] = (a); to[u] = (b); u = 0
}

inline accounted()
{
	if
	:: phase == STREAM && connected && !first && mood != SILENT && !spoilt ->
		for (s : 1 .. position) {
			assert((effect & (1 << row[s])) || later[s] != 0)
		}
		s = 0
	:: else
	fi
}

inline change_places()
{
	d = row[place]; row[place] = row[place + 1]; row[place + 1] = d; d = 0;
	find_later()
}

#ifdef WITHOUT_every
bool cut = false;
#define CUT		cut = true
#define SEAM_COUNTS	!cut
#else
#define CUT		skip
#define SEAM_COUNTS	true
#endif

active proctype server()
{
	byte d;

	atomic {
		for (s : 1 .. N) {
			row[s] = s;
			if
			:: kind[s] = PUT0
			:: kind[s] = OTHER
			:: KINDS > 2 -> kind[s] = PURGE
			:: KINDS > 3 -> kind[s] = PUT1
			:: KINDS > 4 -> kind[s] = DEL0
			fi
		}
		s = 0;
		if
		:: skip
		:: mood = SILENT
		:: mood = CRASHES
		:: mood = ANOTHER
		:: mood = FALLS
		fi;
		if
		:: mood == HONEST || mood == SILENT
		:: else ->
			place = 1;
			do
			:: (mood == FALLS && kind[place] == PURGE) || (mood != FALLS && CAN_CHANGE(place)) -> break
			:: place < N - 1 -> place++
			:: else -> mood = HONEST; place = 0; break
			od
		fi;
		find_later();
		lives = true
	}
	do
	:: atomic { newest < N -> newest++ }
	:: atomic { sealed < newest -> sealed = newest }
	/* killed: rows that were not on the disk get other numbers */
	:: atomic { mood == CRASHES && !spoilt && place > sealed && place <= newest ->
		spoilt = true; connected = false; newest = place - 1;
		change_places()
	   }
	/* another instance has the same events under other numbers */
	:: atomic { mood == ANOTHER && !spoilt && place <= newest ->
		spoilt = true; connected = false; instance = 1;
		change_places()
	   }
	:: atomic { faults < FAULTS && connected -> faults++; connected = false; CUT }
	:: atomic { newest == N && sealed == N -> break }
	od
}

inline end_cycle()
{
	phase = STREAM; settled = position; tip = 0; two = false
}

#ifdef WITHOUT_instance
#define ITS_SERVER	true
#else
#define ITS_SERVER	(known == 0 || known == instance + 1)
#endif
#ifdef WITHOUT_pinned
#define LAST_MARKER	sealed
#else
#define LAST_MARKER	tip
#endif
#define AS_NEW(q, x)	(rec[q] == 0 || REV(rec[q]) >= REV(row[x]))
/* the last marker that removes all is row x */
#ifdef WITHOUT_by_number
#define MAY_PASS(x)	(AS_NEW(0, x) && AS_NEW(1, x))
#else
#define MAY_PASS(x)	(oldest == 0 || oldest > (x))
#endif

active proctype reader()
{
	lives;
end_reader:
	do
	:: atomic { !stopped && phase == PLAN ->
		/* plan */
		if
		:: !ITS_SERVER -> stopped = true
		:: else ->
			known = (sealed > 0 -> instance + 1 : known);
			if
			:: tip != 0 -> phase = ROWS
#ifdef WITHOUT_mode
			:: tip != 0 -> phase = ROWS; two = false
#endif
			:: tip == 0 ->
				/* settle */
#ifndef WITHOUT_too_old
				if
				:: position > settled && position <= sealed ->
					if
					:: row[position] == last -> settled = position
					:: row[position] != last || SUPERSEDED(position) -> plan_from(settled)
					fi
				:: else
				fi;
#endif
				if
				:: position >= sealed -> phase = STREAM
				:: else ->
					tip = sealed; phase = ROWS;
					if
					:: skip
					:: two = true
					fi
				fi
			fi
		fi
	   }
#ifdef WITHOUT_one_transaction
	:: atomic { phase == ROWS && position < tip && !moved -> position++; moved = true }
	:: atomic { phase == ROWS && moved -> moved = false;
		s = position;
#else
	:: atomic { phase == ROWS && position < tip ->
		s = position + 1;
#endif
		/* download, apply; the numbers of another instance are not those of the plan */
		if
		:: !ITS_SERVER -> phase = PLAN
		:: ITS_SERVER && (SUPERSEDED(s) || (two && !IS_COMMIT(row[s]))) -> position = s; last = row[s]
		:: ITS_SERVER && !(two && !IS_COMMIT(row[s])) -> take(s); position = s; last = row[s]
		fi;
		s = 0
	   }
	:: atomic { phase == ROWS && position >= tip ->
		if
		:: two -> phase = MARKERS
		:: else -> end_cycle()
		fi
	   }
	/* markers */
	:: atomic { phase == MARKERS ->
		q = 0;
		for (s : 1 .. LAST_MARKER) {
			q = (IS_COMMIT(row[s]) -> q : s);
			effect = (IS_COMMIT(row[s]) -> effect : effect | (1 << row[s]))
		}
		if
		:: q == 0 || MAY_PASS(q)
		:: else ->
			/* the account's rows are replaced by their fold */
			for (s : q .. tip) {
				if
				:: SUPERSEDED(s)
				:: fold(FOLDED, row[s]); effect = effect | (1 << row[s])
				fi
			}
			rec[0] = rec[FOLDED + 0]; rec[1] = rec[FOLDED + 1]; rec[FOLDED + 0] = 0; rec[FOLDED + 1] = 0; rec[FOLDED + 2] = 0;
			oldest = (rec[0] + rec[1] > 0 -> q + 1 : 0)
		fi;
		q = 0; s = 0;
#ifdef WITHOUT_pinned
		position = LAST_MARKER;
#endif
		end_cycle()
	   }
	:: atomic { !stopped && phase == STREAM && !connected ->
		/* connect */
		if
		:: !ITS_SERVER -> stopped = true
		:: ITS_SERVER && position + 1 < sealed -> plan_from(position)
		:: ITS_SERVER ->
			connected = true; first = true;
			if
			:: mood == SILENT || position > newest -> next = newest + 1
			:: position <= newest -> next = (position > 0 -> position : 1)
			fi
		fi
	   }
	:: atomic { connected && next <= newest ->
		/* receive */
		s = next; next++;
		if
		:: s <= sealed && SUPERSEDED(s)
		:: true ->
			if
#ifndef WITHOUT_boundary
			:: first && position > settled && !(s == position && row[s] == last) -> plan_from(settled); s = 0
#endif
			:: first && s > position + 1 && SEAM_COUNTS ->
				first = false;
#ifndef WITHOUT_audit
				note_seam(position, s)
#endif
			:: else -> first = false
			fi;
			if
			:: s > position -> take(s); position = s; last = row[s]
			:: else
			fi
		fi;
		s = 0;
		accounted()
	   }
	/* quiet_stream */
#ifndef WITHOUT_quiet
	:: atomic { connected && first && sealed > position -> plan_from(position) }
#endif
	:: atomic { phase == STREAM && to[0] != 0 && sealed >= to[0] ->
		/* audit: how many rows does the archive show that the stream has not brought? */
		for (s : from[0] + 1 .. to[0] - 1) {
			if
			:: SUPERSEDED(s)
			:: q++
			fi
		}
		s = 0;
		if
		:: q > 0 -> q = from[0]; plan_from(q); q = 0
		:: else ->
			for (u : 1 .. SEAMS - 1) {
				from[u - 1] = from[u]; to[u - 1] = to[u]
			}
			from[SEAMS - 1] = 0; to[SEAMS - 1] = 0; u = 0
		fi
	   }
	/* settle */
	:: atomic { phase == STREAM && connected && !first && position > settled && position <= sealed ->
#ifndef WITHOUT_settles
		if
		:: !ITS_SERVER -> stopped = true
		:: ITS_SERVER && row[position] == last -> settled = position; known = instance + 1
		:: ITS_SERVER && row[position] != last -> plan_from(settled)
		fi
#else
		settled = position
#endif
	   }
	/* killed */
	:: atomic { faults < FAULTS && (phase == ROWS || connected) ->
		faults++;
		connected = false; first = false; next = 0;
#ifdef WITHOUT_one_transaction
		moved = false;
#endif
		phase = (phase == ROWS -> PLAN : phase)
	   }
	od
}

active proctype quiet()
{
	atomic { timeout ->
		assert(stopped || (phase == STREAM && connected && next == N + 1 && to[0] == 0));
		assert(!stopped || mood == ANOTHER);
		for (s : 1 .. N) {
			fold(FOLDED, row[s])
		}
		s = 0;
		assert(stopped || (rec[0] == rec[FOLDED + 0] && rec[1] == rec[FOLDED + 1] && rec[2] == rec[FOLDED + 2]))
	}
}
