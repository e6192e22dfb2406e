/*
 * One account whose collections are proven: by a sparse fetch, by its commits, and by an audit that only compares.
 *
 * The account has two collections of one record each.  A stream brings its commits in order: whole, without their records, as
 * events of a Jetstream, or not at all.  The fetcher walks the collections of the filter and writes what differs (a sparse fetch);
 * an audit walks them and only compares.  The operator narrows and widens the filter.  An archive may have invented a record, with a
 * revision that the account's server does not have.
 * A number stands for a revision: slot r has a commit of one record.  The server has the slots up to tip.
 *
 * The code is stricter than the audit of this model: it keeps no differences by path until the stream has passed the audit's commit, but
 * walks and compares again.
 *
 * Left out: the walk itself, which is complete or has no effect (S-15); signatures; events that wait during a fetch: here the stream
 * waits; several subscriptions; samples.
 *
 * short: -DN=3 -DFETCHES=1 -DCHANGES=2 -DBOTH=false
 * long: -DN=3 -DFETCHES=2 -DCHANGES=2 -DBOTH=true
 * large: the short form takes longer than its compilation
 *
 * BOTH: audits, and changes of the filter, in one run.
 *
 * Invariants:
 * - synchronized is true: within the filter, the records are the account's at rev (check()).
 * - proved is true: in the proved collections, no record is older than its last commit up to proved_rev (check()).
 * - What an audit reports is so, and was lost somewhere; what it passes over is equal, or newer than the audit.
 * - When nothing can move, no audit and no fetch waits.
 *
 * step commit: tables/repos/proved_claim.c atp_proved_judge()
 * step incomplete: tables/repos/repo_effect.c take_commit()
 * step event: tables/repos/repo_effect.c take_commit()
 * step begin_fetch: fetch/repositories/sparse_head.c atp_sparse_set_head()
 * step merge: tables/export/repo_export.c atp_repo_export_end()
 * step walk: fetch/repositories/task_prove.c start_proof()
 * step compare: fetch/repositories/task_prove.c compare_slice()
 * step conclude: fetch/repositories/proof_rows.c atp_proof_settle()
 * step narrow: tables/repos/proved_filter.c change_claim()
 * step widen: tables/repos/proved_filter.c change_claims()
 *
 * guard from_proved: a commit came without its records, the next one continues it: proved_rev passes both.
 * guard widen: a filter gains a collection of which no record was stored; the repository stays synchronized.
 * guard narrow: a filter loses a collection, a commit of it is passed, the filter gains it again: the collection is still among the proved
 *     ones, so the repository stays synchronized.
 * guard at_merge: a filter gains a collection while a fetch is on its way; or a proof of one collection alone is asked for: the fetch moves rev,
 *     and commits up to there are old, also for the other collection.
 * guard event_ends: an event of a Jetstream leaves the repository synchronized, although commits before it are missing.
 * guard provisional: the server is ahead of the stream; the audit reports what the stream is about to bring.
 * guard again: the server is ahead; a record differs, and an event names it, so the audit takes it back; a later event, up to the audit's commit, is lost.
 * guard repaired: a record differs; a fetch that is older than the audit takes this back, and the stream loses what came between.
 * guard newer: the server is ahead; a record differs; the stream brings a commit after the audit's, which deletes it: the audit reports that it is missing.
 * guard ahead (-DREVERSE -DT_REVERSE): an archive has invented a revision that the server never reaches: the audit waits for it for ever.
 */
#include "observe.h"

#define PUT		1
#define DEL		2
/* sync */
#define PARTIAL		0
#define UNPROVEN	1
#define DESYNC		2
#define SYNCED		3
/* collections, as bits */
#define A		1
#define B		2
#define BIT(q)	(1 << (q))

/* the account */
bool lives = false;
byte tip = 0;
byte op[N + 1], on[N + 1];
byte tree[2 * N + 2];
#define TREE(r, q)	tree[2 * (r) + (q)]

/* the table record */
byte val[2];
/* the row of repo */
byte rev = 0, data = 0;		/* data 0: not known */
byte sync = PARTIAL;
byte proved = 0, proved_rev = 0;
byte filter = A + B;
byte at = 0;				/* the stream has passed this slot */

byte fetches = 0, fetched = 0, fetched_set = 0;
byte changes = 0;

/* the audit */
#define IDLE	0
#define WALKED	1
#define OPEN	2			/* with provisional differences */
#define DONE	3
byte audit = IDLE, audited = 0, rev_then = 0;
byte differs = 0;			/* bits of records */
byte reported = 0;
bool is_ahead = false;

/* only the invariants need these */
byte seen[2];				/* the last slot whose effect on the record is in the table */
byte equal = 0;				/* bits of records that the audit has found equal: what is wrong with them was lost later */
byte after = 0;				/* bits of records that the stream has named after the audit's commit */
byte lost = 0;				/* bits of records of which the tables lack a commit */

hidden byte k;
byte invented = 0;

/* the last commit of record q up to slot r; leaves it in k */
inline last_commit(q, r)
{
	k = (r);
	do
	:: k > 0 && on[k] != (q) -> k--
	:: else -> break
	od
}

inline check()
{
	assert(sync != SYNCED || !(filter & A) || val[0] == TREE(rev, 0));
	assert(sync != SYNCED || !(filter & B) || val[1] == TREE(rev, 1));
	last_commit(0, proved_rev);
	assert(!(proved & A) || seen[0] >= k);
	last_commit(1, proved_rev);
	assert(!(proved & B) || seen[1] >= k);
	k = 0
}

/* the operation of slot r */
inline operate(r)
{
	if
	:: filter & BIT(on[r]) -> val[on[r]] = TREE(r, on[r]); seen[on[r]] = r; lost = lost & ~BIT(on[r])
	:: else -> lost = lost | BIT(on[r])
	fi
}

/* An event of slot r names the record. */
inline names(r)
{
	after = (audit == OPEN && r > audited -> after | BIT(on[r]) : after);
	if
#ifndef WITHOUT_newer
	:: audit == OPEN && r > audited -> differs = differs & ~BIT(on[r])
#endif
#ifdef WITHOUT_again
	:: audit == OPEN && r <= audited -> differs = differs & ~BIT(on[r])
#endif
	:: else
	fi
}

active proctype account()
{
	byte r;

	atomic {
		tip = 1;
		do
		:: tip < N -> tip++
		:: break
		od;
		for (r : 1 .. tip) {
			if
			:: op[r] = PUT; TREE(r, 0) = r
			:: op[r] = PUT; on[r] = 1; TREE(r, 1) = r
			:: TREE(r - 1, 0) != 0 -> op[r] = DEL
			:: TREE(r - 1, 1) != 0 -> op[r] = DEL; on[r] = 1
			fi;
			TREE(r, 1 - on[r]) = TREE(r - 1, 1 - on[r])
		}
		r = 0;
		if
		:: audit = DONE
		:: changes = CHANGES
		:: BOTH
		fi;
		if
		:: skip
		/* an archive has invented a record, and rev with it */
		:: tip < N -> val[0] = N + 1; rev = tip + 1; lost = A; invented = rev
		fi;
		lives = true
	}
}

active proctype consumer()
{
	lives;
	do
	:: atomic { fetched == 0 && at < tip ->
		at++;
		if
		/* old */
		:: at <= rev && invented == 0
		:: at <= rev && invented != 0 -> lost = lost | BIT(on[at])
		/* lost */
		:: at > rev -> lost = lost | BIT(on[at])
		:: at > rev ->
			/* commit */
			operate(at); names(at);
			if
			:: data != 0 && data != at - 1 -> sync = DESYNC
			:: data != 0 && data == at - 1 ->
				if
				:: sync == SYNCED -> proved_rev = at
#ifdef WITHOUT_from_proved
				:: sync == UNPROVEN -> proved_rev = at
#endif
				:: else
				fi
			:: data == 0
			fi;
			rev = at; data = at
		:: at > rev ->
			/* incomplete */
			lost = lost | BIT(on[at]);
			sync = (sync == DESYNC || (data != 0 && data != at - 1) -> DESYNC : (sync == SYNCED -> UNPROVEN : sync));
			rev = at; data = at
		:: at > rev ->
			/* event */
			operate(at); names(at);
#ifndef WITHOUT_event_ends
			sync = (sync == SYNCED -> PARTIAL : sync);
#endif
			rev = at; data = 0
		fi;
		check()
	   }
	:: atomic { at == tip -> break }
	od
}

/* The server is as far as the stream and other proofs have shown, or further. */
#define SERVER_HAS	(invented == 0 && rev > at -> rev : (at > 0 -> at : 1))

active proctype fetcher()
{
	lives;
	do
	:: atomic { fetches < FETCHES && fetched == 0 && audit != WALKED ->
		/* begin_fetch */
		fetches++;
		if
		:: fetched_set = filter
		/* only this collection is asked for */
		:: fetched_set = A
		fi;
		fetched = SERVER_HAS;
		do
		:: fetched < tip -> fetched++
		:: break
		od
	   }
	:: atomic { fetched != 0 ->
		/* merge */
		if
#ifndef WITHOUT_at_merge
		:: (filter & ~fetched_set) != 0 -> fetched = 0; fetched_set = 0
#endif
		:: else ->
			if
			:: fetched_set & A -> val[0] = TREE(fetched, 0); seen[0] = fetched; lost = lost & ~A
			:: else
			fi;
			if
			:: fetched_set & B -> val[1] = TREE(fetched, 1); seen[1] = fetched; lost = lost & ~B
			:: else -> lost = lost | B
			fi;
#ifndef WITHOUT_repaired
			differs = (fetched >= audited -> differs & ~fetched_set : differs);
#else
			differs = differs & ~fetched_set;
#endif
			after = (audit == OPEN && fetched > audited -> after | fetched_set : after);
			rev = fetched; data = fetched; invented = 0;
			proved = fetched_set & filter; proved_rev = fetched; sync = SYNCED;
			fetched = 0; fetched_set = 0
		fi;
		check()
	   }
	:: atomic { fetched == 0 -> break }
	od
}

active proctype operator()
{
	lives;
	do
	:: atomic { changes < CHANGES && filter == A + B ->
		/* narrow */
		changes++;
		filter = A;
#ifndef WITHOUT_narrow
		proved = proved & A;
#endif
		check()
	   }
	:: atomic { changes < CHANGES && filter == A ->
		/* widen */
		changes++;
		filter = A + B;
#ifndef WITHOUT_widen
		if
		:: sync == SYNCED && (filter & ~proved) != 0 -> sync = PARTIAL
		:: else
		fi;
#endif
		check()
	   }
	:: atomic { changes > 0 || CHANGES == 0 || fetches == FETCHES -> break }
	od
}

#ifdef WITHOUT_provisional
#define IS_FINAL	true
#else
#define IS_FINAL	(audited <= at || audited <= rev)
#endif

active proctype auditor()
{
	lives;
end_auditor:
	do
	:: atomic { audit == IDLE && fetched == 0 ->
		/* walk */
		audit = WALKED; rev_then = rev;
		audited = SERVER_HAS;
		do
		:: audited < tip -> audited++
		:: break
		od
	   }
	:: atomic { audit == WALKED && fetched == 0 ->
		/* compare */
		if
#ifndef WITHOUT_ahead
		:: audited < rev && rev == rev_then -> is_ahead = true; audit = DONE
#endif
		:: audited >= rev ->
			differs = ((filter & A) && val[0] != TREE(audited, 0)) + B * ((filter & B) && val[1] != TREE(audited, 1));
			equal = A + B - differs;
			audit = OPEN
		/* later */
		:: audited < rev && rev != rev_then && rev <= tip -> audit = IDLE; audited = 0; rev_then = 0
		fi
	   }
	:: atomic { audit == OPEN && IS_FINAL && fetched == 0 ->
		/* conclude */
		differs = differs & filter;
		if
		:: (differs & A) && val[0] != TREE(audited, 0) -> reported = reported | A
		:: else
		fi;
		if
		:: (differs & B) && val[1] != TREE(audited, 1) -> reported = reported | B
		:: else
		fi;
		/* what is reported was lost */
		assert(!(reported & ~lost));	/* without provisional, newer */
		/* what is not reported is equal, or newer */
		assert(!(filter & A) || (reported & A) || val[0] == TREE(audited, 0) || ((equal | after) & A));	/* without again */
		assert(!(filter & B) || (reported & B) || val[1] == TREE(audited, 1) || ((equal | after) & B));	/* without again */
		differs = 0; audit = DONE
	   }
	od
}

active proctype quiet()
{
	atomic { timeout -> assert(audit == DONE && fetched == 0) }
}
