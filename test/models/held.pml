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
 *
 * mark BEGIN: account, 0, 0: the row of identity before the first transaction of the tables' consumer
 * mark LOOK: account, 0, 0: another transaction has changed the row of identity
 * mark TOOK: account, whys, what: a transaction of a consumer has changed the account's held events, its repository's revision or its doubts
 *     account: key + 16 * doubted + 32 * said + 64 * stale + 128 * error + 256 * (a commit is applied) + 512 * (look-ups that have ended);
 *     whys: two bits for each event that is held after it, in their order: 1 identity, 2 signature, 3 order;
 *     what: a bit for each of these whose asked_at is the one of identity + 2^14 * (events released) + 2^18 * (dead letters) + 2^22 *
 *     (released events that were not newer than the repository)
 * In a trace the keys have the numbers 1 to 14; 0 is no usable key, 15 an identity that is known not to work.  Nothing shows which key an
 * event is signed with: this is chosen when the event is judged, and the choice stays.  Neither are requests for look-ups compared.
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

#define BEGIN		1	/* marks */
#define LOOK		2
#define TOOK		3
#ifdef TRACE
#define BROKEN		15	/* the identity is known not to work */
#define IGNORED		3
#define Key		byte
#define usable		(key != 0 && key != BROKEN)
byte signer[EVENTS];		/* the key that has signed the event, as far as it was chosen: 0 not yet, or NOT_KNOWN */
int not_signer[EVENTS];		/* a bit for each key that has not */
byte released = 0, refused = 0, old = 0;	/* in this transaction */
bool applied = false;
#else
#define Key		bool
#define usable		true
#endif

bool directory = OLD, announced = false;
byte sent = 0, fails = 0;
chan stream = [2] of { byte };	/* a commit with this signature, or 3: #identity */

/* the row of identity */
Key key = OLD;
bool stale = false, doubted = false, said = false, error = false;
NUMBER asked = 0;		/* which look-up has ended last */
bool request = false;
/* the look-up that runs */
bool looking = false, seen = OLD;

/* held events: signature, why, the look-up at which the wait began */
byte nheld = 0;
byte sig[EVENTS], why[EVENTS];
NUMBER since[EVENTS];
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

#ifdef TRACE
/* Has the known key signed event e?  Chosen when somebody asks first. */
inline compare(e)
{
	if
	:: signer[e] != 0 || (not_signer[e] >> key) & 1
	:: else ->
		if
		:: signer[e] = key
		:: not_signer[e] = not_signer[e] | (1 << key)
		fi
	fi
}
#define FITS(e)		(signer[e] == key)
#else
#define compare(e)	skip
#define FITS(e)		(sig[e] == key)
#endif

/* event e; w: 0, or why it waits; s: since which look-up */
inline judge(e, w, s, b)
{
	if
	:: in_doubt && !may_pass(w, s, b) ->
		verdict = HELD;
		reason = (w != 0 && s != asked -> SIGNATURE : IDENTITY);
		request = true
#ifdef TRACE
	:: !(in_doubt && !may_pass(w, s, b)) && key == BROKEN -> verdict = IGNORED
	:: !(in_doubt && !may_pass(w, s, b)) && key == 0 -> verdict = HELD; reason = IDENTITY
#endif
	:: !(in_doubt && !may_pass(w, s, b)) && usable ->
		compare(e);
		if
		/* has_key */
		:: FITS(e) -> verdict = TRUE
		/* by_signature */
		:: !FITS(e) && w == SIGNATURE && answered(s) -> verdict = FALSE
		:: !FITS(e) && !(w == SIGNATURE && answered(s)) -> verdict = HELD; reason = SIGNATURE; request = true
		fi
	fi
}

#ifdef TRACE
#define outcome(e)	note_outcome()
inline note_outcome()
{
	applied = applied || verdict == TRUE;
	refused = refused + (verdict == FALSE)
}
#else
inline outcome(e)
{
	/* after the #identity has come, a commit of the former key is not the account's; after a look-up that failed, the known key counts */
	assert(verdict != TRUE || sig[e] != OLD || !after_announcement[e] || fails > 0);	/* without doubt */
	assert(verdict != FALSE || sig[e] != NEW)	/* without answered, behind, said, second */
}
#endif

inline announce()
{
	stale = true; said = true; doubted = true; request = true; was_announced = true
}

inline forget_event(e)
{
	sig[e] = 0; why[e] = 0; since[e] = 0; after_announcement[e] = false; behind[e] = false;
#ifdef TRACE
	signer[e] = 0; not_signer[e] = 0
#else
	skip
#endif
}

/* A commit with this signature has come. */
inline take_commit(message)
{
	sig[nheld] = message; after_announcement[nheld] = was_announced;
	if
#ifndef WITHOUT_order
	:: nheld > 0 -> verdict = HELD; reason = why[nheld - 1]; waits_behind = true
#endif
	:: else -> judge(nheld, 0, 0, false)
	fi;
	if
	:: verdict == HELD ->
		why[nheld] = reason; since[nheld] = asked; behind[nheld] = waits_behind;
		nheld++
	:: else ->
		/* nothing before it waits */
		assert(nheld == 0);	/* without order */
		outcome(nheld);
		forget_event(nheld)
	fi;
	verdict = HELD; reason = 0; waits_behind = false
}

/* atp_release(): an event with why = order has the reason of the event before it, if that one is in the batch */
inline release()
{
	do
	:: nheld > 0 ->
		why[0] = (behind[0] -> (w != 0 -> w : IDENTITY) : why[0]);
#ifdef TRACE
		if
		:: old > 0 -> old--; verdict = IGNORED
		:: judge(0, why[0], since[0], is_behind(0))
		fi;
#else
		judge(0, why[0], since[0], is_behind(0));
#endif
		if
		:: verdict == HELD -> break
		:: else
		fi;
		outcome(0);
		w = why[0];
		i = 1;
		do
		:: i < nheld ->
			sig[i - 1] = sig[i]; since[i - 1] = since[i]; after_announcement[i - 1] = after_announcement[i];
			why[i - 1] = why[i]; behind[i - 1] = behind[i];
#ifdef TRACE
			signer[i - 1] = signer[i]; not_signer[i - 1] = not_signer[i];
#endif
			i++
		:: else -> break
		od;
		nheld--;
#ifdef TRACE
		released++;
#endif
		forget_event(nheld)
	:: else -> break
	od;
	/* atp_held_wait_again(): this event waits for a newer look-up, and those that were judged before */
	if
	:: nheld > 0 && verdict == HELD && reason == SIGNATURE && since[0] != asked ->
		behind[0] = false;
		i = 0;
#ifdef TRACE
		changed = true;
#endif
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

#ifdef TRACE

#define ACCOUNT		(key + 16 * doubted + 32 * said + 64 * stale + 128 * error + 256 * applied + 512 * asked)

inline set_account(row)
{
	key = row & 15; doubted = (row >> 4) & 1; said = (row >> 5) & 1; stale = (row >> 6) & 1; error = (row >> 7) & 1; asked = row >> 9
}

/* The transaction of a consumer ends. */
inline took(n_old)
{
	w = 0; whys = 0; what = 0;
	do
	:: w < nheld ->
		whys = whys | ((behind[w] -> 3 : why[w]) << (2 * w));
		what = what | ((since[w] == asked) << w);
		w++
	:: else -> break
	od;
	w = 0;
	what = what + (released << 14) + (refused << 18) + (n_old << 22);
	OBSERVE(TOOK, ACCOUNT, whys, what);
	whys = 0; what = 0; released = 0; refused = 0; old = 0; applied = false; next_step = 0; next_a = 0; next_b = 0; next_c = 0
}

hidden int whys, what;

active proctype shown()
{
	byte i, w, n;
	bool waits_behind, changed;

	atomic { PEEK; set_account(next_a); OBSERVE(BEGIN, ACCOUNT, 0, 0) }
	do
	/* a batch of the stream: what the account has sent, as far as the mark shows it */
	:: atomic {
		PEEK;
		next_step == TOOK && ((next_c >> 14) & 15) == 0 ->
		do
		:: ((next_a >> 6) & 1) && (!said || !stale || !doubted) -> announce(); changed = true
		:: ((next_b >> (2 * nheld)) != 0 || ((next_a & 256) && !applied)) && nheld < EVENTS - 1 ->
			n = nheld + applied;
			take_commit(0);
			/* a commit that leaves nothing is no step */
			nheld + applied > n;
			changed = true; n = 0
		:: changed -> break
		od;
		changed = false;
		took(0)
	   }
	:: atomic {
		PEEK;
		next_step == TOOK && nheld > 0 ->
		old = next_c >> 22; n = old;
		release();
		old == 0 && (changed || released > 0) ->
		changed = false;
		took(n);
		n = 0
	   }
	/* a look-up begins */
	:: atomic {
		PEEK;
		next_step == LOOK && (stale || said) -> stale = false; said = false;
		OBSERVE(LOOK, ACCOUNT, 0, 0)
	   }
	/* it ends: with this key, or without an answer */
	:: atomic {
		PEEK;
		next_step == LOOK ->
		asked++;
		key = next_a & 15; error = (next_a >> 7) & 1;
		doubted = said;
		OBSERVE(LOOK, ACCOUNT, 0, 0)
	   }
	od
}

#else

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
		:: message == 3 -> announce()
		:: message != 3 -> take_commit(message)
		fi;
		message = 0
	   }
	:: atomic { nheld > 0 && since[0] != asked -> release() }
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
#endif
