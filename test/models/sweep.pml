/*
 * One account in a target that an archive's reader and other writers fill: the rules of a sweep, H-43.
 *
 * The account writes and deletes two records, and is deleted and begins anew.  Three writers bring what they know of it, each in
 * its own order and at its own pace: the reader of an archive, a relay's consumer, a fetcher.  The archive and the relay leave out
 * anything.  So compaction needs no step: a row that was compacted is left out.  In place of a commit the archive may have a
 * #sync and the records after it.  It is read in one pass or in two (H-26).  Deletions are kept while the sweep runs (the table sweep_deletion).
 * Record 0 is in the archive's filter.  Record 1 is not, or its key is longer than an archive can hold: the archive has nothing
 * of it, and its #sync says nothing about it.
 *
 * Left out: seams and positions (archive.pml); held events (sources.pml); letters of the archive's rows; revisions that fall, and
 * hosts whose clock is behind the account's deletion; more accounts, because each rule is about one account.  Another shard of
 * the reader has accounts of its own, and does nothing here but end.
 * A number stands for a revision and for the time that it names: slot r has a commit, or the deletion of the account at that time.
 *
 * short: -DN=3 -DFETCHES=1 -DLETTERS=true
 * long: -DN=3 -DFETCHES=2 -DLETTERS=true
 * large: the short form takes longer than its compilation
 *
 * Invariants:
 * - In the end the records are what the newest fact says that any writer was brought, in each order of the writers: no deleted record is back,
 *   and what one source alone knew is there.  An exception: what the relay has deleted before the sweep began is only known to the archive.
 * - synchronized is true: the records are the account's at rev.
 * - complete is true: it is said after a sweep only if no kept deletion was dropped before its time.
 * - When nothing can move, the sweep has ended, and no deletion is kept.
 *
 * step put: tables/records/record_queue.c put_records()
 * step delete: tables/records/record_queue.c delete_records()
 * step purge: tables/apply/repos_sink.c erase_in_sweep()
 * step replace: tables/apply/repos_sink.c replace_records()
 * step remove_then_put: tables/records/sweep_deletion.c atp_records_replace()
 * step retry: tables/apply/replay.c atp_replay()
 * step subscribe: tables/base/sweep.c atp_sweep_begins()
 * step begin_fetch: tables/export/repo_export.c atp_repo_export_hold()
 * step merge: tables/export/merge.c compare_one()
 * step bound: tables/apply/sweep_end.c atp_sweep_bound()
 * step end_sweep: tables/apply/sweep_end.c atp_sweep_may_end()
 *
 * guard begins (-DREVERSE): a relay's transaction has seen that no sweep runs; the sweep begins; the transaction deletes a record and keeps no
 *     deletion; the archive's older row brings the record back.
 * guard keeps: the relay deletes a record, the archive has only the record: it is back.
 * guard newer: the archive deletes a record that the relay has written anew, or writes its older value.
 * guard under_lock: the relay's transaction reads the kept deletions before it has the lock on the repository's row; meanwhile the archive's
 *     reader deletes the record and keeps the deletion; the relay's older record comes back.
 * guard barrier: after a #sync, the relay brings a record that the account deleted before; no writer has brought this deletion.
 * guard barrier_delete: the archive's #sync finds the record with the same value, and leaves the row with its older revision; the relay
 *     brings a deletion from between: the record, which the #sync has named, is gone.
 * guard raises (-DT_REVERSE): the relay writes a record again with the same value, the row stays as it was, with the older revision; the archive's deletion,
 *     or other value, from between counts.
 * guard filter (-DT_REVERSE): a #sync of the archive says nothing of a collection outside its filter, or of a key that an archive cannot
 *     hold; the relay's record is not taken.
 * guard time (-DT_REVERSE): compaction has removed all rows of a deleted account, so the last revision that the archive has shown is none; the deletion stands for
 *     this, and records of the account that another writer has brought, or will bring, stay.
 * guard later_life (-DT_REVERSE): the relay deletes the account, late; the archive has brought records of the account's next life, and they go, too.
 * guard by_rule (-DT_REVERSE): an account's rows are read once more with its markers, and its records are replaced by the fold of these rows: what the relay alone
 *     knows is gone.
 * guard letters: the relay's record is refused by the database, the archive deletes the record; the letter stays, and retry() writes the record.
 * guard proved (-DREVERSE -DT_REVERSE): a fetch has left a record with the same value as it was, with its older revision; the archive's older deletion, or older #sync, removes it.
 * guard carried: a proven repository goes on by the relay's commits, but only the fetch counts as proof; the archive's #sync of such a commit removes
 *     records and puts them in its next transaction: meanwhile the repository is called synchronized without them.
 * guard ahead: a repository is synchronized at the relay's revision; the archive knows more, and adds a record of a later revision.
 * guard later: an export was asked for before the archive's reader deleted a record, and is written after that.
 * guard own_rev: the archive was first and has moved rev; what the relay alone knows of older revisions is old.
 * guard all_shards: one shard of the reader has passed the seam and empties the kept deletions; the other one still reads.
 * guard behind: the sweep ends while the relay is behind; the kept deletions go, and the relay brings the deleted record.
 * guard ends: the sweep ends while a transaction of the relay, which has seen that a sweep runs, is about to keep a deletion: nobody ever removes it.
 * guard met: the kept deletions were too many, some were dropped; the sweep ends, and says that it is complete.
 */
#include "observe.h"

#define PUT		1
#define DEL		2
#define GONE	3
/* sync */
#define PARTIAL	0
#define DESYNC	1
#define SYNCED	2

/* the account: what happens in each slot, and the records after it (0: none, otherwise the value) */
bool lives = false;
byte op[N + 1], on[N + 1];
byte tree[2 * N + 2];
#define TREE(r, q)	tree[2 * (r) + (q)]

/* the table record */
byte val[2], rev_of[2];		/* val 0: no row */
/* the row of repo */
byte rev = 0, sync = PARTIAL;
byte proved = 0;			/* proved_rev, 0: NULL */
byte history_rev = 0;		/* the largest revision, or time of a deletion, that the archive has shown */
/* the table sweep_deletion */
byte kept[2];				/* a record's deletion */
byte kept_all = 0;			/* the account's deletion */
byte letter = 0;			/* the slot whose record 0 waits in dead_letter */
byte kept_sync = 0;			/* the slot before the archive's #sync: nothing older counts within its filter */
/* the row of history */
bool sweep = false, ended = false, met = false;
bool passed = false;		/* the shard of this account has passed its seam */
/* an in-flight transaction of the relay's consumer */
bool in_flight = false, saw_sweep = false;
byte relay_at = 0;			/* the last slot that the relay's stream has passed */
byte fetches = 0, fetched = 0;	/* the export that the fetcher reads; 0: none */
byte replacing = 0;				/* the archive's position stands between a #sync and its records */
byte archive_at = 0;
bool two = false;			/* pass one of two */
byte gave = 0;				/* bit r: pass one had the deletion of slot r, and pass two will have it, too: no deletion is ever compacted */
#define GAVE(r)	(!two && (gave & (1 << (r))))

/* only the invariants need it: the slot of the newest fact about each record; 0: nobody knows */
byte fact[2];

hidden byte k;

inline check()
{
	assert(sync != SYNCED || (val[0] == TREE(rev, 0) && val[1] == TREE(rev, 1)))	/* without ahead, carried, later, letters, proved */
}

inline know(q, r)
{
	if
	:: fact[q] < (r) -> fact[q] = (r)
	:: else
	fi
}

/* is a row of slot r older than what the whole account is known to be? */
#ifdef WITHOUT_filter
#define IN_FILTER(q)	true
#else
#define IN_FILTER(q)	((q) == 0)
#endif
#define OVER(q, r)	(kept_all >= (r) || (IN_FILTER(q) && kept_sync >= (r)))
/* has a #sync of the archive said what becomes of the record after slot r? */
#ifdef WITHOUT_barrier_delete
#define SETTLED(q, r)	false
#else
#define SETTLED(q, r)	(IN_FILTER(q) && kept_sync >= (r))
#endif
#ifdef WITHOUT_newer
#define IS_NEWER(q, r)	false
#else
#define IS_NEWER(q, r)	(val[q] != 0 && rev_of[q] > (r))
#endif

/* A fact about record q in slot r is in the tables: an older dead letter about it is out of date. */
inline supersede(q, r)
{
#ifndef WITHOUT_letters
	if
	:: (q) == 0 && letter != 0 && letter <= (r) -> letter = 0
	:: else
	fi
#else
	skip
#endif
}

#define BLOCKED(q, r)	(OVER(q, r) || kept[q] >= (r))

inline put(q, r, blocked)
{
	if
	:: blocked || IS_NEWER(q, r)
#ifdef WITHOUT_raises
	:: !(blocked || IS_NEWER(q, r)) && val[q] == TREE(r, q)
#endif
	:: else -> val[q] = TREE(r, q); rev_of[q] = (r); supersede(q, r)
	fi
}

inline delete(q, r, keeps)
{
	if
#ifndef WITHOUT_barrier_delete
	:: OVER(q, r)
#endif
	:: else ->
		if
		:: !IS_NEWER(q, r) -> val[q] = 0; rev_of[q] = 0
		:: else
		fi;
		supersede(q, r);
		if
#ifndef WITHOUT_keeps
		:: (keeps) && kept[q] < (r) -> kept[q] = (r)
#endif
		:: else
		fi
	fi
}

/* `bound`: the revision that the account's deletion stands for; `limit`: up to which its records go */
inline purge(bound, limit, keeps)
{
	for (k : 0 .. 1) {
		if
		:: rev_of[k] <= (limit) && !SETTLED(k, bound) -> val[k] = 0; rev_of[k] = 0
		:: else
		fi
	}
	supersede(0, bound);
	if
	:: (keeps) && kept_all < (bound) -> kept_all = (bound)
	:: else
	fi;
	k = 0
}

/* an archive's row of slot r is going to change something */
inline archive_shows(r)
{
	if
	:: history_rev < (r) -> history_rev = (r)
	:: else
	fi;
#ifndef WITHOUT_ahead
	if
	:: sync == SYNCED && (r) > rev -> sync = PARTIAL
	:: else
	fi;
#endif
#ifdef WITHOUT_own_rev
	if
	:: rev < (r) && sync == PARTIAL -> rev = (r)
	:: else
	fi
#endif
}

/* must the archive's reader keep a deletion of slot r?  Not if the other writers have nothing older to bring. */
#define ARCHIVE_KEEPS(r)	(relay_at < (r))

#ifdef WITHOUT_by_rule
#define BY_FOLD	true
#else
#define BY_FOLD	false
#endif
#ifdef WITHOUT_proved
#define IS_PROVED(r)	(op[r] == PUT && proved >= (r))
#else
#define IS_PROVED(r)	(proved >= (r))
#endif

/* the account's deletion in slot r, as the archive tells it */
#ifdef WITHOUT_time
#define STANDS_FOR(r)	history_rev
#else
#define STANDS_FOR(r)	(r)
#endif

/* the last revision of the records that go when the relay tells of a deletion of slot r */
#ifdef WITHOUT_later_life
#define LIMIT(r)	N
#else
#define LIMIT(r)	(r)
#endif

active proctype account()
{
	byte r;

	atomic {
		for (r : 1 .. N) {
			if
			:: op[r] = PUT; TREE(r, 0) = 1
			:: op[r] = PUT; TREE(r, 0) = 2
			:: op[r] = PUT; on[r] = 1; TREE(r, 1) = 1
			:: TREE(r - 1, 0) != 0 -> op[r] = DEL
			:: TREE(r - 1, 1) != 0 -> op[r] = DEL; on[r] = 1
			:: TREE(r - 1, 0) + TREE(r - 1, 1) != 0 -> op[r] = GONE
			fi;
			if
			:: op[r] == GONE
			:: else -> TREE(r, 1 - on[r]) = TREE(r - 1, 1 - on[r])
			fi
		}
		r = 0;
		lives = true
	}
}

inline keep_sync(r)
{
	supersede(0, (r) - 1);
#ifndef WITHOUT_barrier
	if
	:: ARCHIVE_KEEPS((r) - 1) && kept_sync < (r) - 1 -> kept_sync = (r) - 1
	:: else
	fi
#else
	skip
#endif
}

/* a session of the operator */
active proctype operator()
{
	atomic {
		/* subscribe */
#ifndef WITHOUT_begins
		!in_flight ->
#endif
		sweep = true
	}
}

active proctype archive()
{
	atomic { (sweep || ended) && lives ->
		if
		:: two = true
		:: skip
		fi
	};
	do
	/* one of the next slots; those before it are not there */
	:: atomic { replacing == 0 && archive_at < N ->
		archive_at++;
		do
		:: archive_at < N && !GAVE(archive_at) -> archive_at++
		:: break
		od;
		if
		/* pass one reads commits only */
		:: two
		:: !two && op[archive_at] == GONE ->
			if
			:: IS_PROVED(archive_at)
			:: else ->
				know(0, archive_at); know(1, archive_at);
				/* purge */
#ifdef WITHOUT_time
				purge(STANDS_FOR(archive_at), STANDS_FOR(archive_at), ARCHIVE_KEEPS(archive_at));
				archive_shows(archive_at)
#else
				archive_shows(archive_at);
				purge(STANDS_FOR(archive_at), STANDS_FOR(archive_at), ARCHIVE_KEEPS(archive_at))
#endif
			fi
		/* a record; of a bootstrap the revision may be later than the record's own */
		:: op[archive_at] != GONE && TREE(archive_at, 0) != 0 ->
			if
			:: IS_PROVED(archive_at)
			:: else -> know(0, archive_at); archive_shows(archive_at); put(0, archive_at, BLOCKED(0, archive_at))
			fi
		:: op[archive_at] == DEL && on[archive_at] == 0 ->
			if
			:: IS_PROVED(archive_at)
			:: else -> know(0, archive_at); archive_shows(archive_at); delete(0, archive_at, ARCHIVE_KEEPS(archive_at))
			fi;
			gave = (two -> gave | (1 << archive_at) : gave & ~(1 << archive_at))
		/* a #sync and its records in one transaction: an equal row keeps its tuple */
		:: !two && op[archive_at] != GONE ->
			if
			:: IS_PROVED(archive_at)
			:: else ->
				know(0, archive_at);
				/* replace */
				archive_shows(archive_at);
				if
				:: TREE(archive_at, 0) == 0 && (rev_of[0] < archive_at || BY_FOLD) -> val[0] = 0; rev_of[0] = 0
				:: TREE(archive_at, 0) != 0 && TREE(archive_at, 0) != val[0] -> put(0, archive_at, BLOCKED(0, archive_at))
				:: else
				fi;
				keep_sync(archive_at)
			fi;
			gave = gave & ~(1 << archive_at)
		/* the same in two transactions */
		:: !two && op[archive_at] != GONE ->
			if
			:: IS_PROVED(archive_at)
			:: else ->
				know(0, archive_at);
				/* remove_then_put */
				archive_shows(archive_at);
				if
				:: rev_of[0] < archive_at -> val[0] = 0; rev_of[0] = 0
				:: else
				fi;
				keep_sync(archive_at);
				replacing = archive_at
			fi;
			gave = gave & ~(1 << archive_at)
		fi;
		check()
	   }
	:: atomic { replacing != 0 ->
		if
		:: !IS_PROVED(replacing) && TREE(replacing, 0) != 0 -> put(0, replacing, BLOCKED(0, replacing))
		:: else
		fi;
		replacing = 0;
		check()
	   }
	/* pass two reads the account once more, with its markers */
	:: atomic { replacing == 0 && two -> two = false; archive_at = 0 }
	:: atomic { replacing == 0 && !two && gave == 0 -> break }
	od;
	atomic { passed = true }
}

/* what the relay deletes before the sweep begins is kept nowhere, unless the repository is proven */
inline forget_or_know(q, r)
{
	if
	:: sweep || (sync == SYNCED && rev == (r) - 1) -> know(q, r)
	:: else -> fact[q] = 0
	fi
}

#ifdef WITHOUT_under_lock
bool saw_blocked = false;
#define SAW_BLOCKED(r)	saw_blocked
#else
#define SAW_BLOCKED(r)	BLOCKED(on[r], r)
#endif

/* The relay's stream goes on to slot r. */
active proctype relay()
{
	byte r = 0;

	lives;
	do
	:: atomic { !in_flight && r < N ->
		r++;
		do
		:: r < N -> r++
		:: break
		od;
		in_flight = true; saw_sweep = sweep;
#ifdef WITHOUT_under_lock
		saw_blocked = BLOCKED(on[r], r)
#endif
	   }
	:: atomic { in_flight ->
		if
		/* old */
		:: r <= rev ->
			if
			:: op[r] == GONE -> know(0, r); know(1, r)
			:: else -> know(on[r], r)
			fi
		:: else ->
			if
			:: op[r] == GONE ->
				forget_or_know(0, r); forget_or_know(1, r);
				purge(r, LIMIT(r), saw_sweep)
			:: op[r] == PUT -> know(on[r], r); put(on[r], r, SAW_BLOCKED(r))
			/* the row is refused */
			:: LETTERS && op[r] == PUT && on[r] == 0 ->
				know(0, r);
				if
				:: BLOCKED(0, r) || IS_NEWER(0, r)
				:: else -> letter = r; sync = (sync == SYNCED -> PARTIAL : sync)
				fi
			:: op[r] == DEL -> forget_or_know(on[r], r); delete(on[r], r, saw_sweep)
			fi;
			/* does it continue the repository? */
			if
			:: sync == SYNCED && rev != r - 1 -> sync = DESYNC
#ifndef WITHOUT_carried
			:: sync == SYNCED && rev == r - 1 -> proved = r
#endif
			:: else
			fi;
			rev = r
		fi;
		in_flight = false; saw_sweep = false;
		relay_at = r;
		check()
	   }
	/* the rest is left out */
	:: atomic { !in_flight -> relay_at = N; r = 0; break }
	od
}

/* The host is as far as the export says, and as far as any writer has shown. */
inline ask()
{
	fetched = (rev > history_rev -> rev : history_rev);
	do
	:: fetched < N -> fetched++
	:: fetched > 0 -> break
	od
}

active proctype fetcher()
{
	lives;
	do
	:: atomic { fetches < FETCHES && fetched == 0 -> fetches++; ask() }	/* begin_fetch */
	:: atomic { fetched != 0 ->
		if
		:: fetched < rev -> ask()
#ifndef WITHOUT_later
		:: fetched >= rev && fetched < history_rev -> ask()
#endif
		:: else ->
			/* merge */
			for (k : 0 .. 1) {
				know(k, fetched);
				if
				:: TREE(fetched, k) == val[k]
#ifdef WITHOUT_later
				:: TREE(fetched, k) != val[k] && kept[k] >= fetched
#endif
				:: else -> val[k] = TREE(fetched, k); rev_of[k] = (val[k] != 0 -> fetched : 0)
				fi
			}
			k = 0;
			supersede(0, fetched);
			rev = fetched; proved = fetched; sync = SYNCED;
			fetched = 0
		fi;
		check()
	   }
	:: atomic { fetched == 0 -> break }
	od
}

/* retry */
active proctype session()
{
	do
	:: atomic { letter != 0 ->
		put(0, letter, BLOCKED(0, letter));
		letter = 0;
		check()
	   }
	:: atomic { ended && letter == 0 && relay_at == N -> break }
	od
}

inline empty_kept()
{
	kept[0] = 0; kept[1] = 0; kept_all = 0; kept_sync = 0
}

#ifdef WITHOUT_all_shards
#define ALL_PASSED	true
#else
#define ALL_PASSED	passed
#endif
#ifdef WITHOUT_behind
#define RELAY_PASSED	true
#else
#define RELAY_PASSED	(relay_at >= history_rev)
#endif
#ifdef WITHOUT_ends
#define NOT_IN_FLIGHT	true
#else
#define NOT_IN_FLIGHT	!in_flight
#endif

active proctype consumer()
{
	do
	/* bound */
	:: atomic { sweep && !met && kept[0] + kept[1] + kept_all + kept_sync > 0 -> empty_kept(); met = true }
	/* end_sweep */
	:: atomic { sweep && ALL_PASSED && RELAY_PASSED && NOT_IN_FLIGHT -> empty_kept(); sweep = false; ended = true; break }
	od
}

#ifdef WITHOUT_met
#define COMPLETE	ended
#else
#define COMPLETE	(ended && !met)
#endif

active proctype quiet()
{
	timeout ->
	assert(ended && kept[0] + kept[1] + kept_all + kept_sync == 0);	/* without all_shards, ends */
	assert(!COMPLETE || (val[0] == (fact[0] -> TREE(fact[0], 0) : 0) && val[1] == (fact[1] -> TREE(fact[1], 1) : 0)))	/* without all_shards, barrier, barrier_delete, begins, behind, by_rule, filter, keeps, later_life, letters, met, newer, own_rev, proved, raises, time, under_lock */
}
