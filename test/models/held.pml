/*
 * The key of one account at level full: events that wait for it, and look-ups.
 *
 * The account changes its key in the directory, announces this by an #identity, and signs its next commits with the new key.
 * A stranger forges a commit.  A look-up reads the directory when it begins, and its answer is written when it ends; it may
 * fail.  Each commit is judged when it comes, and again after each look-up, in order.
 *
 * Left out: the times between look-ups, limits of held events (repository.pml), other owners of doubts, chains of commits.
 * A commit that the former key has signed may be refused once the directory has the new one: nobody knows former keys.  So
 * may a commit with a new key that no #identity has announced, if a look-up that began before the change ends after the
 * commit has come: by rule V-41 the first look-up counts.
 *
 * short: -DEVENTS=3 -DFAILS=1
 * long: -DEVENTS=6 -DFAILS=3
 *
 * Invariants:
 *   - no commit that the account has signed with its present key, once announced, is refused;
 *   - no commit that somebody has signed with the former key is applied after the #identity has come, unless a look-up has failed
 *     (that a signature which fits no key is never true needs no search);
 *   - commits are applied in the order of the stream;
 *   - when nothing can move, no commit waits, and no doubt is left.
 *
 * step announce: identity/identity.c atp_identities_doubt()
 * step begin: fetch/identities/task_identity.c start_lookup()
 * step end: fetch/identities/task_identity.c write_answers()
 * step has_key: tables/repos/admission_after.c atp_admission_has_key()
 * step by_signature: tables/repos/admission_after.c atp_admission_by_signature()
 * step wait_again: tables/repos/held.c atp_held_wait_again()
 * step order: tables/repos/hold.c atp_hold_stops()
 *
 * guard second: a look-up that began before the change ends after the #identity and the commit have come; its key does not
 *     fit, and the commit is refused.
 * guard said: the same, and the end of that look-up clears the doubt that the #identity has cast meanwhile; the commit waits
 *     for a signature with the former key, so the next commit of a stranger who has this key is applied.
 * guard answered: the look-up after the change fails; the known key does not fit, and the commit is refused.
 * guard doubt: the key is stolen, the account has replaced and announced it; before the look-up ends, a commit that the
 *     former key has signed is applied.
 * guard behind: a commit waits behind a forged one; the #identity came before the commit, and after the look-up for the forged
 *     one had begun; when this look-up ends, both are refused.
 * guard order: a commit waits for the look-up, the next one, which the known key fits, does not wait behind it.
 */
#include "observe.h"

#define OLD		0	/* keys; FORGED fits none */
#define NEW		1
#define FORGED		2
#define IDENTITY	1	/* why */
#define SIGNATURE	2
#define HELD		0	/* verdicts */
#define TRUE		1
#define FALSE		2

bool directory = OLD, announced = false;
byte sent = 0, fails = 0;
chan stream = [2] of { byte };	/* a commit with this signature, or 3: #identity */

/* the row of identity */
bool key = OLD, stale = false, doubted = false, said = false, error = false;
byte asked = 0;			/* which look-up has ended last */
bool request = false;
/* the look-up that runs */
bool looking = false, seen = OLD;

/* held events: signature, why, the look-up at which the wait began */
byte nheld = 0;
byte sig[EVENTS], why[EVENTS], since[EVENTS];
bool after_announcement[EVENTS];
bool behind[EVENTS];		/* why = order: it has the reason of the event before it, and was never judged */
bool was_announced = false;	/* the tables have the #identity */
byte verdict = HELD, reason = 0;

#ifndef WITHOUT_doubt
#define in_doubt	doubted
#else
#define in_doubt	false
#endif
#ifndef WITHOUT_second
#define may_pass(w, s, b)	(w == SIGNATURE && s != asked && !(b))
#else
#define may_pass(w, s, b)	(w != 0 && s != asked)
#endif
#ifndef WITHOUT_answered
#define answered(s)	(s != asked && !error)
#else
#define answered(s)	(s != asked)
#endif

#ifndef WITHOUT_behind
#define is_behind(e)	behind[e]
#else
#define is_behind(e)	false
#endif

/* w: 0, or why the event waits; s: since which look-up */
inline judge(signature, w, s, b)
{
	if
	:: in_doubt && !may_pass(w, s, b) ->
		verdict = HELD;
		reason = (w != 0 && s != asked -> SIGNATURE : IDENTITY);
		request = true
	:: !(in_doubt && !may_pass(w, s, b)) ->
		if
		/* has_key */
		:: signature == key -> verdict = TRUE
		/* by_signature */
		:: signature != key && w == SIGNATURE && answered(s) -> verdict = FALSE
		:: signature != key && !(w == SIGNATURE && answered(s)) -> verdict = HELD; reason = SIGNATURE; request = true
		fi
	fi
}

inline outcome(signature, announcement)
{
	/* after the #identity has come, a commit of the former key is not the account's; after a look-up that failed, the known key counts */
	assert(verdict != TRUE || signature != OLD || !announcement || fails > 0);	/* without doubt */
	assert(verdict != FALSE || signature != NEW)	/* without answered, behind, said, second */
}

active proctype account()
{
end_account:
	do
	:: atomic { directory == OLD && nfull(stream) -> directory = NEW; announced = true; stream ! 3 }
	:: atomic { sent < EVENTS && nfull(stream) -> sent++; stream ! directory }
	:: atomic { sent < EVENTS && nfull(stream) -> sent++; stream ! FORGED }
	/* somebody has the former key */
	:: atomic { sent < EVENTS && announced && nfull(stream) -> sent++; stream ! OLD }
	od
}

active proctype consumer()
{
	byte message, i, w;
	bool waits_behind;

end_consumer:
	do
	:: atomic {
		stream ? message ->
		if
		/* announce */
		:: message == 3 -> stale = true; said = true; doubted = true; request = true; was_announced = true
		:: message != 3 ->
			if
#ifndef WITHOUT_order
			:: nheld > 0 -> verdict = HELD; reason = why[nheld - 1]; waits_behind = true
#endif
			:: else -> judge(message, 0, 0, false)
			fi;
			if
			:: verdict == HELD ->
				sig[nheld] = message; why[nheld] = reason; since[nheld] = asked; after_announcement[nheld] = was_announced; behind[nheld] = waits_behind;
				nheld++
			:: else ->
				/* nothing before it waits */
				assert(nheld == 0);	/* without order */
				outcome(message, was_announced)
			fi
		fi;
		message = 0; verdict = HELD; reason = 0; waits_behind = false
	   }
	/* atp_release(): an event with why = order has the reason of the event before it */
	:: atomic {
		nheld > 0 && since[0] != asked ->
		do
		:: nheld > 0 ->
			/* an event that waits behind another one has its reason */
			why[0] = (behind[0] && w != 0 -> w : why[0]);
			judge(sig[0], why[0], since[0], is_behind(0));
			if
			:: verdict == HELD -> break
			:: else
			fi;
			outcome(sig[0], after_announcement[0]);
			w = why[0];
			i = 1;
			do
			:: i < nheld ->
				sig[i - 1] = sig[i]; since[i - 1] = since[i]; after_announcement[i - 1] = after_announcement[i];
				why[i - 1] = why[i]; behind[i - 1] = behind[i]; i++
			:: else -> break
			od;
			nheld--;
			sig[nheld] = 0; why[nheld] = 0; since[nheld] = 0; after_announcement[nheld] = false; behind[nheld] = false
		:: else -> break
		od;
		/* atp_held_wait_again(): this event waits for a newer look-up, and those that were judged before */
		if
		:: nheld > 0 && verdict == HELD && reason == SIGNATURE && since[0] != asked ->
			behind[0] = false;
			i = 0;
			do
			:: i < nheld ->
				if
				:: !is_behind(i) -> why[i] = SIGNATURE; since[i] = asked
				:: else
				fi;
				i++
			:: else -> break
			od
		:: else
		fi;
		i = 0; w = 0; verdict = HELD; reason = 0
	   }
	od
}

active proctype fetcher()
{
end_fetcher:
	do
	/* begin: an #identity from now on casts a doubt that this look-up does not end */
	:: atomic { request && !looking -> request = false; looking = true; seen = directory; stale = false; said = false }
	:: atomic {
		looking ->
		looking = false;
		asked++;
		if
		:: key = seen; error = false
		:: fails < FAILS -> fails++; error = true; request = true
		fi;
#ifndef WITHOUT_said
		doubted = said;
#else
		doubted = false;
#endif
		request = request || stale
	   }
	/* one that the age of the document demands, or another event */
	:: atomic { !looking && !request && asked == 0 -> request = true }
	od
}

active proctype quiet()
{
	timeout -> assert(nheld == 0 && !doubted && empty(stream))
}
