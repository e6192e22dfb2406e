/*
 * One repository that two relays fill, both at level chain: dead letters and retry(), refill() of one source while the other
 * runs, a cursor that jumps, and #account events of two sources.
 *
 * The repository has a record that matters.  Each relay delivers the account's commits and #account events in their order, and leaves
 * out any of them; read again, it leaves out others.  A batch is one message, and each transaction is one step.  The record of
 * a commit may be invalid, or the database may refuse its row or the commit as a whole: then there is a letter, which retry()
 * tries when it likes, with success.  An audit compares the record with the tree of the last commit.
 *
 * Left out: what sources.pml has (Jetstreams, #sync, invented commits, a release that is read before it is applied); level full
 * (held.pml, repository.pml); exports and letters about them; limits; clocks that are wrong; a user's
 * trigger that refuses the row of the repository when the record is written (the tables then have a record beyond the revision,
 * and a letter).  A kill is left out, because all
 * that a process has in memory is a batch, which it reads again.
 *
 * short: -DN=3 -DEXTRA=2 -DANY=0
 * long: -DN=3 -DEXTRA=3 -DANY=1
 * large: the short form takes longer than its compilation
 *
 * N commits, ANY: of any kind, otherwise of a few kinds that matter; EXTRA of these happen: a letter, a refill of the first source, a jump of its cursor, an account that goes and comes back.
 *
 * Invariants:
 * - synchronized is true: the record is the account's at the revision.
 * - Unless the repository is desynchronized, no record is stored that a commit up to the revision has replaced or removed, or
 *   that went with the account; except while a refill has not come to the revision, or its cursor has jumped and the audit is
 *   not made, or while a letter says what is missing.
 * - Whatever a source has delivered is in the tables at the end, or has a letter, or the repository is desynchronized.
 * - The account's status is that of the latest #account event that any source has delivered.
 * - Nothing waits for ever: no event is held when the time is over, no repository is unproven, unless a refill waits for a commit
 *   that its source does not send (consumer.md says so).
 *
 * step judge: tables/repos/admission.c judge_event()
 * step take: tables/repos/repo_effect.c take_commit()
 * step account: tables/repos/repo_account.c atp_repo_take_account()
 * step passed_deletion: tables/repos/repo_account.c pass_deletion()
 * step reread: tables/repos/repo_refill.c atp_repo_take_reread()
 * step undo: tables/repos/repo_refill.c break_refill()
 * step add_letter: tables/repos/dead_letter.c store_letter()
 * step drop_letters: tables/apply/repos_sink.c drop_superseded_letters()
 * step retry: tables/apply/replay.c apply_event()
 * step replay: tables/apply/replay.c replay_row()
 * step refill: tables/commands/refill.c mark_repos()
 * step jump: tables/repos/held_leave.c end_refills()
 * step erase: tables/apply/repos_sink.c erase_repo()
 * step audited: tables/audit/audit_share.c write_results()
 *
 * guard late: a source has brought commit 1 and commit 2, which removes the record; the other source brings commit 1 with a letter, and retry() brings the record back
 * guard late_inactive: the same, but the account is deleted when the letter is written, and active when it is tried
 * guard superseded: commit 1 has a letter; another source brings commit 2, which removes the record; retry() brings it back
 * guard obsolete: the letter says so, and nobody looks
 * guard proven: both sources lose the commit that removes the record of a letter; an audit finds that nothing is missing; then retry() brings the record back
 * guard letter_of_refill: a refill writes a letter, and not yet the commit that removes its record; retry() brings it back, and the repository is not unproven
 * guard lacking: a letter is written for the record of a repository that is synchronized, and goes on to be called so
 * guard lacks: a source begins with commit 2; the other source brings commit 1, whose record is missing silently
 * guard lacks_inactive (-DREVERSE -DT_REVERSE): the same, while the account is not active
 * guard missed (-DREVERSE -DT_REVERSE): a commit that comes while the account is not active is missing silently
 * guard times: a source that is behind brings an older #account event, which replaces the newer one
 * guard unproven: a refill has put a record that a later commit removes; until it reaches this commit the repository is called partial
 * guard chain: a refill has put a record, and lacks the commit that removes it: the record stays
 * guard first (-DN=3 -DEXTRA=1 -DANY=1): a refill has read a commit that puts no record, and lacks the next commit with the record: the tables say that they have all commits since the first one, so the other source's commit with the record is passed over as old
 * guard reached (-DN=4 -DEXTRA=1 -DANY=1): the same, and the refill ends before it has come to the revision
 * guard beyond: the same, and the refill's next event is newer than the repository
 * guard jump: a refill has put a record, and its cursor jumps: the repository stays unproven for ever
 * guard refill_of_deleted: an account was deleted, and is active again without a commit; a refill brings back a record of before
 * guard hold (-DN=4 -DEXTRA=1 -DANY=0 -DREVERSE -DT_REVERSE): a deletion that comes late removes the last held event, and the repository goes on to be called held
 * guard rejudged (-DN=4 -DEXTRA=1 -DANY=0 -DREVERSE -DT_REVERSE): the same, and another event waited for the one that is removed: it is not judged again
 *
 * A trace shows one record that has letters, or is read again.  It does not show which commits a source has sent before one that
 * leaves a mark, what a commit does to the record and which commit it continues (unless the record or the letter says it), whether
 * the tables lack another record of the commit, and how long a held event waits: the model chooses these.
 *
 * mark BEGIN: revision, what it does, how it begins: the first marks of a record; 0: not known.  The last of them has revision 0, and
 *   whether the account goes, and whether it is deleted
 * mark STREAM: source + 2 * (letters were added) + 4 * (events were held), revisions, state: a transaction that moved the source's cursor.
 *   revisions = rev + 2^7 * the record's + 2^14 * refill_rev + 2^21 * deleted_rev; state = sync + 4 * status + 16 * (hold is not null)
 *   + 32 * (refill_by is not null) + 64 * refill_sync
 * mark RELEASE: whether letters were added, revisions, state: a transaction without a cursor has removed held events
 * mark RETRY: source + 2 * revision + 64 * (the letter is about the record), revisions, state: retry() of this letter
 * mark REFILL: 0, revisions, state: refill()
 * mark JUMP: 0, revisions, state: a refill was ended otherwise than by an event of the stream
 * mark AUDIT: 0, revisions, state: an audit has written its result
 * mark LETTERS: letters about the record, those superseded, letters about commits: after each of the transactions; bit k: of commit k,
 *   bit 15 + k: of the second source
 * mark HELD: held events, 0, 0: after LETTERS, bits likewise
 */
#include "observe.h"

#define STREAM 1
#define RELEASE 2
#define RETRY 3
#define REFILL 4
#define JUMP 5
#define AUDIT 6
#define LETTERS 7
#define HELD 8
#define BEGIN 9

#define PARTIAL 0
#define UNPROVEN 1
#define DESYNC 2
#define SYNCED 3
#define NONE 4

/* the account: its commits 1 to N; it goes after the commit went (0: never) and comes back before the next one */
byte went;
bool gone;				/* it was deleted, and begins a new repository */
#ifdef TRACE
/* the choices of a trace come between what one transaction does */
#define hidden
#define Set NUMBER
byte does[N + 1];		/* what commit k does to the record; 0: not chosen yet */
#define PUT 1
#define DEL 2
#define ELSE 3
byte begins[N + 1];		/* likewise, how it begins */
#define CONTINUING 1	/* commit k - 1 is before it */
#define UNKNOWN 2		/* a commit is before it that leaves no mark */
#define FIRST_ONE 3
bool lacking;			/* chosen: do the tables lack another record of the commit? */
bool removes;			/* chosen: does a commit of the same batch before it, which leaves no mark, remove the record? */
bool impatient;			/* chosen: does a commit wait for the other source? */
NUMBER letters_before, held_before;
byte at;				/* the place of the last message of this transaction */
#define OTHER(k) (does[k] == ELSE)
#define PUTS(k) (does[k] == PUT)
#define DELS(k) (does[k] == DEL)
#define WRITES(k) (!DELS(k))
#define SAME_TREE(a, b) ((a) == (b))
#define FIRST(k) (begins[k] == FIRST_ONE)
#define BEFORE(k) (begins[k] == CONTINUING -> (k) - 1 : 255)
#else
#define Set byte
#define lacking false
#define removes false
#define impatient (e_held && over)
byte value[N + 1];		/* after commit k: the commit that wrote the record; 0: there is no record */
byte removals;			/* bit k: commit k removes the record */
byte other[N + 1];		/* the last commit, up to k, that wrote another record */
#define OTHER(k) (other[k] == (k))
#define PUTS(k) (value[k] == (k))
#define WRITES(k) (PUTS(k) || OTHER(k))
#define DELS(k) ((removals >> (k)) & 1)
#define SAME_TREE(a, b) (value[a] == value[b] && other[a] == other[b])
#define FIRST(k) ((k) == 1 || (gone && (k) == went + 1))
#define BEFORE(k) ((k) - 1)
#endif
/* the place of commit k in a stream, which is also the time of the event; after commit `went` come two #account events */
#define PLACE(k) ((k) + (went != 0 && (k) > went -> 2 : 0))
#define LAST (N + (went != 0 -> 2 : 0))

/* the sources */
byte pos[2] = 1;

/* the row of the table repo */
byte rev;				/* 0: none */
byte sync;
byte first;				/* first_rev; 0: none */
byte data;				/* the commit whose tree is known */
bool hold;				/* gap */
byte status;			/* 0: active */
#define OFF 1
#define GONE 2
byte status_by;			/* source + 1; 0: none */
byte status_at;			/* time, and place in the stream */
byte deleted_rev;
bool refill_by;			/* the first source */
byte refill_rev, refill_data, refill_first, refill_to;
byte refill_sync = NONE;

/* the record: the commit that wrote it; indexed_at is not before refill_at */
byte rec;
bool again;

/* the table dead_letter, of each source; bit k: of commit k */
Set letter[2];			/* about the record */
Set superseded[2];
Set whole[2];			/* about the commit */

/* the table held_event; bit k: commit k */
Set held[2];
Set gap[2];			/* why = gap, otherwise why = order */
bool queued;			/* the queue held_release */

/* what only the invariants need */
Set delivered;			/* bit k: some source has sent commit k */
byte told;				/* the latest #account event that was sent */
bool suspect;			/* a jump has ended a refill, and no audit has come */
bool jumped;			/* the cursor has jumped since refill() */
byte extra;
byte ignored;			/* bit k: commit k came while the account was deleted */
bool missed;				/* a commit came while the account was not active: no audit knows of it */
bool over;

/* what the environment chooses for one transaction; 0 otherwise */
byte bad;				/* the commit that has a letter */
byte how;
#define INVALID 1
#define REFUSED 2
#define REFUSED_WHOLE 3
byte c;					/* counts */

/* of one transaction */
hidden byte k, src, i, h_first, h_n;
hidden Set m;
hidden byte e_held, e_old, e_holds, e_gap, e_late, e_inactive, e_misses, e_lacking, e_reread, e_passed, e_refused, e_replay, h_stays, h_gap, closes, undone;

#define EMPTY (rev == 0 || deleted_rev == rev)
#define DELETED (status == GONE && EMPTY)
#define REFILLED (refill_by && src == 0)
#define EXPECTED (EMPTY -> 0 : value[rev])
#define REST (((1 << (k)) - 1))
#define CONTINUES (!FIRST(k) && BEFORE(k) == rev)

inline count_held()
{
	h_n = 0; h_first = 0; m = 1; h_gap = (gap[0] | gap[1]) != 0;
	do
	:: m <= N ->
		if
		:: ((held[0] | held[1]) >> m) & 1 ->
			h_first = (h_first == 0 -> m : h_first);
			h_n++
		:: else
		fi;
		m++
	:: else -> break
	od
}

/* a letter about the record (INVALID, REFUSED) or the commit */
inline add_letter()
{
	if
	:: e_refused == REFUSED_WHOLE -> whole[src] = whole[src] | (1 << k)
	:: e_refused < REFUSED_WHOLE && !((letter[src] >> k) & 1) ->
		letter[src] = letter[src] | (1 << k);
		/* supersede_late() */
		if
#ifndef WITHOUT_late
		:: e_passed -> superseded[src] = superseded[src] | (1 << k)
#endif
		:: else -> superseded[src] = superseded[src] & ~(1 << k)
		fi
	:: else
	fi
}

/* drop_superseded_letters() of a commit that deletes the record */
inline drop_letters()
{
	if
	:: DELS(k) || removes ->
		letter[src] = letter[src] & ~REST;
#ifndef WITHOUT_superseded
		superseded[0] = superseded[0] | REST; superseded[1] = superseded[1] | REST;
#endif
		superseded[0] = superseded[0] & letter[0]; superseded[1] = superseded[1] & letter[1]
	:: else
	fi
}

/* the row of commit k */
inline write_row()
{
	if
	:: PUTS(k) && rec < k -> rec = k; again = refill_by
	:: DELS(k) && rec <= k && rec != 0 -> rec = 0; again = false
	:: else
	fi
}

inline begin_refill()
{
	if
	:: sync != UNPROVEN || refill_sync == NONE -> refill_sync = sync
	:: else
	fi;
	if
#ifndef WITHOUT_unproven
	:: sync == SYNCED || sync == PARTIAL -> sync = UNPROVEN
#endif
	:: else
	fi
}

inline end_refill()
{
	if
#ifndef WITHOUT_reached
	:: refill_first != 0 && refill_rev >= rev && refill_first < first -> first = refill_first
#else
	:: refill_first != 0 && refill_first < first -> first = refill_first
#endif
	:: else
	fi;
	if
	:: refill_sync != NONE && sync == UNPROVEN -> sync = refill_sync
	:: else
	fi;
	forget_refill()
}

inline forget_refill()
{
	refill_by = false; refill_rev = 0; refill_data = 0; refill_first = 0; refill_to = 0; refill_sync = NONE; again = false
}

/* break_refill(); the caller removes the record */
inline undo()
{
	sync = DESYNC;
	refill_sync = DESYNC;
	undone = (refill_rev < refill_to -> refill_rev : refill_to)
}

/* continues_refill() */
#define CONTINUES_REFILL (!FIRST(k) && (refill_data != 0 -> SAME_TREE(BEFORE(k), refill_data) : refill_rev == BEFORE(k)))

/* atp_repo_take_reread() */
inline reread()
{
	e_reread = false; undone = 0;
	if
	:: !REFILLED || e_replay
	:: REFILLED && !e_replay && k < rev && refill_rev != 0 && k <= refill_rev
	:: REFILLED && !e_replay && k > rev ->
		if
#ifndef WITHOUT_beyond
		:: refill_sync != NONE -> undo()
#endif
		:: else
		fi;
		end_refill()
	:: else ->
		e_reread = true;
		if
#ifndef WITHOUT_chain
		:: refill_sync != NONE && !CONTINUES_REFILL -> undo()
#endif
		:: else
		fi;
		if
		:: refill_first == 0 -> refill_first = k
#ifndef WITHOUT_first
		:: refill_first != 0 && !CONTINUES_REFILL -> refill_first = k
#endif
		:: else
		fi;
		if
		:: refill_sync != NONE || (WRITES(k) && e_refused != INVALID) -> begin_refill()
#ifndef WITHOUT_letter_of_refill
		:: refill_sync == NONE && e_refused == INVALID -> begin_refill()
#endif
		:: else
		fi;
		if
		:: e_lacking && (refill_sync == SYNCED || refill_sync == UNPROVEN) -> refill_sync = UNPROVEN
		:: else
		fi;
		refill_data = k; refill_rev = k;
		if
		:: k >= rev -> end_refill()
		:: else
		fi
	fi;
	if
	:: undone != 0 && rec != 0 && rec <= undone && again -> rec = 0; again = false
	:: else
	fi
}

/* judge_event() at level chain */
inline judge()
{
	e_holds = false; e_gap = false;
	e_old = rev != 0 && k <= rev && !e_replay;
	if
	:: (!e_old || REFILLED) && h_stays -> e_holds = true
	:: (!e_old || REFILLED) && !h_stays && !e_held && h_n > 0 && !(k <= h_first || CONTINUES) -> e_holds = true
	:: else ->
		if
		/* awaits_others() */
		:: !e_old && !e_replay && status == 0 && rev != 0 && !FIRST(k) && BEFORE(k) > rev && !impatient -> e_holds = true; e_gap = true
		:: else
		fi
	fi
}

/* atp_repo_is_inactive() */
inline judge_inactive()
{
	if
	:: status == 0 -> e_inactive = false
	:: status != 0 && (!e_held || DELETED) -> e_inactive = true
	/* by the place in the stream, or by the time */
	:: else -> e_inactive = PLACE(k) >= status_at
	fi;
	e_misses = !DELETED && !(rev != 0 && k <= rev)
}

/* tells_of_loss() */
#define LACKS (k < (sync != SYNCED && deleted_rev == 0 -> first : 0) && \
	(e_refused == INVALID || lacking || (!OTHER(k) && rec != 0 && rec < k) || (rec == 0 && PUTS(k))))

/* take_commit() */
inline take()
{
	e_passed = false;
	reread();
	if
	:: e_reread -> skip
	:: else ->
		judge_inactive();
		if
		:: e_inactive ->
#ifndef WITHOUT_late_inactive
			e_passed = true;
#endif
			ignored = ignored | (!e_replay && DELETED -> 1 << k : 0);
			if
#ifndef WITHOUT_missed
			:: !e_replay && e_misses -> sync = DESYNC; missed = true
#endif
#ifndef WITHOUT_lacks_inactive
			:: !e_replay && !DELETED && !e_misses && LACKS -> sync = DESYNC
#endif
			:: else
			fi
		:: !e_inactive && rev != 0 && k <= rev ->
			e_passed = true;
			if
#ifndef WITHOUT_lacks
			:: LACKS -> sync = DESYNC
#endif
			:: else
			fi
		:: else ->
			/* judge_commit() */
			if
			:: EMPTY && FIRST(k) -> sync = SYNCED
			:: !(EMPTY && FIRST(k)) && rev != 0 ->
				if
				:: !EMPTY && !FIRST(k) && SAME_TREE(BEFORE(k), data)
				:: else -> sync = DESYNC
				fi
			:: else
			fi;
			if
#ifndef WITHOUT_lacking
			:: e_lacking && sync == SYNCED -> sync = UNPROVEN
#endif
			:: else
			fi;
			first = (first == 0 && rev == 0 -> k : first);
			closes = closes || (h_gap && !e_held);
			rev = k; data = k
		fi
	fi
}

/* a commit of source src is applied, or passed over */
inline apply_commit()
{
	e_refused = (bad == k -> how : 0);
	bad = (e_refused != 0 -> 0 : bad);
	judge_inactive();
	/* are its rows written? */
	e_late = (e_inactive || (rev != 0 && k <= rev)) && !(REFILLED && !e_replay && rev != 0 && k <= rev && (k == rev || refill_rev == 0 || k > refill_rev));
	if
	:: e_late && e_refused > INVALID -> e_refused = 0
	/* left out: the database refuses the marks of a refill */
	:: !e_late && e_refused == REFUSED_WHOLE && rev != 0 && k <= rev -> e_refused = 0
	:: (e_refused == INVALID && !PUTS(k)) || (e_refused == REFUSED && OTHER(k)) -> e_refused = 0
	:: else
	fi;
	e_lacking = e_refused == INVALID || e_refused == REFUSED;
	if
	:: e_refused == REFUSED_WHOLE
	:: else ->
		take();
		if
		:: !e_late && e_refused == 0 -> write_row()
		:: else
		fi;
	fi;
	if
	:: e_refused != 0 -> add_letter()
	:: else
	fi;
	drop_letters()
}

/* take_account() of the #account event at place i */
inline account()
{
	told = (i > told -> i : told);
	/* letters of the deleted repository */
	if
	:: gone && i == went + 1 -> letter[src] = letter[src] & ~((2 << went) - 1); whole[src] = whole[src] & ~((2 << went) - 1); superseded[src] = superseded[src] & letter[src]
	:: else
	fi;
	if
	/* is_old_status() */
#ifndef WITHOUT_times
	:: status_by != 0 && i < status_at && (status_by != src + 1 || true) ->
#else
	:: false ->
#endif
		/* pass_deletion() */
		if
		:: gone && i == went + 1 && status_by != src + 1 ->
			m = held[src] & ((2 << went) - 1);
			if
			:: m != 0 || (!EMPTY && PLACE(rev) <= i) -> sync = DESYNC
			:: else
			fi;
			held[src] = held[src] & ~m; gap[src] = gap[src] & ~m;
#ifndef WITHOUT_hold
			hold = (held[0] | held[1]) != 0;
#endif
#ifndef WITHOUT_rejudged
			queued = queued || (m != 0 && hold)
#endif
		:: else
		fi
	:: status_by == src + 1 && i == status_at
	:: else ->
		status = (i == went + 2 -> 0 : (gone -> GONE : OFF));
		status_by = src + 1; status_at = i;
		if
		:: status != 0 && h_gap ->
			queued = true;
			if
			:: !gone -> sync = DESYNC
			:: else
			fi
		:: else
		fi;
		if
		:: status == GONE ->
			/* erase_repo() */
			if
			:: rec <= rev || sync == DESYNC || rev == 0 -> rec = 0; again = false
			:: else
			fi;
			deleted_rev = rev;
			forget_refill();
			held[0] = 0; held[1] = 0; gap[0] = 0; gap[1] = 0; hold = false
		:: else
		fi
	fi
}

inline note_held()
{
	held[src] = held[src] | (1 << k);
	if
	:: e_gap -> gap[src] = gap[src] | (1 << k)
	:: else
	fi;
	hold = true;
	if
	:: e_held -> h_stays = true
	:: else
	fi
}

#define STALE (rec != 0 && rec != EXPECTED)
#define MISSING (rec == 0 && EXPECTED != 0)
/* a letter that says what the record lacks: of a later commit, up to the revision or after it */
#define LETTER_AFTER(r) ((((letter[0] & ~superseded[0]) | (letter[1] & ~superseded[1]) | whole[0] | whole[1]) >> ((r) + 1)) != 0)

inline check()
{
#ifdef SHOW
	printf("source %d commit %d place %d%d held %d how %d: rev %d sync %d first %d status %d at %d deleted %d refill %d rev %d sync %d record %d again %d held %d %d gap %d %d queued %d letter %d-%d %d-%d whole %d %d suspect %d\n",
		src, k, i, went, e_held, how, rev, sync, first, status, status_at, deleted_rev, refill_by, refill_rev, refill_sync, rec, again, held[0], held[1], gap[0], gap[1],
		queued, letter[0], superseded[0], letter[1], superseded[1], whole[0], whole[1], suspect);
#endif
#ifndef TRACE
	assert(sync != SYNCED || rec == EXPECTED);
	assert(sync == DESYNC || !STALE || refill_sync != NONE || suspect || LETTER_AFTER(rec));
	assert(status_at == told);		/* without times */
	assert(hold == ((held[0] | held[1]) != 0))		/* without hold */
#else
	skip
#endif
}

/* write_results(): an audit has found that nothing is missing */
inline audited()
{
#ifdef TRACE
	sync = (lacking -> DESYNC : SYNCED);
#else
	sync = (rec == value[data] -> SYNCED : DESYNC);
#endif
	suspect = false;
#ifndef WITHOUT_proven
	if
	:: sync == SYNCED -> superseded[0] = (superseded[0] | ((2 << rev) - 1)) & letter[0]; superseded[1] = (superseded[1] | ((2 << rev) - 1)) & letter[1]
	:: else
	fi;
#endif
	check()
}

/* the held events, in the order of revisions */
inline release_all()
{
	c = 0;
	do
	:: c < 2 * N ->
		k = c / 2 + 1; src = c % 2;
		if
		:: (held[src] >> k) & 1 ->
			judge();
			if
			:: e_holds -> note_held()
			:: else -> held[src] = held[src] & ~(1 << k); gap[src] = gap[src] & ~(1 << k); apply_commit()
			fi
		:: else
		fi;
		c++
	:: else -> break
	od;
	hold = (held[0] | held[1]) != 0
}

#ifndef TRACE
proctype consumer(byte s)
{
	byte n;

end_loop:
	do
	:: atomic {
		pos[s] <= LAST ->
		/* what it leaves out */
		do
		:: pos[s] <= LAST -> pos[s]++
		:: break
		od;
		if
		:: pos[s] > LAST
		:: else ->
			if
			:: extra > 0 && !(went != 0 && (pos[s] == went + 1 || pos[s] == went + 2)) ->
				extra--;
				bad = (went != 0 && pos[s] > went -> pos[s] - 2 : pos[s]);
				if
				:: how = INVALID
				:: how = REFUSED
				:: how = REFUSED_WHOLE
				fi
			:: true
			fi;
			d_step {
				e_held = false; e_replay = false; h_stays = false; closes = false; src = s; i = pos[s];
				count_held();
				if
				:: went != 0 && (i == went + 1 || i == went + 2) -> account()
				:: else ->
					k = (went != 0 && i > went -> i - 2 : i);
					delivered = delivered | (1 << k);
					judge();
					if
					:: e_holds -> note_held()
					:: else -> apply_commit()
					fi;
					queued = queued || closes
				fi;
				pos[s]++;
				check();
				bad = 0; how = 0
			}
		fi
	   }
	od
}

/* a consumer releases held events */
active proctype release()
{
end_loop:
	do
	:: atomic {
		(queued && hold) || (over && (gap[0] | gap[1]) != 0) ->
		if
		:: extra > 0 ->
			extra--;
			select(bad : 1 .. N);
			if
			:: how = INVALID
			:: how = REFUSED
			:: how = REFUSED_WHOLE
			fi
		:: true
		fi;
		d_step {
			e_held = true; e_replay = false; h_stays = false; closes = false;
			count_held();
			queued = false;
			release_all();
			check();
			bad = 0; how = 0; c = 0
		}
	   }
	od
}

#endif

/* the row of the letter, by replay_row() */
inline replay()
{
	if
	:: PUTS(k) && rec == 0 && e_late ->
		/* nobody knows whether it was removed since */
		sync = DESYNC; e_holds = true
#ifdef TRACE
	:: !(PUTS(k) && rec == 0 && e_late) && e_late && lacking ->
		/* likewise, of another record of the commit */
		sync = DESYNC; e_holds = true;
		write_row()
#endif
	:: else -> write_row()
	fi
}

/* retry() of the letter of source s about the record of commit k, or about the commit */
inline retry_letter(s, of_record)
{
	e_held = false; e_replay = true; h_stays = false; closes = false; src = s; e_refused = 0; e_lacking = false;
	count_held();
	judge();
	/* e_holds: the letter stays */
	if
	:: status != 0 -> e_holds = !DELETED
	:: status == 0 && deleted_rev != 0 && k <= deleted_rev -> e_holds = false
	:: status == 0 && !(deleted_rev != 0 && k <= deleted_rev) && e_holds
#ifndef WITHOUT_obsolete
	:: status == 0 && !(deleted_rev != 0 && k <= deleted_rev) && !e_holds && of_record && ((superseded[s] >> k) & 1)
#endif
	:: else ->
		if
		:: k > rev && !of_record -> take(); write_row()
		:: else ->
			e_late = k < rev && !of_record;
			replay()
		fi
	fi;
	if
	:: e_holds
	:: else ->
		if
		:: of_record -> letter[s] = letter[s] & ~(1 << k); superseded[s] = superseded[s] & letter[s]
		:: else -> whole[s] = whole[s] & ~(1 << k)
		fi;
		drop_letters()
	fi;
	c = 0;
	check()
}

/* refill() of the first source */
inline refill()
{
	/* an audit is requested */
	suspect = suspect || (sync == UNPROVEN && refill_sync != NONE);
	refill_by = true; refill_rev = deleted_rev; refill_data = 0; refill_first = 0; refill_sync = NONE; refill_to = rev; again = false
}

#ifdef TRACE

inline observed(step, a)
{
	OBSERVE(step, a, rev + (rec << 7) + (refill_rev << 14) + (deleted_rev << 21), sync + 4 * status + 16 * hold + 32 * refill_by + 64 * refill_sync);
	OBSERVE(LETTERS, letter[0] + (letter[1] << 15), superseded[0] + (superseded[1] << 15), whole[0] + (whole[1] << 15));
	OBSERVE(HELD, held[0] + (held[1] << 15), 0, 0);
	forget_choices();
	told = 0; missed = false; suspect = false; queued = false; jumped = false; letters_before = 0; held_before = 0; at = 0; src = 0;
	PEEK
}

inline forget_choices()
{
	k = 0; i = 0; m = 0; h_first = 0; h_n = 0; e_held = 0; e_old = 0; e_holds = 0; e_gap = 0; e_late = 0; e_inactive = 0; e_misses = 0; e_lacking = 0;
	e_reread = 0; e_passed = 0; e_refused = 0; e_replay = 0; h_stays = 0; h_gap = 0; closes = 0; undone = 0;
	lacking = false; removes = false; impatient = false; bad = 0; how = 0; c = 0
}

#define ALL_LETTERS ((letter[0] | whole[0]) + ((letter[1] | whole[1]) << 15))
#define ALL_HELD (held[0] + (held[1] << 15))
#define MARK_OF_LETTER(k) (((letter[src] | whole[src]) >> (k)) & 1)

/* whether a letter is written for commit k, and what the tables lack; letters: does the mark say that letters were added? */
inline choose(letters)
{
	if
	:: letters || MARK_OF_LETTER(k) ->
		bad = k;
		if
		:: how = INVALID
		:: how = REFUSED
		:: how = REFUSED_WHOLE
		fi
	:: true
	fi;
	if
	:: (next_c & 3) == DESYNC -> lacking = true
	:: true
	fi
}

/* any later message of the source */
inline deliver()
{
	i = at + 1;
	do
	:: i < LAST -> i++
	:: break
	od;
	at = i;
	count_held();
	if
	:: went != 0 && (i == went + 1 || i == went + 2) -> account()
	:: else ->
		k = (went != 0 && i > went -> i - 2 : i);
		if
		:: does[k] == 0 -> if :: does[k] = PUT :: does[k] = DEL :: does[k] = ELSE fi
		:: else
		fi;
		if
		:: begins[k] == 0 -> if :: k > 1 -> begins[k] = CONTINUING :: begins[k] = UNKNOWN :: begins[k] = FIRST_ONE fi
		:: else
		fi;
		choose(next_a & 2);
		if
		:: PUTS(k) && ALL_LETTERS != 0 -> removes = true
		:: true
		fi;
		if
		:: impatient = true
		:: next_a & 4 -> impatient = false
		fi;
		judge();
		if
		:: e_holds -> note_held()
		:: else -> apply_commit()
		fi
	fi;
	forget_choices()
}

/* the transactions that the trace shows */
active proctype shown()
{
	byte s;

	atomic {
		PEEK;
		do
		:: next_step == BEGIN && next_a != 0 -> does[next_a] = next_b; begins[next_a] = next_c; OBSERVE(BEGIN, next_a, next_b, next_c); PEEK
		:: next_step == BEGIN && next_a == 0 ->
			if
			:: next_b != 0 -> select(went : 1 .. N)
			:: else
			fi;
			gone = next_c;
			OBSERVE(BEGIN, 0, next_b, next_c);
			PEEK;
			break
		od
	}
	do
	:: atomic { next_step == STREAM -> src = next_a & 1; letters_before = ALL_LETTERS; held_before = ALL_HELD };
		/* not atomic: messages that change nothing lead to a state that is known */
		do
		:: atomic { at < LAST -> deliver() }
		:: at > 0 -> break
		od;
		skip;
		d_step {
			s = src + 2 * ((ALL_LETTERS & ~letters_before) != 0) + 4 * ((ALL_HELD & ~held_before) != 0);
			observed(STREAM, s);
			s = 0
		}
	:: atomic {
		next_step == RELEASE ->
		k = 1;
		do
		:: k < N -> k++
		:: break
		od;
		choose(next_a);
		if
		:: impatient = true
		:: impatient = false
		fi;
		d_step {
			letters_before = ALL_LETTERS;
			e_held = true; e_replay = false; h_stays = false; closes = false;
			count_held();
			release_all();
			s = (ALL_LETTERS & ~letters_before) != 0;
			observed(RELEASE, s);
			s = 0
		}
	   }
	:: atomic {
		next_step == RETRY ->
		if
		:: (next_c & 3) == DESYNC -> lacking = true
		:: true
		fi;
		impatient = true;
		d_step {
			s = next_a & 1; k = (next_a / 2) & 31; c = next_a / 64;
			if
			:: c && ((letter[s] >> k) & 1) -> retry_letter(s, true)
			:: !c && ((whole[s] >> k) & 1) -> retry_letter(s, false)
			:: else
			fi;
			s = next_a;
			observed(RETRY, s);
			s = 0
		}
	   }
	:: d_step {
		next_step == REFILL ->
		if
		:: rev == 0 || status == GONE || deleted_rev == rev
		:: else -> refill()
		fi;
		observed(REFILL, 0)
	   }
	:: d_step { next_step == JUMP && refill_sync != NONE -> forget_refill(); observed(JUMP, 0) }
	:: atomic {
		next_step == AUDIT && refill_sync == NONE && !EMPTY ->
		lacking = (next_c & 3) == DESYNC;
		d_step { audited(); observed(AUDIT, 0) }
	   }
	od
}

#else

active proctype session()
{
end_loop:
	do
	/* retry() */
	:: atomic {
		(letter[0] | letter[1] | whole[0] | whole[1]) != 0 ->
		select(c : 1 .. N);
		if
		:: (letter[0] >> c) & 1 -> d_step { k = c; retry_letter(0, true) }
		:: (letter[1] >> c) & 1 -> d_step { k = c; retry_letter(1, true) }
		:: (whole[0] >> c) & 1 -> d_step { k = c; retry_letter(0, false) }
		:: (whole[1] >> c) & 1 -> d_step { k = c; retry_letter(1, false) }
		:: else -> c = 0
		fi
	   }
	/* refill() of the first source */
	:: d_step {
		extra > 0 && pos[0] > 1 ->
		extra--;
		if
		:: rev == 0 || status == GONE
#ifndef WITHOUT_refill_of_deleted
		:: rev != 0 && deleted_rev == rev
#endif
		:: else -> refill()
		fi;
		pos[0] = 1; jumped = false;
		check()
	   }
	/* set_cursor(), another url, or a server that has forgotten events */
	:: d_step {
		extra > 0 && pos[0] <= LAST ->
		extra--;
		pos[0]++;
		jumped = jumped || refill_sync != NONE;
		if
#ifndef WITHOUT_jump
		:: refill_sync != NONE ->
			suspect = suspect || sync == UNPROVEN;
			forget_refill()
#endif
		:: else
		fi;
		check()
	   }
	/* the fetcher audits */
	:: d_step { sync == UNPROVEN && refill_sync == NONE && !EMPTY -> audited() }
	/* audit_all() */
	:: d_step { sync == DESYNC && rec == value[data] && !EMPTY && !missed -> audited() }
	:: atomic { !over && hold -> over = true }
	od
}

/* nothing moves any more but letters, which retry() tries for ever when they stay: no `timeout` comes then */
#define STILL (pos[0] > LAST && pos[1] > LAST && (over || !hold) && !(queued && hold) && !(over && (gap[0] | gap[1]) != 0) && \
	!(sync == UNPROVEN && refill_sync == NONE && !EMPTY))

active proctype end_quiet()
{
	atomic {
		STILL ->
		d_step {
			assert(!hold);		/* without rejudged */
			/* the refill waits for a commit that its source does not send */
			assert(sync != UNPROVEN || (refill_sync != NONE && !jumped) || EMPTY);		/* without jump */
			if
			/* not remembered: a deletion that comes before all commits of the repository; a
			 * commit that comes while the account is deleted, before the event of its return.  A repository may wait for the rest of a refill */
			:: MISSING && sync != DESYNC && status == 0 && !(gone && told > went && rev <= went) && !((ignored >> EXPECTED) & 1) &&
				(refill_sync == NONE || jumped) ->
				k = EXPECTED;
				assert(!((delivered >> k) & 1) || ((letter[0] | letter[1] | whole[0] | whole[1]) >> k) & 1)
			:: else
			fi
		}
	}
}

init
{
	byte n = 1, from;

	atomic {
		extra = EXTRA;
		if
		:: true
		:: extra--; select(went : 1 .. N - 1); if :: gone = true :: gone = false fi
		fi;
		do
		:: n <= N ->
			from = (gone && n == went + 1 -> 0 : n - 1);
			value[n] = value[from]; other[n] = other[from];
			if
			/* not ANY: the record is written; removed, or another one is written; the same, or written again */
			:: ANY || n != 2 -> value[n] = n
			:: ANY || n != 1 -> other[n] = n
			:: value[from] != 0 && (ANY || n == 2) -> value[n] = 0; removals = removals | (1 << n)
			/* it concerns no record that the filters let in */
#if ANY
			:: true
#endif
			fi;
			n++
		:: else -> break
		od;
		n = 0; from = 0;
		run consumer(0); run consumer(1)
	}
}
#endif
