/*
 * An export and the rows of its repository.
 *
 * The account makes commits of two records, and the stream loses some.  A break demands a fetch; the export is written in
 * two slices, a record each.  The fetcher may be killed between two slices, and the next export may be older than the one
 * that was given up, but not than the repository's row.  Events wait meanwhile.  A session removes a row between two slices.
 *
 * Left out: the state of the account, its key, jobs (repository.pml); paths, collections and the order of their rows (tests
 * compare both orders).  Only two things of a slice matter here: which rows are behind it, and which of them are newer than
 * the export.
 *
 * short: -DREVS=3 -DTROUBLES=3 -DMAX_HELD=1
 * long: -DREVS=5 -DTROUBLES=4 -DMAX_HELD=2
 *
 * Invariants:
 *   - synchronized is true: the rows are the account's records at rev;
 *   - no row is newer than rev, unless the repository is desynchronized, or being fetched;
 *   - an event that the cursor has passed is applied, or held, or the repository is desynchronized, or being fetched.  What
 *     came before a fetch began, and is newer than the export, only the next commit shows: the server says what it has.
 *   - when nothing can move, no event waits.
 *
 * step take_event: tables/repos/repo_effect.c take_commit()
 * step write_by_event: tables/records/record_queue.c put_some()
 * step release: tables/apply/release.c atp_release()
 * step begin: tables/export/repo_export.c atp_repo_export_hold()
 * step refused: tables/export/repo_export.c atp_repo_export_refused()
 * step write: tables/export/merge.c compare_one()
 * step count: tables/export/merge.c count_rows()
 * step end: tables/export/repo_export.c atp_repo_export_end()
 * step give_up: tables/repos/repo_state.c atp_repo_give_up()
 *
 * guard over_newer: a fetch is given up after its first slice has written a record of revision 2; the next export is of
 *     revision 1, and leaves the newer row as it is, as an old event does: synchronized at revision 1 with a record of 2.
 * guard equal_newer: the same, but the record of the older export equals the row, which keeps the revision 3; the commit of
 *     revision 2 changes the record, and is passed over as older than the row: synchronized at 2 with the record of 1.
 * guard refused: an export is older than the repository: the rows go back, and the commits after it do not come again.
 * guard count: a session removes a row that the first slice has compared: synchronized without it.
 * guard whole: two events come during a fetch where one may be held; both are dropped, and the export is older than they are.
 * guard give_up: a fetch ends after a slice, and the repository stays synchronized, as before the fetch.
 * guard order: an event is applied between two slices: its record is on the side that was written already.
 *
 * mark STREAM: repository, held, record: a transaction that moves the cursor has changed one of the three
 * mark OTHER: repository, held, record: another transaction has done so: a slice, the begin and the end of a fetch, a release
 * mark AGAIN: a transaction inserts a row of the record that is there, or deletes one that is not: no step does
 *     repository: sync (0 partial, 1 unproven, 2 desynchronized, 3 resyncing, 4 synchronized) + 8 * (hold is resync) + 16 * rev;
 *     held: a bit for each held revision; record: the revision of a row of the table record + 32 * its value; 0: no row
 * A trace is about one record of a repository; there are as many objects as the repository has records with different stories.  Revisions and
 * values have the numbers in which they occur, and 0 is none.  Nothing shows the account's trees, so whether a commit continues the one
 * before is chosen; but the value of the record at a revision stays what an event or an export has said.  Rows that a session removes, forced
 * fetches and load_car() are not in a trace.
 */
#include "observe.h"
#define STREAM	1	/* marks */
#define OTHER	2
#define AGAIN	3

#ifdef TRACE
/* ------------------------------------------------------------------------
 * The same steps for one record, as far as transactions show them.  KEYS: events may wait for the account's key.
 * ------------------------------------------------------------------------
 */
#define PARTIAL		0
#define UNPROVEN	1
#define DESYNC		2
#define RESYNCING	3
#define SYNC		4
#ifndef KEYS
#define KEYS		0
#endif

byte rev = 0, sync = PARTIAL;
bool fetching = false;		/* hold = resync */
int held = 0;
byte row = 0, row_rev = 0;
/* the export: its revision; has a slice passed the record; with which value */
byte export = 0, value = 0;
bool written = false;
byte known[REVS + 1];		/* the record's value + 1 at a revision; 0: nobody has said it */

#define BIT(r)		(1 << (r))
#define NEXT_REV	((next_a >> 4) & 31)
#define NEXT_ROW	(next_c >> 5)
#define NEXT_ROW_REV	(next_c & 31)
#define waits		(fetching || held != 0)

inline learn(r, v)
{
	known[r] == 0 || known[r] == v + 1 -> known[r] = v + 1
}

/* put_some(): never over a newer row */
inline put(r, v)
{
	learn(r, v);
	if
	:: row == 0 || row_rev <= r -> row = v; row_rev = (v == 0 -> 0 : r)
	:: else
	fi
}

/* take_commit(): the commit may leave the record alone */
inline apply(r)
{
	if
	:: true
	:: NEXT_ROW_REV == r -> put(r, NEXT_ROW)
	:: next_c == 0 && row != 0 -> put(r, 0)
	fi;
	if
	:: sync = DESYNC
	:: sync == SYNC -> sync = UNPROVEN
	/* the first one that is seen */
	:: rev == 0 && sync == PARTIAL -> sync = UNPROVEN
	:: rev == 0 && sync == PARTIAL -> sync = SYNC
	:: true
	fi;
	rev = r
}

inline mark_of(step)
{
	next_step = 0; next_a = 0; next_b = 0; next_c = 0;
	OBSERVE(step, sync + 8 * fetching + 16 * rev, held, row_rev + 32 * row)
}

/* compare_one(): the record's row becomes the export's, unless it is equal, and no newer */
inline write(v)
{
	value = v;
	if
	:: row == v && row_rev <= export
	:: else -> row = v; row_rev = (v == 0 -> 0 : export)
	fi;
	written = true
}

inline forget_export()
{
	export = 0; value = 0; written = false
}

active proctype shown()
{
	byte r;

	/* A transaction need not be atomic where no other process is; between its events Spin then notices what it has seen before. */
	do
	/* a batch */
	:: atomic { PEEK; next_step == STREAM -> r = 1 };
		do
		:: atomic {
			r <= REVS ->
			PEEK;
			if
			:: r <= rev || (r > NEXT_REV && !(next_b & BIT(r)) && !waits)
			:: r > rev && (r < NEXT_REV || waits)
			:: r > rev && r <= NEXT_REV && !waits -> apply(r)
			:: r > rev && !(held & BIT(r)) && (next_b & BIT(r)) && (waits || KEYS) -> held = held | BIT(r)
			:: r > rev && waits && next_b == 0 -> held = 0; sync = DESYNC
			fi;
			r++;
			next_step = 0; next_a = 0; next_b = 0; next_c = 0
		   }
		:: r > REVS -> break
		od;
		atomic {
			r = 0;
			/* another loss that the stream shows */
			if
			:: true
			:: !fetching -> sync = DESYNC
			fi;
			mark_of(STREAM)
		}
	/* release */
	:: atomic { PEEK; next_step == OTHER && held != 0 && !fetching -> r = 1 };
		do
		:: atomic {
			r <= REVS ->
			PEEK;
			if
			:: !(held & BIT(r))
			:: (held & BIT(r)) && r <= rev -> held = held & ~BIT(r)
			:: (held & BIT(r)) && r > rev -> held = held & ~BIT(r); apply(r)
			/* its key is not known */
			:: (held & BIT(r)) && KEYS -> r = REVS
			fi;
			r++;
			next_step = 0; next_a = 0; next_b = 0; next_c = 0
		   }
		:: r > REVS -> break
		od;
		atomic { r = 0; mark_of(OTHER) }
	/* begin */
	:: atomic {
		PEEK;
		next_step == OTHER && held == 0 && !fetching ->
		fetching = true; sync = RESYNCING;
		mark_of(OTHER)
	   }
	/* a fetcher was killed, and another one begins: the row says so already */
	:: atomic { fetching && (written || export != 0) -> forget_export() }
	/* a slice */
	:: atomic {
		PEEK;
		next_step == OTHER && fetching && !written ->
		/* of a deletion the export's revision is not shown before the end */
		export = (NEXT_ROW_REV != 0 -> NEXT_ROW_REV : REVS);
		export >= rev ->
		write(NEXT_ROW);
		export = NEXT_ROW_REV;
		mark_of(OTHER)
	   }
	/* end */
	:: atomic {
		PEEK;
		next_step == OTHER && fetching ->
		/* refused */
		NEXT_REV >= rev && (export == 0 || export == NEXT_REV) ->
		export = NEXT_REV;
		if
		:: !written -> write(NEXT_ROW)
		:: else
		fi;
		learn(export, value);
		rev = export;
		sync = (sync == RESYNCING -> SYNC : DESYNC);
		fetching = false;
		forget_export();
		mark_of(OTHER)
	   }
	/* give_up */
	:: atomic {
		PEEK;
		next_step == OTHER && fetching ->
		if
		:: sync == RESYNCING -> sync = DESYNC
		:: sync == RESYNCING && rev == 0 -> sync = PARTIAL
		:: else
		fi;
		fetching = false;
		forget_export();
		mark_of(OTHER)
	   }
	/* an audit */
	:: atomic {
		PEEK;
		next_step == OTHER && !fetching && rev != 0 && sync != DESYNC ->
		if
		:: sync = SYNC
		:: sync = DESYNC
		fi;
		mark_of(OTHER)
	   }
	od
}

#else

#define DESYNC		0
#define FETCHED		1	/* resyncing, hold = resync */
#define SYNC		2

byte tip = 0, troubles = 0;
byte hist_a[REVS + 1];		/* the records at each revision; 0: none */
bit hist_b[REVS + 1];
chan stream = [1] of { byte };

byte rev = 0, sync = SYNC, held = 0;
byte row_a = 0, row_b = 0, rev_a = 0, rev_b = 0;
byte export = 0, slices = 0;
bool asked = false, demanded = false;	/* a session demands a fetch, once */
byte passed = 0, before = 0;	/* commits that the cursor has passed; before the fetch began */
byte n = 0, i = 0;

#define BIT(r)		(1 << (r))
#define same_tree(x, y)	(hist_a[x] == hist_a[y] && hist_b[x] == hist_b[y])
#define count(a, b)	((a != 0 -> 1 : 0) + (b != 0 -> 1 : 0))

inline check()
{
	assert(sync != SYNC || (row_a == hist_a[rev] && row_b == hist_b[rev]));	/* without count, give_up, order, over_newer */
	assert(sync != SYNC || (rev_a <= rev && rev_b <= rev));	/* without equal_newer */
	assert(sync != SYNC || (passed & ~held & ~(BIT(rev + 1) - 1)) == 0)	/* without refused, whole */
}

/* write_by_event */
inline put(row, row_rev, value, r)
{
	if
	:: row == 0 || row_rev <= r ->
		row_rev = (value == 0 -> 0 : r);
		row = value
	:: else
	fi
}

inline apply(r)
{
	if
	:: !same_tree(rev, r - 1) -> sync = DESYNC
	:: else
	fi;
	if
	:: hist_a[r] != hist_a[r - 1] -> put(row_a, rev_a, hist_a[r], r)
	:: hist_b[r] != hist_b[r - 1] -> put(row_b, rev_b, hist_b[r], r)
	:: else
	fi;
	rev = r
}

active proctype account()
{
end_account:
	do
	:: atomic {
		tip < REVS ->
		tip++;
		hist_a[tip] = hist_a[tip - 1]; hist_b[tip] = hist_b[tip - 1];
		if
		:: hist_a[tip] = (hist_a[tip] + 1) % 3
		:: hist_a[tip] != 0 -> hist_a[tip] = hist_a[tip] - 1
		:: hist_b[tip] = 1 - hist_b[tip]
		fi;
		if
		:: nfull(stream) -> stream ! tip
		:: troubles < TROUBLES -> troubles++
		fi
	   }
	:: atomic { !demanded && tip > 0 -> demanded = true; asked = true }
	od
}

#ifndef WITHOUT_order
#define waits	(sync == FETCHED || held != 0)
#else
#define waits	false
#endif

active proctype consumer()
{
	byte r;

end_consumer:
	do
	/* take_event */
	:: atomic {
		stream ? r ->
		passed = passed | BIT(r);
		if
		:: r <= rev
		:: r > rev && waits ->
			n = 0; i = 1;
			do
			:: i <= REVS -> n = n + ((held >> i) & 1); i++
			:: else -> break
			od;
			if
			:: n < MAX_HELD -> held = held | BIT(r)
			:: else ->
				held = 0;
#ifndef WITHOUT_whole
				sync = DESYNC
#endif
			fi;
			n = 0; i = 0
		:: r > rev && !waits -> apply(r)
		fi;
		r = 0;
		check()
	   }
	/* release */
	:: atomic {
		held != 0 && slices == 0 && sync != FETCHED ->
		r = 1;
		do
		:: r <= REVS ->
			if
			:: (held & BIT(r)) && r > rev -> apply(r)
			:: else
			fi;
			r++
		:: else -> break
		od;
		r = 0; held = 0;
		check()
	   }
	od
}

#ifndef WITHOUT_refused
#define refused		(export < rev)
#else
#define refused		false
#endif
/* Is a newer row left as it is?  And an equal one? */
#ifndef WITHOUT_over_newer
#define stays(row, row_rev, value)	(row == value && row_rev <= export)
#else
#define stays(row, row_rev, value)	(row == value && row_rev <= export || row != 0 && row_rev > export)
#endif
#ifndef WITHOUT_equal_newer
#define keeps(row, row_rev, value)	stays(row, row_rev, value)
#else
#define keeps(row, row_rev, value)	(row == value || stays(row, row_rev, value))
#endif

inline write(row, row_rev, value)
{
	if
	:: keeps(row, row_rev, value)
	:: else -> row_rev = (value == 0 -> 0 : export); row = value
	fi
}

active proctype fetcher()
{
	byte now, then;

end_fetcher:
	do
	/* begin: not while events wait */
	:: atomic {
		slices == 0 && held == 0 && (sync == DESYNC || asked) ->
		asked = true; before = passed;
		sync = FETCHED; slices = 1
	   };
	   /* the server may be behind */
	   atomic {
		export = tip;
		if
		:: troubles < TROUBLES && export > 1 ->
			troubles++;
			do
			:: export > 1 -> export--
			:: export < tip -> break
			od
		:: true
		fi
	   };
	   if
	   :: atomic { refused -> goto given_up }
	   :: atomic {
		!refused ->
		write(row_a, rev_a, hist_a[export]);
		slices = 2
	      }
	   fi;
	   if
	   :: atomic { troubles < TROUBLES && row_a != 0 -> troubles++; row_a = 0; rev_a = 0 }
	   :: true
	   fi;
	   /* the fetcher is killed, or the second slice is the last */
	   if
	   :: atomic { troubles < TROUBLES -> troubles++; goto given_up }
	   :: atomic {
		now = row_b; then = rev_b;
		write(row_b, rev_b, hist_b[export]);
		if
#ifndef WITHOUT_count
		:: count(row_a, row_b) != count(hist_a[export], hist_b[export]) -> row_b = now; rev_b = then; now = 0; then = 0; goto given_up
#endif
		:: else -> now = 0; then = 0
		fi;
		/* end */
		rev = export;
		passed = passed & (~before | (BIT(export + 1) - 1));
		if
		:: sync == FETCHED -> sync = SYNC; asked = false
		/* events were dropped: once more */
		:: else
		fi;
		before = 0; slices = 0;
		check();
		goto end_fetcher
	      }
	   fi;
given_up:
	   atomic {
		/* give_up */
#ifndef WITHOUT_give_up
		sync = DESYNC;
#else
		sync = (sync == FETCHED -> SYNC : sync);
#endif
		before = 0; slices = 0; export = 0;
		check()
	   }
	od
}

active proctype quiet()
{
	timeout -> assert(held == 0 && slices == 0 && empty(stream) && sync == SYNC)
}
#endif
