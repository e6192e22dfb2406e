/*
 * One repository whose commits arrive by two subscriptions with the same target.
 *
 * Both are relays, at level chain, or one is a relay and the other a Jetstream.  Each delivers the account's messages in their
 * order, and leaves out any of them.  A source may also invent a commit, or send #sync in place of a commit.  Consumers apply
 * batches, hold events that wait for the other source, and release them; each transaction is one step.  The read of held events
 * and the transaction that applies them are two.  A transaction may be one step although it reads the row first and writes it
 * later: the write fails if the row has changed, and whoever changes held events has written the row (asserted below).  A kill
 * is left out: all that a process has in memory is a batch, which it reads again.
 *
 * Left out: status of the account, refill and letters (letters.pml); levels that differ and what they leave to one another
 * (held_by.c), signatures, exports, limits of held events, three and more sources.  Two Jetstreams have no chain: sources.md
 * says what they lose.
 *
 * short: -DN=3 -DBATCH=1 -DANY=0
 * long: -DN=3 -DBATCH=2 -DANY=1
 * large: the short form takes longer than its compilation
 *
 * N commits, BATCH messages in a batch of the stream; ANY: any operations on two records, otherwise a few that matter.
 *
 * Invariants:
 * - synchronized is true: the records are the account's at the revision.
 * - partial is true: no record is stored that the account has replaced or removed by a commit up to the revision; a record is
 *   missing only if its commit is older than first_rev, or if a Jetstream's #sync has removed it.
 * - An operation is applied once.
 * - Two sources that have all commits together, and wait for each other, leave the repository synchronized at the last commit;
 *   an invented commit does not change that.
 * - Whatever a source has delivered is in the tables at the end, or the repository is desynchronized.
 * - Whoever holds an event waits for something: the first held event is one that the other source may complete; when the time
 *   is over, no event is held.  hold says gap exactly as long as events are held.
 * - Events are held and removed only by a transaction that writes the repository's row.
 *
 * Exceptions, each named where it is allowed (look()), and on the page sources.md:
 * - what only a Jetstream has sent from before the relay's first commit is lost;
 * - what a Jetstream has left out of a commit, of which the relay has nothing;
 * - a commit that neither source has sent, if the relay sends the next commit when the Jetstream's events of that commit, or of a
 *   later one, were applied already: that commit's since is not compared with anything.
 *   The root from before the Jetstream's events, if it were kept, would tell only where these are of one revision: with events of
 *   two, prevData of the relay's commit differs from it also if nothing is missing.
 *
 * step judge: tables/repos/admission.c judge_event()
 * step stops: tables/repos/hold.c atp_hold_stops()
 * step awaits: tables/repos/admission.c awaits_others()
 * step take: tables/repos/repo_effect.c take_commit()
 * step continuity: tables/repos/repo_effect.c check_continuity()
 * step loss: tables/repos/repo_effect.c tells_of_loss()
 * step paths: tables/repos/repo_effect.c paths_with()
 * step begin: tables/repos/admission.c follow_released()
 * step verdict: tables/repos/hold.c atp_hold_take_verdict()
 * step finish: tables/repos/admission.c atp_admission_end()
 * step queue: tables/repos/held.c atp_held_release()
 * step read_batch: tables/apply/release_find.c read_events()
 * step gone: tables/apply/release_progress.c lock_held()
 * step cache: tables/repos/repo.c make_rev_entries()
 * step known: stream/rev_cache.c atp_rev_cache_is_old()
 *
 * guard touched: a second event of the repository is held; the row is not written, so another consumer does not see the change
 * guard continues: a commit waits behind an invented one, although it continues the repository
 * guard older: the #sync that a held commit waits for waits behind that commit
 * guard closes: the missing commit comes, and the event that waits for it goes on waiting
 * guard unread: an event is held between the read of a release and its transaction; nobody looks at it
 * guard unread_waits: a relay's commit is held between the read of a release and its transaction; the Jetstream's next event overtakes it
 * guard part_waits: a Jetstream's event is applied before the relay's commit of the same revision, which proves the repository
 * guard known: the relay's commit applies an operation again that the Jetstream has brought
 * guard rest: the relay's commit of a revision whose operations the Jetstream has brought in part is passed over as old
 * guard anew_next (-DREVERSE -DT_REVERSE): the relay's next commit comes before the records that follow a Jetstream's #sync: they are old, and missing
 * guard anew_rest (-DREVERSE -DT_REVERSE): the relay's commit of the revision of a Jetstream's #sync comes before the records: likewise
 * guard downgrade: a Jetstream's event leaves a repository synchronized, although commits before it may be missing
 * guard floor: the cache says that a commit from before the first one is known, so the records of the commit are missing silently
 * guard lacks: a commit from before the first one is old, so its records are missing silently
 * guard overtaken: a relay's commit that a Jetstream's later event has overtaken is old, and its records are missing silently
 *
 * mark BEGIN: revision, 1 or 2, 0: the first marks of a repository.  1: the commit before this revision is the one that the trace shows before it; 2: it
 *   is none of the trace.  Said of events that were held, whose bytes say it; of others it is chosen.  The last of these marks has 0, 0
 * mark HOLD: source, revision, 0: a row of held_event was inserted in a transaction with STREAM (in the order of the stream)
 * mark STREAM: source, revision, state: a transaction that moved the source's cursor has changed the row's revision, sync or hold, or
 *   has inserted held events; state = sync + 4 * (hold is not null) + 8 * number of held events after it
 * mark RELEASE: number of held events removed, revision, state: a transaction without a cursor has done so
 */
#include "observe.h"

#define HOLD 1
#define STREAM 2
#define RELEASE 3
#define BEGIN 4
#ifdef TRACE
/* the choices of a trace come between what one transaction does */
#define hidden
#endif

/* what a message does to a record */
#define PUT 1
#define DEL 2

/* the column sync */
#define PARTIAL 0
#define DESYNC 1
#define SYNCED 2

/* kinds of sources */
#define RELAY 0
#define JETSTREAM 1

/*
 * Revisions: commit k of the account has the revision 2k; an invented commit after commit k has 2k + 1.
 * A message of commit k has a place among the messages of a source: the whole commit or the operation on record 0; the
 * operation on record 1, or the invented commit after commit k; the #sync at k.
 */
#define PLACE(k, part) (3 * ((k) - 1) + (part))
#define WHOLE 0
#define LIE 1
#define SYNC 2

/* sets of places */
#ifdef TRACE
typedef Set { byte at[3 * N] }
#define HAS(set, i) (set.at[i])
#define INCLUDE(set, i) set.at[i] = 1
#define EXCLUDE(set, i) set.at[i] = 0
#else
#define Set short
#define HAS(set, i) ((set >> (i)) & 1)
#define INCLUDE(set, i) set = set | (1 << (i))
#define EXCLUDE(set, i) set = set & ~(1 << (i))
#endif

/* the account: operations of each commit, and the records after it (the commit that wrote each of them; 0: no record) */
byte op[2 * N + 2];
byte truth[2 * N + 2];
#define OP(k, p) op[2 * (k) + (p)]
#define TRUTH(k, p) truth[2 * (k) + (p)]
#ifdef TRACE
#define SAME_TREE(i, j) ((i) == (j))
#else
#define SAME_TREE(i, j) (TRUTH(i, 0) == TRUTH(j, 0) && TRUTH(i, 1) == TRUTH(j, 1))
#endif

/* the sources */
byte kind[2];
byte mood;				/* what the sources do besides leaving out messages */
#define HONEST 0
#define LYING 1				/* the second source invents a commit */
#define SYNCING 2			/* a source sends #sync in place of a commit */
byte pos[2];				/* the next commit of the stream */
byte next_part[2];			/* a Jetstream: the next operation of this commit */
short anew[2];				/* a Jetstream: bit k: it has sent #sync at k, and then all records */
bool had_sync, lied;

/* the row of the table repo */
NUMBER rev;				/* 0: none */
byte sync;
NUMBER first;				/* first_rev; 0: none */
NUMBER data;				/* the commit whose tree is known; 0: none */
byte paths;				/* rev_paths: 0: NULL */
#define SOME 1
#define FRESH 2
#define APPLIED(p) (4 << (p))
bool hold;				/* gap, or NULL */

/* the table record */
NUMBER rec_rev[2];			/* 0: no record */
NUMBER rec_val[2];			/* the commit whose value the record has */

/* the table held_event; gap: why = gap, otherwise why = order */
Set held[2];
Set gap[2];
bool queued;				/* the queue held_release */

/* shared memory, the revision cache: what an entry of any earlier state would say; bit k: commit k is known; no older #sync counts */
short cache;
NUMBER cache_rev;

/* the consumers: a batch of held events */
Set batch[4];				/* consumer t: the events of source s, at 2t + s */
bool reading[2];			/* it has read a batch */
bool took[2];				/* with all rows of the queue that there are */

/* what the invariants need to know; bit k: of commit k */
short delivered;			/* a relay has sent the whole commit */
short in_part;				/* a Jetstream has sent an operation */
short done[2];				/* the operation on this record was applied */
short late;				/* the relay has sent the commit when the Jetstream's of the same or a later revision was applied */
NUMBER began_anew;			/* the #sync of a Jetstream at this commit was applied */
byte again[2];				/* a Jetstream has sent the record after the #sync at this commit; 0: it has not */
bool over;				/* events that wait for another source have waited long enough */
bool gave_up;				/* an event did not wait for another source, or no longer */
NUMBER began;				/* first_rev when the repository began; 2: with the account's first commit */

/* the choices of the environment for a transaction; zero between transactions */
byte what[2];
NUMBER patient;				/* events of earlier commits wait no longer for another source */
byte messages;

/* of one transaction */
hidden NUMBER i, k, p, m, n, src;
hidden NUMBER list[6 * N], from[6 * N];
hidden NUMBER e_rev, e_since, e_floor;
hidden byte e_part, e_sync, e_held, e_has_since, e_old, e_rest, e_lacks, e_wants, e_holds, e_gap, e_lie, e_known, e_sync_before;
hidden NUMBER n_before;
hidden NUMBER h_n, h_first, h_unread, h_gone;
hidden byte h_any, h_waits, h_stays, h_adds, h_follows, h_judged, h_stale, closes, changed;

#ifdef TRACE
byte before[N + 2];			/* does the commit before commit k appear in the trace?  1: yes, 2: no, it is the place LIE of commit k - 1; 0: not chosen yet */
byte lacking;				/* chosen: do the tables lack a record of the commit? */
#define OTHER_RELAY true
#define UNKNOWN_BEFORE false
#define FITS (e_since == rev)
#define LACKS(q) lacking
#define GHOST(x) skip
#else
#define OTHER_RELAY (kind[1 - src] == RELAY)
#define UNKNOWN_BEFORE e_lie
#define FITS (data != 0 -> SAME_TREE(e_since / 2, data) : e_since == rev)
/* atp_records_lack() for the operation of commit k on record q */
#define LACKS(q) (OP(k, q) != 0 && ((rec_rev[q] != 0 && rec_rev[q] < e_rev) || (rec_rev[q] == 0 && OP(k, q) == PUT)))
#define GHOST(x) x
#endif

/* the message at place i of source src becomes an event */
inline decode()
{
	k = i / 3 + 1; p = i % 3;
	e_sync = p == SYNC;
	e_part = kind[src] == JETSTREAM;
	e_lie = !e_part && p == LIE;
	e_rev = 2 * k + e_lie;
#ifdef TRACE
	e_has_since = !e_sync && (k > 1 || e_lie || before[k] == 2);
	e_since = (e_lie -> 2 * k : (before[k] == 2 -> 2 * k - 1 : 2 * k - 2))
#else
	e_has_since = !e_part && !e_sync && (k > 1 || UNKNOWN_BEFORE);
	e_since = (e_lie -> 2 * k : 2 * k - 2)
#endif
}

/* are there held events that this batch lacks? */
#define UNREAD (e_held && h_unread > 0)

/* judge_event(), without the question whether the wait goes on (e_wants) */
inline judge()
{
	e_holds = false; e_gap = false; e_wants = false;
	e_old = rev != 0 && (e_rev < rev || (e_rev == rev && (
#ifdef WITHOUT_rest
		true ||
#endif
		paths == 0 || e_sync)));
	if
	:: e_old
	:: else ->
		if
		/* stops */
		:: h_stays -> e_holds = true
#ifndef WITHOUT_unread_waits
		:: !h_stays && UNREAD && e_rev > h_first && !(e_has_since && !UNKNOWN_BEFORE && e_since == rev) -> e_holds = true
#endif
		:: else ->
			if
			:: e_held || !h_waits
			:: else ->
				if
#ifndef WITHOUT_older
				:: e_rev <= h_first
#endif
#ifndef WITHOUT_continues
				:: e_has_since && !UNKNOWN_BEFORE && e_since == rev
#endif
				:: else -> e_holds = true
				fi
			fi
		fi;
		/* awaits */
		e_wants = !e_holds && OTHER_RELAY && (
#ifndef WITHOUT_part_waits
			(e_part && (rev == 0 || e_rev > rev)) ||
#endif
			(!e_part && !e_sync && rev != 0 && e_has_since && e_rev > rev && (UNKNOWN_BEFORE || e_since > rev)))
	fi
}

inline put(q, r, v)
{
	if
	:: rec_rev[q] <= (r) -> rec_rev[q] = (r); rec_val[q] = (v)
	:: else
	fi
}

inline drop(q, r)
{
	if
	:: rec_rev[q] <= (r) -> rec_rev[q] = 0; rec_val[q] = 0
	:: else
	fi
}

/* the operation of commit k on record q */
inline operate(q)
{
	if
	:: OP(k, q) == 0
#ifndef WITHOUT_known
	:: e_rest && !e_part && (paths & APPLIED(q))
#endif
	:: else ->
		assert(!(done[q] & (1 << k)));
		done[q] = done[q] | (1 << k);
		if
		:: OP(k, q) == PUT -> put(q, e_rev, k)
		:: else -> drop(q, e_rev)
		fi
	fi
}

/* take_commit() of an event that changes nothing */
inline pass()
{
	/* loss */
	e_floor = (sync != SYNCED -> first : 0);
	e_lacks = LACKS(0) || LACKS(1);
	if
#ifndef WITHOUT_lacks
	:: !e_part && !e_sync && e_rev < e_floor && (e_lie || e_lacks) -> changed = changed || sync != DESYNC; sync = DESYNC
#endif
#ifndef WITHOUT_overtaken
	:: !e_part && paths != 0 && e_rev < rev && (e_sync || e_lacks) -> changed = changed || sync != DESYNC; sync = DESYNC
#endif
	:: else
	fi
}

/* judge_commit(), and what a #sync says */
inline compare()
{
	if
	:: !e_sync && e_rest ->
		/* the rest of a commit that came in separate messages */
		if
#ifndef WITHOUT_anew_rest
		:: !e_part && (paths & FRESH) -> sync = DESYNC
#endif
		:: else
		fi
	:: !e_sync && !e_rest && e_part ->
		if
#ifndef WITHOUT_downgrade
		:: sync == SYNCED -> sync = PARTIAL
#endif
		:: else
		fi
	:: !e_sync && !e_rest && !e_part ->
		if
		:: rev == 0 -> if :: !e_has_since -> sync = SYNCED :: else fi
#ifndef WITHOUT_anew_next
		:: rev != 0 && (paths & FRESH) -> sync = DESYNC
#endif
		:: else ->
			/* check_continuity(): the trees, or else the revisions */
			if
			:: !UNKNOWN_BEFORE && e_has_since && FITS
			:: else -> sync = DESYNC
			fi
		fi
	:: e_sync && e_part ->
		/* all records follow; the state says that one may be missing */
		began_anew = k;
		if
		:: rev != 0 -> drop(0, rev); drop(1, rev)
		:: else
		fi;
		sync = PARTIAL
	:: e_sync && !e_part ->
		if
		:: rev == 0 || data == 0 || !SAME_TREE(data, k) -> sync = DESYNC
		:: else
		fi
	fi
}

/* take_commit() */
inline take()
{
	e_rest = rev != 0 && e_rev == rev;
	if
	:: !e_part && (e_old || e_rest) -> GHOST(late = late | (1 << k))
	:: else
	fi;
	if
	:: e_old || (e_part && !e_sync && e_rest && (paths & APPLIED(p))) -> pass()
	:: else ->
		changed = true;
		/* the order of revisions, unless the commit proves that no other one comes before it */
		n_before = 0;
		do
		:: n_before < i && !(e_has_since && !UNKNOWN_BEFORE && e_since == rev) ->
			assert(!HAS(held[0], n_before) && !HAS(held[1], n_before) || n_before / 3 + 1 == k);
			n_before++
		:: else -> break
		od;
		compare();
		if
		:: rev == 0 -> first = e_rev + e_sync; began = first
		:: rev != 0 && paths != 0 && !e_part && !e_sync -> first = e_rev
		:: else
		fi;
		rev = e_rev;
#ifndef WITHOUT_closes
		closes = closes || (h_any && !e_held);
#endif
		/* the rows */
		if
		:: e_sync
		:: e_lie && !e_sync -> put(0, e_rev, 0)
		:: e_part && !e_sync ->
			if
			:: anew[src] & (1 << k) -> put(p, e_rev, TRUTH(k, p))
			:: else -> operate(p)
			fi
		:: else -> operate(0); operate(1)
		fi;
		if
		:: !e_rest || !e_part -> data = (e_part || e_lie -> 0 : k)
		:: else
		fi;
		if
		:: !e_part -> paths = 0
		:: e_part && e_sync -> paths = SOME | FRESH
		:: else -> paths = ((e_rest -> paths : 0) | SOME | APPLIED(p))
		fi
	fi
}

/* pass_over(): the event waits, or waits on */
inline note_held()
{
	if
	:: !e_held ->
		/* a commit that continues the repository waits for nothing */
		assert(!(e_has_since && !UNKNOWN_BEFORE && e_since == rev));
		h_any = h_any || e_gap;
		if
		:: e_gap -> h_first = (h_waits && h_first < e_rev -> h_first : e_rev)
		:: else
		fi;
		if
		:: HAS(held[src], i)		/* ON CONFLICT DO NOTHING; unreached: a stream does not go back */
		:: else ->
			h_adds++;
			INCLUDE(held[src], i);
			OBSERVE(HOLD, src, e_rev / 2, 0)
		fi
	:: else -> h_stays = true
	fi;
	/* atp_held_set_why() */
	if
	:: e_gap -> INCLUDE(gap[src], i)
	:: else
	fi;
	h_waits = true
}

/* atp_repos_take() for one event */
inline process()
{
	judge();
	if
	:: e_wants && (k >= patient || UNREAD) -> e_gap = true; e_holds = true
	:: e_wants && !(k >= patient || UNREAD) -> gave_up = true
	:: else
	fi;
	if
	:: e_holds -> note_held()
	:: else -> take()
	fi;
	if
	:: e_held ->
		/* atp_hold_take_verdict() */
		if
		:: !e_holds -> h_n--; h_gone++; EXCLUDE(held[src], i); EXCLUDE(gap[src], i)
		:: else
		fi;
#ifndef WITHOUT_unread
		closes = closes || h_unread > 0
#endif
	:: else
	fi
}

/* find_held(), follow_released(); e_held: the list has held events */
inline begin()
{
	h_n = 0; h_first = 0; h_gone = 0;
	h_any = false; h_stays = false; h_adds = 0;
	closes = false; changed = false;
	m = 0;
	do
	/* only the column hold says that there are some */
	:: hold && m < 6 * N ->
		src = (m / 3) % 2; i = 3 * (m / 6) + m % 3;
		if
		:: HAS(held[src], i) ->
			decode();
			h_n++;
			h_first = (h_first == 0 || e_rev < h_first -> e_rev : h_first);
			h_any = h_any || HAS(gap[src], i)
		:: else
		fi;
		m++
	:: else -> break
	od;
	h_waits = h_n > 0;
	h_follows = e_held && n > 0;
	h_judged = h_follows;
	h_unread = 0;
	if
	:: h_follows ->
		h_unread = h_n - n;
		src = from[0]; i = list[0];
		decode();
		h_stays = h_n == 0 || e_rev != h_first
	:: else
	fi
}

/* atp_admission_end(), atp_repos_store(), after_apply() */
inline finish()
{
#ifndef WITHOUT_touched
	changed = changed || h_stays || h_adds > 0 || h_follows;
#endif
	if
	:: closes && (h_n + h_gone + h_adds) > 0 -> queued = true; took[0] = false; took[1] = false
	:: else
	fi;
	if
	:: h_stays || h_adds > 0 || h_n > 0 -> changed = changed || !hold; hold = true
	:: else ->
		if :: hold && !h_judged -> sync = DESYNC /* unreached: only a session removes held events unjudged */ :: else fi;
		changed = changed || hold;
		hold = false
	fi;
	assert(changed || h_adds + h_gone == 0)
}

inline check(q)
{
	assert(sync != SYNCED || rec_val[q] == TRUTH(rev / 2, q));
	assert(sync != PARTIAL || kind[1] == JETSTREAM || rev == 0 || rec_val[q] == TRUTH(rev / 2, q) ||
		(rec_val[q] == 0 && 2 * TRUTH(rev / 2, q) < first))
}

inline add(place)
{
	list[n] = place; from[n] = src; n++
}

/* the batch of held events, in the order of revisions, then of subscriptions, then of the stream: a #sync comes before its records */
inline decode_held(t)
{
	n = 0; m = 0; h_stale = false;
	do
	:: m < 6 * N ->
		src = (m / 3) % 2;
		i = 3 * (m / 6) + (m + 2) % 3;
		if
		:: HAS(batch[2 * t + src], i) ->
			h_stale = h_stale || !HAS(held[src], i);
			EXCLUDE(batch[2 * t + src], i);
			add(i)
		:: else
		fi;
		m++
	:: else -> break
	od
}

/* the events of the list */
inline apply(t)
{
	begin();
	m = 0;
	do
	:: m < n ->
		i = list[m]; src = from[m];
		decode();
		e_known = !e_held && !e_part && (e_sync -> e_rev < cache_rev : !e_lie && ((cache >> k) & 1));
		e_sync_before = sync;
		process();
		/* a message that the cache knows is passed over at once: it would change nothing */
		assert(!e_known || (e_old && sync == e_sync_before));
		m++
	:: else -> break
	od;
	finish()
}

#ifdef TRACE

#define STATE (sync + 4 * hold + 8 * (h_n + h_adds))

/* any message, of the commit that the next mark names, or of the commit after the repository's */
inline deliver()
{
	PEEK;
	if
	:: c = next_b
	:: (next_step == HOLD || rev / 2 + 1 < next_b) && rev / 2 < N -> c = rev / 2 + 1
	fi;
	if
	:: before[c] == 0 -> if :: before[c] = 1 :: before[c] = 2 fi
	:: else
	fi;
	if
	:: rev >= 2 * c && first > 2 * c -> lacking = true
	:: true
	fi;
	/* an event that waits leaves a mark */
	patient = (next_step == HOLD && c == next_b -> 0 : N + 1);
	if
	:: i = PLACE(c, WHOLE)
	:: c == next_b -> i = PLACE(c, SYNC)
	/* the commit before it, which does not appear */
	:: before[c] == 2 && c > 1 && rev < 2 * c - 1 -> i = PLACE(c - 1, LIE)
	fi;
	src = s;
	decode();
	process();
	i = 0; src = 0; k = 0; p = 0; m = 0; c = 0; e_rev = 0; e_lie = 0; e_sync = 0; e_since = 0; e_floor = 0; e_has_since = 0; e_old = 0; e_rest = 0; e_lacks = 0;
	e_wants = 0; e_holds = 0; e_gap = 0; n_before = 0; lacking = false; patient = 0; gave_up = false;
	PEEK
}

inline read_batch(t)
{
	n = 0;
	do
	:: n < 3 * N ->
		batch[2 * t].at[n] = held[0].at[n]; batch[2 * t + 1].at[n] = held[1].at[n];
		n++
	:: else -> break
	od;
	n = 0
}

inline forget()
{
	k = 0; p = 0; m = 0; e_rev = 0; e_since = 0; e_floor = 0; e_part = 0; e_sync = 0; e_held = 0; e_has_since = 0; e_old = 0; e_rest = 0;
	e_lacks = 0; e_wants = 0; e_holds = 0; e_gap = 0; e_lie = 0; e_known = 0; e_sync_before = 0; n_before = 0; h_first = 0; h_unread = 0;
	h_any = 0; h_waits = 0; h_stays = 0; h_follows = 0; h_judged = 0; h_stale = 0; closes = 0; changed = 0;
	h_n = 0; h_gone = 0; h_adds = 0; n = 0; i = 0; src = 0; c = 0; s = 0; patient = 0; queued = false; gave_up = false;
	took[0] = false; took[1] = false; PEEK
}

/* the transactions that the trace shows */
active proctype shown()
{
	NUMBER s, c;

	atomic {
		PEEK;
		do
		:: next_step == BEGIN && next_a != 0 -> before[next_a] = next_b; OBSERVE(BEGIN, next_a, next_b, 0); PEEK
		:: next_step == BEGIN && next_a == 0 -> OBSERVE(BEGIN, 0, 0, 0); PEEK; break
		od
	}
	do
	:: atomic {
		next_step == HOLD || next_step == STREAM ->
		s = next_a;
		e_held = false;
		begin()
	   };
		/* not atomic: messages that change nothing lead to a state that is known */
		do
		:: atomic { deliver() }
		:: changed || h_adds > 0 -> break
		od;
		skip;
		d_step { finish(); OBSERVE(STREAM, s, rev / 2, STATE); forget() }
	:: atomic {
		next_step == RELEASE ->
		/* of the held events, those up to one of them have waited long enough */
		if
		:: patient = 0
		:: patient = 1;
			do
			:: patient <= N && (HAS(held[0], PLACE(patient, WHOLE)) || HAS(held[1], PLACE(patient, WHOLE))) -> patient++; break
			:: patient <= N -> patient++
			:: patient > N -> break
			od
		fi;
		if
		:: lacking = true
		:: true
		fi;
		d_step {
			e_held = true;
			decode_held(s);
			if
			:: !h_stale -> apply(s); OBSERVE(RELEASE, h_gone, rev / 2, STATE)
			:: else
			fi;
			lacking = false;
			forget()
		}
	   }
	/* a consumer reads held events; of two that do so at the same time, one finds that the other has released them */
	:: d_step { hold && next_step != 0 -> read_batch(0) }
	od
}

#else

/* what the environment decides for one message, or for one that is left out, of stream s */
#define HOLE 1
#define COMMIT 2
#define WITH_LIE 3
#define SYNC_THERE 4
inline choose(w, s, begins)
{
	if
	:: w = HOLE
	:: w = COMMIT
	:: mood == LYING && s == 1 && !lied -> w = WITH_LIE; lied = true
	:: mood == SYNCING && !had_sync && (kind[s] == RELAY || begins) -> w = SYNC_THERE; had_sync = true
	fi
}

/* the next messages of the stream */
inline receive(s)
{
	n = 0; src = s; m = 0;
	do
	:: m < 2 && what[m] != 0 ->
		k = pos[s];
		if
		:: kind[s] == RELAY ->
			if
			:: what[m] == COMMIT || what[m] == WITH_LIE ->
				delivered = delivered | (1 << k);
				add(PLACE(k, WHOLE))
			:: what[m] == SYNC_THERE -> add(PLACE(k, SYNC))
			:: else
			fi;
			if
			:: what[m] == WITH_LIE -> add(PLACE(k, LIE))
			:: else
			fi;
			pos[s]++
		:: else ->
			if
			:: what[m] == SYNC_THERE -> anew[s] = anew[s] | (1 << k); add(PLACE(k, SYNC))
			:: else
			fi;
			p = next_part[s];
			if
			:: what[m] == HOLE
			:: what[m] != HOLE && ((anew[s] & (1 << k)) -> TRUTH(k, p) : OP(k, p)) == 0
			:: else ->
				add(PLACE(k, p));
				if
				:: anew[s] & (1 << k) -> again[p] = k
				:: else -> in_part = in_part | (1 << k)
				fi
			fi;
			next_part[s] = 1 - p;
			pos[s] = pos[s] + p
		fi;
		m++
	:: else -> break
	od
}

/* read_named(), read_events() */
inline read_batch(t)
{
	reading[t] = true;
	took[t] = queued;
	batch[2 * t] = held[0]; batch[2 * t + 1] = held[1]
}

proctype consumer(byte s)
{
end_loop:
	do
	:: atomic {
		reading[s] || pos[s] <= N ->
		if
		:: reading[s] -> select(patient : 1 .. N + 1)
		:: !reading[s] ->
			do
			:: messages < BATCH && (messages == 0 || pos[s] < N || (kind[s] == JETSTREAM && next_part[s] == 0)) ->
				choose(what[messages], s, (next_part[s] + messages) % 2 == 0);
				messages++
			:: messages > 0 -> break
			od;
			messages = 0;
			if
			:: kind[1 - s] == RELAY -> patient = 0
			:: patient = N + 1
			fi
		fi;
		d_step {
			e_held = reading[s];
			if
			:: e_held -> decode_held(s)
			:: else -> receive(s)
			fi;
			if
			:: e_held && h_stale
				/* lock_held(): another process has released them */
			:: else ->
				apply(s);
				/* atp_release_forget_named() */
				if
				:: e_held && took[s] -> queued = false
				:: else
				fi;
				if
				:: rev != 0 && paths == 0 ->
					cache_rev = rev;
					k = (sync != SYNCED -> (first + 1) / 2 : 0);
#ifdef WITHOUT_floor
					k = 0;
#endif
					cache = cache | ((2 << (rev / 2)) - (1 << k))
				:: else
				fi;
				assert(hold == ((held[0] | held[1]) != 0));
				check(0); check(1)
			fi;
#ifdef SHOW
			printf("%d held %d: n %d first %d.%d of %d: rev %d sync %d first %d data %d paths %d hold %d held %d %d gap %d %d record %d=%d %d=%d gave up %d queued %d\n",
				s, e_held, n, list[0] / 3 + 1, list[0] % 3, from[0], rev, sync, first, data, paths, hold, held[0], held[1], gap[0], gap[1],
				rec_rev[0], rec_val[0], rec_rev[1], rec_val[1], gave_up, queued);
#endif
			reading[s] = false; took[s] = false;
			what[0] = 0; what[1] = 0; patient = 0
		}
	   }
	/* the queue, or a time limit */
	:: atomic { !reading[s] && (queued || (over && (gap[0] | gap[1]) != 0)) -> read_batch(s) }
	od
}

active proctype clock()
{
	if
	:: over = true
	:: true
	fi
}

/* record q at the end, unless the repository is desynchronized: if it is not the account's, the last operation on it was lost */
inline look(q)
{
	k = rev / 2;
	if
	:: rec_val[q] != TRUTH(k, q) ->
		do
		:: OP(k, q) != 0 -> break
		:: else -> k--
		od;
		assert(!(delivered & (1 << k)) || (anew[1] >> k));
		/* a record that has followed a Jetstream's #sync, which was applied */
		assert(again[q] == 0 || again[q] != began_anew || TRUTH(again[q], q) != TRUTH(rev / 2, q));
		/* no chain shows that: the record is older than the first commit; or the relay has not sent the next commit; or the
		   Jetstream was ahead of the relay; or the Jetstream has sent another operation of the commit */
		assert((rec_val[q] == 0 && 2 * k < first) || !(delivered & (2 << k)) || (late & (2 << k)) || (in_part & (1 << k)))
	:: else
	fi
}

active proctype monitor()
{
	atomic {
		timeout ->
		d_step {
			if
			:: !gave_up && began <= 2 && !had_sync && !lied && delivered == ((1 << (N + 1)) - 2) -> assert(sync == SYNCED && rev / 2 == N)
			:: else
			fi;
			if
			:: held[0] | held[1] ->
				/* the first of them waits for the other source */
				assert(!over);
				e_held = true; n = 0;
				begin();
				m = 0;
				do
				:: src = (m / 3) % 2; i = 3 * (m / 6) + m % 3;
					if
					:: HAS(held[src], i) ->
						decode();
						if
						:: e_rev == h_first -> break
						:: else
						fi
					:: else
					fi;
					m++
				od;
				judge();
				assert(e_wants)
			:: else ->
				if
				:: sync != DESYNC && rev != 0 -> look(0); look(1)
				:: else
				fi
			fi
		}
	}
}

init
{
	byte c = 1, r;

	atomic {
		pos[0] = 1; pos[1] = 1;
		if
		:: kind[1] = RELAY
		:: kind[1] = RELAY; mood = LYING
		:: kind[1] = RELAY; mood = SYNCING
		:: kind[1] = JETSTREAM
		:: kind[1] = JETSTREAM; mood = SYNCING
		fi;
		do
		:: c <= N ->
			r = 0;
			do
			:: r < 2 ->
				if
				/* not ANY: +a; -a +b; +a */
				:: TRUTH(c - 1, r) != 0 && (ANY || c == 2) -> OP(c, r) = DEL; TRUTH(c, r) = 0
				:: ANY || (c + r) % 2 == 1 -> OP(c, r) = PUT; TRUTH(c, r) = c
				:: (r == 1 && OP(c, 0) != 0 && (ANY || c != 2)) || (ANY && r == 0 && c > 1) -> OP(c, r) = 0; TRUTH(c, r) = TRUTH(c - 1, r)
				fi;
				r++
			:: else -> break
			od;
			c++
		:: else -> break
		od;
		c = 0; r = 0;
		run consumer(0); run consumer(1)
	}
}
#endif
