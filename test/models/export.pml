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
 */
#include "observe.h"

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
