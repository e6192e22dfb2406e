/*
 * One repository of one subscription at level full, with backfill => 'repair'.
 *
 * The account makes commits of two records.  The stream loses commits, and lies about the account; a consumer takes one
 * event in a transaction.  Events wait for the account's key, and during a fetch.  The fetcher writes an export of the
 * repository in two slices, one record each.  Fetches fail, the fetcher is killed between any two transactions.  The
 * account is deactivated, deleted, and begins anew; its server is asked.
 *
 * Left out: other subscriptions of the tables (waits for a missing commit, R-32), keys that do not fit (held.pml), exports
 * older than what is there (export.pml), forks, Jetstream's separate messages, refill, limits on requests.  None of these
 * is a step of a single honest stream of whole commits.  A tree is the pair of its records: equal trees are equal roots.
 *
 * short: -DREVS=2 -DTROUBLES=2 -DBEHIND=1 -DMAX_HELD=1
 * long: -DREVS=3 -DTROUBLES=2 -DBEHIND=2 -DMAX_HELD=1
 * large: the short form takes longer than its compilation
 *
 * Invariants (assertions in check() and quiet()):
 *   - synchronized is true: the rows are the account's records at rev, or none after its deletion;
 *   - an event that the cursor has passed is applied (rev), or held, or a gap counts it, or the account was deleted
 *     afterwards; or the repository is desynchronized, resyncing or has a job; or a request for its status is open; or it is
 *     partial without a revision, which promises nothing;
 *   - no more events are held than the limit allows;
 *   - when nothing can move: no event waits, no fetch is noted, no question is open, no deleted account has records, and a
 *     repository of an active account is not desynchronized, unless dropped events wait for the next commit, or it is empty.
 *
 * step take_event: tables/repos/repo_effect.c atp_repos_take()
 * step judge: tables/repos/admission.c judge_event()
 * step take_account: tables/repos/repo_account.c atp_repo_take_account()
 * step hold_event: tables/repos/held.c atp_held_add()
 * step release: tables/apply/release.c atp_release()
 * step abandoned: tables/repos/resync.c atp_resync_end_abandoned()
 * step purge: tables/apply/repos_sink.c purge_records()
 * step audit: fetch/repositories/task_audit.c audit_some()
 * step begin: fetch/repositories/repo_rows.c atp_repo_job_begin()
 * step inactive: tables/export/repo_export.c atp_repo_export_inactive()
 * step look: fetch/repositories/repo_transfer.c look_at_state()
 * step slice: fetch/repositories/repo_transfer.c merge_slice()
 * step write: tables/export/merge.c compare_one()
 * step fail: fetch/repositories/repo_transfer.c atp_transfer_fail()
 * step cancel: fetch/repositories/task_repo.c cancel_some()
 * step restart: fetch/repositories/task_repo.c begin_repos()
 * step answer: fetch/repositories/task_status.c write_result()
 *
 * guard chain: a commit is lost, the next one is applied; the repository stays synchronized without the lost record.
 * guard remains: the first fetch is given up after a slice, the account removes the slice's record; its first commit arrives
 *     late, is proven to be the first, and makes the repository synchronized with the record that the account does not have.
 * guard order (-DREVERSE): a slice is written, the account is deleted and begins anew; during the next fetch its first commit is applied at once,
 *     and makes the repository synchronized with the slice's record.
 * guard missed (-DREVERSE -DT_REVERSE): the stream calls the account inactive, and then sends a commit; ignored, the commit leaves no mark, and the
 *     repository is synchronized when the account is active again.
 * guard inactive_waits (-DT_REVERSE): the same, but the account's key is in doubt: nobody can tell whether the account made the commit,
 *     so no mark is left.  The commit has to wait for the key.
 * guard active_again (-DREVERSE -DT_REVERSE): the same; the mark is there, the account becomes active, and no job ever repairs the repository.
 * guard job_lock: a slice is about to begin; the account's deletion is confirmed, its job and records go; the slice writes
 *     a record of the deleted account.
 * guard job_runs: an #account suspends the job of a running fetch, and the fetcher is killed before it lets go of the
 *     repository: the job is not reset, since it is not running, and not abandoned, since it is there.  Events wait for ever.
 * guard job_with_answer: the deletion is confirmed, the records are purged, the account begins anew with a commit that
 *     demands a fetch; then the fetcher notes that the question is answered, and removes the job of the new repository.
 * guard purge_newest: a fetch is given up after a slice, the account is deleted: records newer than rev stay for ever.
 * guard whole: more events come during a fetch than may be held; they are dropped, and the export, which is older, makes the
 *     repository synchronized.
 *
 * mark ROW: a transaction has changed the visible state: row, rev, held.
 *     row: sync + 8 * hold + 64 * active + 128 * (status is deleted) + 256 * job + 1024 * (1: a request that is not answered, 2: the same
 *     because of a deletion); rev: the number of rev; held: a bit for the number of each held revision
 * In a trace, the revisions that occur in it have the even numbers.  Nothing shows trees and records: whether a tree is the expected one is
 * chosen (any_tree).  A batch may have several events of the account.
 */
#include "observe.h"

/* sync */
#define PARTIAL		0
#define UNPROVEN	1
#define DESYNC		2
#define RESYNCING	3
#define SYNC		4
/* hold */
#define NONE		0
#define IDENTITY	1
#define RESYNC		2
#define RELEASE		3
/* job */
#define NO_JOB		0
#define QUEUED		1
#define RUNNING		2
#define SUSPENDED	3
/* request for a status */
#define NO_REQUEST	0
#define WHY_INACTIVE	1
#define WHY_DELETED	2
/* messages of the stream */
#define COMMIT		1
#define ANNOUNCE	2	/* #sync */
#define ACTIVE		3
#define INACTIVE	4
#define DELETED		5
/* the fetcher */
#define IDLE		0
#define READING		1
#define FIRST		2	/* before the first slice */
#define SECOND		3
#define FAILING		4	/* the row is to be released */
#define FAILED		5	/* the job is to be noted */

/* the account at its server */
byte tip = 0;
byte hist_a[REVS + 1];		/* the first record at each revision; 0: none */
bit hist_b[REVS + 1];		/* the second */
bit first[REVS + 1];		/* the first commit of an account's repository */
bool srv_active = true, srv_gone = false;
byte born = 1;			/* the first commit since the account was last deleted */
chan stream = [2] of { byte, byte };
byte troubles = 0;		/* losses, failures, changes of the account … so far */
bool key_known = true;

/* the row of repo */
NUMBER rev = 0;			/* 0: null */
byte sync = PARTIAL, hold = NONE;
bool is_active = true, deleted = false;	/* status: deleted */
NUMBER deleted_rev = 0, purge_rev = 0;
bool host_said = false;		/* the account's server has set active since the last #account */
/* the rows of record, held_event, repo_job, status_request, gap */
byte row_a = 0, row_b = 0, rev_a = 0, rev_b = 0;
int held = 0;			/* a bit for each revision */
byte job = NO_JOB;
byte request = NO_REQUEST;
bool answered = false, stale = false;	/* stale: a newer #account came since the request */
int gap = 0;				/* a bit for each revision that it counts */
byte n = 0;
#ifdef TRACE
int last_row = 64, last_rev, last_held;	/* the last mark */
bool any_tree = false;
#endif

/* the fetcher's memory */
byte fetch = IDLE, export = 0;
bool touched = false;		/* a slice of the export may be in the tables */
bool newer_account = false;	/* an #account came since the fetch began */
bool stopped = false;		/* the fetcher has ended, and not begun again */
bool later = false;		/* the failed fetch is noted in its job as a fault */
bool renewed = false;		/* the request was written again, for a newer #account, since the server was asked */
bool asking = false, said_active = false;	/* the answer is in the tables, and not noted */

#ifdef WITHOUT_job_with_answer
bool applied = false;
#endif

/* what the cursor has passed, and how it may be excused */
int passed = 0;
bool dropped = false;		/* held events were dropped: the next commit demands a fetch */

/* how many messages the stream may be behind the account */
#define may_send	(len(stream) < BEHIND)

#define BIT(r)		(1 << (r))
#define is_empty	(rev == 0 || (deleted_rev != 0 && deleted_rev == rev))
#define is_deleted	(!is_active && deleted && is_empty)
#define any_rows	(row_a != 0 || row_b != 0)
#ifdef TRACE
#define same_tree(x, y)	any_tree
#define rows_are(r)	any_tree
#else
#define same_tree(x, y)	(hist_a[x] == hist_a[y] && hist_b[x] == hist_b[y])
#define rows_are(r)	(row_a == hist_a[r] && row_b == hist_b[r])
#endif
#define newest_row	(rev_a > rev_b -> rev_a : rev_b)
/* atp_repo_has_remains() of repo_account.c */
#define has_remains	(is_empty && sync == DESYNC && (purge_rev != 0 || (rev != 0 -> newest_row > rev : any_rows)))

#define ROW	1
#ifdef TRACE
#define HAS_COMMITS	true
#else
#define HAS_COMMITS	(tip > 0)
#endif
#define mark_of_row	(sync + 8 * hold + 64 * is_active + 128 * deleted + 256 * job + 1024 * (answered -> 0 : request))
#define mark_of_account	(3 * 64 + 3 * 256)	/* what an #account changes */

inline count_held()
{
	d_step {
		n = 0; i = 1;
		do
		:: i <= REVS -> n = n + ((held >> i) & 1); i++
		:: else -> break
		od;
		i = 0
	}
}

/* This is true after each transaction. */
inline check()
{
#ifdef TRACE
	if
	:: last_row != mark_of_row || last_rev != rev || last_held != held ->
		last_row = mark_of_row; last_rev = rev; last_held = held;
		OBSERVE(ROW, last_row, last_rev, last_held)
	:: else
	fi
#else
	assert(sync != SYNC || purge_rev != 0 || (is_empty -> !any_rows : rows_are(rev)));	/* without chain, order, remains */
	d_step {
		i = born;
		do
		:: i <= REVS && !srv_gone ->
			assert(!(passed & BIT(i)) || i <= rev || (held & BIT(i)) || sync == DESYNC || sync == RESYNCING || job != NO_JOB || (gap & BIT(i)) ||
				(request != NO_REQUEST && !answered) || (rev == 0 && sync == PARTIAL));	/* without inactive_waits, missed, whole */
			i++
		:: else -> break
		od;
		i = 0
	}
#endif
}

/* In a trace, the number of troubles is not limited. */
inline trouble()
{
#ifdef TRACE
	skip
#else
	troubles++
#endif
}

inline drop_held(r)
{
	if
	:: hold == RESYNC || rev != 0 -> sync = DESYNC; dropped = true
	:: else -> gap = gap | held | BIT(r)
	fi;
	held = 0;
	if
	:: hold != RESYNC -> hold = NONE
	:: else
	fi
}

/* The event waits from now on; at_most: the limit of held events. */
inline hold_event(r, why)
{
	count_held();
	if
	:: n < MAX_HELD || (held & BIT(r)) ->
		held = held | BIT(r);
		if
		:: hold == NONE -> hold = why
		:: else
		fi
	:: else -> drop_held(r)
	fi;
	n = 0
}

inline request_job()
{
	if
#ifdef NO_BACKFILL
	/* in a trace, a subscription that fetches nothing */
	:: true
#else
	:: job == NO_JOB || job == SUSPENDED -> job = QUEUED
#endif
	:: else
	fi
}

inline suspend_job()
{
	if
	:: job != NO_JOB -> job = SUSPENDED
	:: else
	fi
}

inline request_status(why)
{
	if
	:: why == WHY_DELETED || request == NO_REQUEST || stale -> request = why; answered = false; renewed = renewed || stale; stale = false
	:: else
	fi
}

/* ATP_PUT_RECORDS, ATP_DELETE_RECORDS: never over a newer row. */
inline put(row, row_rev, value, r)
{
	if
	:: row == 0 || row_rev <= r ->
		row = value;
		row_rev = (value == 0 -> 0 : r)
	:: else
	fi
}

/* take_commit(), judge_commit(): the event is applied. */
inline apply(kind, r)
{
	if
	:: kind == COMMIT && first[r] && is_empty ->
		if
#ifndef WITHOUT_remains
		:: has_remains
#endif
		:: else -> sync = SYNC
		fi
	:: kind == COMMIT && !(first[r] && is_empty) && rev != 0 ->
		if
#ifndef WITHOUT_chain
		:: is_empty || first[r] || !same_tree(rev, r - 1) -> sync = DESYNC
#endif
		:: else
		fi
	:: kind == ANNOUNCE && rev != 0 ->
		if
		:: is_empty || !same_tree(rev, r) -> sync = DESYNC
		:: else
		fi
	:: else
	fi;
	if
	:: kind == COMMIT && (first[r] -> hist_a[r] != 0 : hist_a[r] != hist_a[r - 1]) -> put(row_a, rev_a, hist_a[r], r)
	:: kind == COMMIT && (first[r] -> hist_b[r] != 0 : hist_b[r] != hist_b[r - 1]) -> put(row_b, rev_b, hist_b[r], r)
	:: else
	fi;
	/* the commit's proof may be incomplete */
	if
	:: kind == COMMIT && sync == SYNC -> sync = UNPROVEN
	:: true
	fi;
	rev = r;
	dropped = false;
	if
	:: sync == DESYNC && is_active -> request_job()
	:: else
	fi
}

/* judge; V-38: the account is not active, so the event is ignored. */
#define is_missed(kind, r)	(!is_deleted && (kind == COMMIT || is_empty || !same_tree(rev, r)))

inline pass_inactive(kind, r)
{
	if
#ifndef WITHOUT_missed
	:: key_known && r > rev && is_missed(kind, r) -> sync = DESYNC
#endif
	:: else
	fi
}

/* V-38; whether the account made the event has to be known */
#ifndef WITHOUT_inactive_waits
#define passes(r)	(!is_active && (r <= rev || key_known))
#else
#define passes(r)	(!is_active)
#endif

/* V-42: an event waits behind those that wait, and while the repository is fetched */
#ifndef WITHOUT_order
#define waits	(held != 0 || hold == RESYNC)
#else
#define waits	false
#endif

inline take_event(kind, r)
{
	if
	:: kind == COMMIT -> passed = passed | BIT(r)
	:: else
	fi;
	if
	:: passes(r) ->
		pass_inactive(kind, r);
		/* V-39 */
		if
		:: kind == COMMIT && key_known && r > rev -> request_status(WHY_INACTIVE)
		:: else
		fi
	:: !passes(r) && r > rev && (waits || !key_known) -> hold_event(r, IDENTITY)
	:: !passes(r) && r > rev && !waits && key_known -> apply(kind, r)
	:: else
	fi
}

inline take_account(kind)
{
	stale = true;
	newer_account = true;
	if
	:: kind == ACTIVE ->
		if
#ifndef WITHOUT_active_again
		:: sync == DESYNC && !is_active && !is_empty -> request_job()
#endif
		:: else ->
			if
			:: job == SUSPENDED -> job = QUEUED
			:: else
			fi
		fi;
		is_active = true; deleted = false
	:: kind == INACTIVE -> is_active = false; deleted = false; suspend_job()
	:: kind == DELETED ->
		if
		:: !is_empty || hold == RESYNC || has_remains ->
			is_active = false; deleted = true;
			request_status(WHY_DELETED);
			suspend_job()
		:: else ->
			is_active = false; deleted = true;
			if
			:: held != 0 -> gap = gap | held; request_status(WHY_DELETED)
#ifdef TRACE
			/* an event of the same batch has waited, which no transaction shows */
			:: held == 0 && !key_known -> request_status(WHY_DELETED)
			:: held == 0
#else
			:: else
#endif
			fi;
			/* erase_export() */
			job = NO_JOB;
			row_a = 0; row_b = 0; rev_a = 0; rev_b = 0;
			deleted_rev = (rev != 0 -> rev : deleted_rev);
			held = 0;
			if
			:: hold != RESYNC -> hold = NONE
			:: else
			fi
		fi
	fi;
	host_said = false
}

/* A held event is judged by the status at its place in the stream. */
#define ignored_by_status	(!is_active && (host_said || is_deleted))

/* atp_release(): the held events in the order of their revisions, until one waits on. */
inline release_all()
{
	j = 1;
	do
	:: j <= REVS ->
		if
		:: !(held & BIT(j))
		:: (held & BIT(j)) && ignored_by_status -> pass_inactive(COMMIT, j); held = held & ~BIT(j)
		:: (held & BIT(j)) && !ignored_by_status && j <= rev -> held = held & ~BIT(j)
		:: (held & BIT(j)) && !ignored_by_status && j > rev && key_known -> held = held & ~BIT(j); apply(COMMIT, j)
		:: (held & BIT(j)) && !ignored_by_status && j > rev && !key_known -> break
#ifdef TRACE
		/* its signature does not fit (held.pml) */
		:: (held & BIT(j)) && !ignored_by_status && j > rev && key_known -> break
#endif
		fi;
		j++
	:: else -> break
	od;
	j = 0;
	hold = (held == 0 -> NONE : IDENTITY)
}

/* atp_repo_give_up() */
inline give_up()
{
	if
	:: sync == RESYNCING -> sync = (rev != 0 || any_rows -> DESYNC : PARTIAL)
	:: else
	fi;
	if
	:: hold == RESYNC -> hold = (held == 0 -> NONE : RELEASE)
	:: else
	fi
}

/* ------------------------------------------------------------------------
 * The account, its server and the stream
 * ------------------------------------------------------------------------
 */
/* A commit; a lost one may be announced by a #sync of its tree. */
inline make_commit(is_first)
{
	tip++;
	first[tip] = is_first;
	born = (is_first -> tip : born);
	hist_a[tip] = (is_first -> 0 : hist_a[tip - 1]);
	hist_b[tip] = (is_first -> 0 : hist_b[tip - 1]);
	if
	:: hist_a[tip] = (hist_a[tip] + 1) % 3
	:: hist_a[tip] != 0 -> hist_a[tip] = hist_a[tip] - 1
	:: hist_b[tip] = 1 - hist_b[tip]
	fi;
	if
	:: stream ! COMMIT, tip
	:: troubles < TROUBLES -> trouble()
	:: troubles < TROUBLES -> trouble(); stream ! ANNOUNCE, tip
	fi
}

#ifdef TRACE
/* The stream is in consumer(). */
active proctype account()
{
end_account:
	do
	:: atomic { any_tree = !any_tree }
	:: atomic { key_known = !key_known }
	:: atomic { srv_active = !srv_active; srv_gone = false }
	:: atomic { !srv_active -> srv_gone = !srv_gone }
	/* a list, or a session, demands a fetch */
	:: atomic { job == NO_JOB -> job = QUEUED; check() }
	/* a session demands an audit */
	:: atomic { (sync == PARTIAL || sync == SYNC) && hold != RESYNC && !is_empty -> sync = (any_tree -> SYNC : DESYNC); check() }
	od
}
#else
active proctype account()
{
	/* a list, or a session, demands a fetch */
	atomic {
		if
		:: job = QUEUED
		:: true
		fi
	};
end_account:
	do
	:: atomic { tip < REVS && srv_active && may_send -> make_commit(tip == 0) }
	:: atomic { troubles < TROUBLES && srv_active && may_send -> trouble(); srv_active = false; stream ! INACTIVE, 0 }
	:: atomic { !srv_active && !srv_gone && may_send -> srv_active = true; stream ! ACTIVE, 0 }
	/* the account begins anew, with a commit */
	:: atomic { srv_gone && tip < REVS && empty(stream) -> srv_active = true; srv_gone = false; stream ! ACTIVE, 0; make_commit(true) }
	:: atomic { troubles < TROUBLES && tip > 0 && !srv_gone && may_send -> trouble(); srv_gone = true; srv_active = false; stream ! DELETED, 0 }
	/* the relay calls the account deleted, or inactive */
	:: atomic { troubles < TROUBLES && tip > 0 && may_send -> trouble(); stream ! DELETED, 0 }
	:: atomic { troubles < TROUBLES && tip > 0 && may_send -> trouble(); stream ! INACTIVE, 0 }
	/* an #identity casts doubt on the key; the look-up ends, and queues the held events */
	:: atomic { troubles < TROUBLES && key_known -> trouble(); key_known = false }
	:: atomic { !key_known -> key_known = true }
	:: key_known && tip > 0 -> break
	od
}
#endif

#ifndef WITHOUT_job_runs
#define is_abandoned	(job != RUNNING)
#else
#define is_abandoned	(job == NO_JOB)
#endif

/* ------------------------------------------------------------------------
 * The consumer
 * ------------------------------------------------------------------------
 */
active proctype consumer()
{
	byte kind, r, i, j;

end_consumer:
	do
#ifdef TRACE
	/* a batch with as many events as the next mark demands */
	:: atomic {
		PEEK;
		do
		:: next_b > tip || next_c >= BIT(tip + 1) ->
			tip++;
			if
			:: tip % 2 == 1
			/* a commit of the same batch, which the trace does not show */
			:: tip % 2 == 1 && rev == 0 && tip < next_b -> first[tip] = 0; take_event(COMMIT, tip)
			:: tip % 2 == 0 ->
				if
				:: first[tip] = 0
				:: is_empty -> first[tip] = 1
				fi;
				if
				:: kind = COMMIT
				/* of an event that waits, no kind is kept */
				:: !(next_c & BIT(tip)) -> kind = ANNOUNCE
				fi;
				take_event(kind, tip);
				kind = 0
			fi
		:: ((next_a ^ mark_of_row) & mark_of_account) ->
			kind = (next_a & 64 -> ACTIVE : (next_a & 128 -> DELETED : INACTIVE));
			take_account(kind);
			kind = 0;
			/* a commit behind it, which the trace does not show */
			if
			:: true
			:: !is_active && key_known && !is_deleted -> sync = DESYNC
			fi;
			break
		/* an #identity of the same batch */
		:: key_known && next_c >= BIT(tip + 1) -> key_known = false
		:: break
		od;
		next_step = 0; next_a = 0; next_b = 0; next_c = 0;
		check()
	   }
#else
	:: atomic {
		stream ? kind, r ->
		if
		:: kind == COMMIT || kind == ANNOUNCE -> take_event(kind, r)
		:: else -> take_account(kind)
		fi;
		check();
		kind = 0; r = 0
	   }
#endif
	:: atomic { (hold == RELEASE || (hold == IDENTITY && key_known)) -> release_all(); check() }
	/* atp_resync_end_abandoned(): a fetch is noted, and none is under way */
	:: atomic {
		hold == RESYNC && is_abandoned ->
		give_up(); check()
	   }
	/* purge */
	:: atomic {
		purge_rev != 0 ->
		if
		:: rev_a <= purge_rev -> row_a = 0; rev_a = 0
		:: else
		fi;
		if
		:: rev_b <= purge_rev -> row_b = 0; rev_b = 0
		:: else
		fi;
		purge_rev = 0; check()
	   }
	:: atomic { sync == UNPROVEN && hold != RESYNC && !is_empty && purge_rev == 0 -> sync = (rows_are(rev) -> SYNC : DESYNC); check() }
	od
}

/* ------------------------------------------------------------------------
 * The fetcher
 * ------------------------------------------------------------------------
 */

/* atp_repo_export_refused() with an export */
#define refused		(!is_active || hold != RESYNC || purge_rev != 0 || (deleted_rev != 0 && export <= deleted_rev) || export < rev)
/* A record of the export is written over what is there (export.pml). */
inline write(row, row_rev, value)
{
	row_rev = (value == 0 -> 0 : (row == value -> row_rev : export));
	row = value
}

/* atp_transfer_fail(): release first, then note the failure in the job. */
inline fail(noted)
{
	fetch = FAILING; later = noted
}

active proctype fetcher()
{
	byte i;

end_fetcher:
	do
	/* atp_repo_job_begin() */
	:: atomic {
		!stopped && fetch == IDLE && job == QUEUED && (!is_active || ((held == 0 || hold == RESYNC) && purge_rev == 0)) ->
		if
		:: !is_active -> job = SUSPENDED
		:: else -> hold = RESYNC; sync = RESYNCING; job = RUNNING; fetch = READING; touched = false; newer_account = false
		fi;
		check()
	   }
	:: atomic {
		fetch == READING && srv_active && HAS_COMMITS && key_known ->
#ifdef TRACE
		export = REVS;	/* which one, the end shows */
#else
		export = tip;
#endif
		fetch = FIRST
	   }
	/* is_inactive(): the account's server says that the account is not active, or deleted */
	:: atomic {
		fetch == READING && !srv_active ->
		if
		:: !newer_account && !(srv_gone && answered) ->
			is_active = false; deleted = srv_gone; host_said = true;
			if
			:: srv_gone -> request_status(WHY_DELETED)
			:: else
			fi
		:: else
		fi;
		give_up();
		if
		:: !is_active -> suspend_job(); fetch = IDLE
		:: else -> fail(true)
		fi;
		check()
	   }
	:: atomic { fetch == READING && troubles < TROUBLES -> trouble(); fail(true) }
	/* cancel_some() */
	:: atomic { fetch == READING && job != RUNNING -> fail(false) }
	/* look_at_state() */
	:: atomic {
		(fetch == FIRST || fetch == SECOND) ->
		if
		:: refused ->
			if
			:: !is_active -> suspend_job()
			:: else
			fi;
			fail(is_active)
		:: else
		fi
	   };
	   /* merge_slice(); the job is locked at the end */
	   if
	   :: atomic {
		fetch == FIRST ->
		if
#ifndef WITHOUT_job_lock
		:: job != RUNNING -> fail(false)
#endif
		:: else ->
			touched = true;
			write(row_a, rev_a, hist_a[export]);
			fetch = SECOND
		fi;
		check()
	      }
	   :: atomic {
		fetch == SECOND ->
#ifdef TRACE
		PEEK;
		export = (next_b > 0 -> next_b : export);
		next_step = 0; next_a = 0; next_b = 0; next_c = 0;
#endif
		if
		:: refused -> fail(true)
		:: !refused && job != RUNNING -> fail(false)
		:: else ->
			/* atp_repo_export_end() */
			write(row_b, rev_b, hist_b[export]);
			rev = export;
			if
#ifndef WITHOUT_whole
			:: sync != RESYNCING -> sync = DESYNC; job = QUEUED
#endif
			:: else -> sync = SYNC; job = NO_JOB
			fi;
			hold = (held == 0 -> NONE : RELEASE);
			fetch = IDLE
		fi;
		check()
	      }
	   :: fetch != FIRST && fetch != SECOND
	   fi
	:: atomic {
		fetch == FAILING ->
		if
		:: give_up()
		/* the row is locked: the events stay held */
		:: troubles < TROUBLES -> trouble()
		fi;
		if
		:: is_deleted && touched && !(request == WHY_DELETED && !answered) && (row_a != 0 && rev_a <= export || row_b != 0 && rev_b <= export) ->
			purge_rev = (purge_rev > export -> purge_rev : export)
		:: else
		fi;
		fetch = FAILED;
		check()
	   }
	:: atomic {
		fetch == FAILED ->
		if
		:: later && job != NO_JOB -> job = QUEUED
		:: else
		fi;
		fetch = IDLE
	   }
	/* begin_repos() */
	:: atomic {
		stopped ->
		stopped = false;
		if
		:: job == RUNNING -> job = QUEUED
		:: else
		fi
	   }
	od
}

/* The fetcher asks the account's server for the account's status; it is killed. */
active proctype others()
{
	byte i;

end_others:
	do
	:: atomic {
		!stopped && !asking && request != NO_REQUEST && !answered ->
		if
		:: srv_gone ->
			if
			:: !is_active && !stale ->
				deleted = true;
				purge_rev = (purge_rev > rev -> purge_rev : rev);
				if
#ifndef WITHOUT_purge_newest
				:: sync != SYNC && sync != UNPROVEN && newest_row > purge_rev -> purge_rev = newest_row
#endif
				:: else
				fi;
				deleted_rev = (rev != 0 -> rev : deleted_rev);
				held = 0;
				if
				:: hold != RESYNC -> hold = NONE
				:: else
				fi;
#ifndef WITHOUT_job_with_answer
				job = NO_JOB
#else
				applied = true
#endif
			:: else
			fi
		:: else ->
			if
			:: !is_active && !stale && (srv_active || deleted) ->
				is_active = srv_active; deleted = false;
				if
				:: srv_active -> sync = DESYNC
				:: else
				fi
			:: else
			fi
		fi;
		asking = true; renewed = false;
		said_active = srv_active;
		check()
	   }
	:: atomic {
		asking ->
		answered = !renewed; asking = false;
#ifdef WITHOUT_job_with_answer
		if
		:: applied -> job = NO_JOB; applied = false
		:: else
		fi;
#endif
		if
		:: said_active -> request_job()
		:: else
		fi;
		said_active = false;
		check()
	   }
	:: atomic { answered && !asking -> answered = false; request = NO_REQUEST }
	:: atomic { troubles < TROUBLES && (fetch != IDLE || asking) -> trouble(); stopped = true; fetch = IDLE; asking = false; said_active = false }
	od
}

/* Nothing can move. */
active proctype quiet()
{
	timeout ->
	assert(empty(stream) && fetch == IDLE && !stopped);
	assert(held == 0 && hold == NONE);	/* without job_runs */
	assert(sync != RESYNCING && purge_rev == 0);
	assert(job == NO_JOB || (job == SUSPENDED && !is_active));
	assert(request == NO_REQUEST);
	assert(sync != DESYNC || job != NO_JOB || !is_active || dropped || is_empty);	/* without active_again, job_with_answer */
	assert(!srv_gone || !deleted || !any_rows)	/* without job_lock, purge_newest */
}
