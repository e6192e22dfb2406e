/*
 * admission_after.c
 *		Verdicts at level full that depend on the signer's identity (V-40, V-41, V-43).
 *
 * Commits of accounts and labels of labelers share these functions.  Invariant: only a look-up that
 * succeeded after the event began to wait can make the verdict false.
 */
#include "postgres.h"

#include "config/wake.h"
#include "core/repo/sig.h"
#include "identity/identity_request.h"
#include "common/signature.h"
#include "tables/repos/held.h"
#include "tables/repos/admission_after.h"
#include "tables/repos/dead_letter.h"
#include "types/types.h"

void
atp_admission_ignore(AtpEvent *event, AtpSkip skip)
{
	event->verdict.judged = ATP_JUDGED_IGNORED;
	event->verdict.ignored_as = skip;
}

void
atp_admission_hold(AtpEvent *event, AtpWhyHeld why)
{
	event->verdict.judged = ATP_JUDGED_HELD;
	event->verdict.why_held = why;
}

bool
atp_admission_waits_from_now(const AtpEvent *event)
{
	return event->held == NULL && event->verdict.judged == ATP_JUDGED_HELD;
}

void
atp_admission_request_identity(AtpEvent *event, bool refresh)
{
	event->verdict.request_identity = true;
	event->verdict.refresh = refresh;
}

/*
 * Has a look-up of the identity ended since the event began to wait?  The times are compared for equality only, so a
 * clock that was set back does no harm.
 */
static bool
was_asked(const AtpEvent *event, const AtpIdentity *who)
{
	return event->held != NULL && who->asked_at != DT_NOBEGIN && who->asked_at != event->held->asked_at;
}

bool
atp_admission_was_answered(const AtpEvent *event, const AtpIdentity *who)
{
	return was_asked(event, who) && who->error == NULL;
}

/*
 * A doubt counts for one role.  For a held event this is the owner of the receiving subscription, even if a second
 * subscription judges the event.
 */
bool
atp_admission_is_doubtful(const AtpApply *a, const AtpEvent *event, const AtpIdentity *who)
{
	return atp_identity_is_doubtful(who, event->held != NULL ? event->held->owner : a->sub->owner);
}

bool
atp_admission_has_key(const AtpApply *a, AtpEvent *event, const AtpIdentity *who, TimestampTz now)
{
	if (atp_identity_is_due(who, now))
		atp_admission_request_identity(event, who->stale);
	/* M-31: the fetcher writes the row by the log, so that later events need not read the log */
	else if (who->from_log)
		atp_admission_request_identity(event, false);
	/*
	 * W-31: the stored key may be outdated.  The first look-up that ends may have begun before the #identity event;
	 * the second look-up cannot have.  So an event waits for two look-ups at most, and an account cannot prolong the
	 * wait by further #identity events.  The look-ups of an earlier event, behind which this one waited, do not count.
	 */
	if (atp_admission_is_doubtful(a, event, who) &&
		!(was_asked(event, who) && event->held->why == ATP_HELD_SIGNATURE && !event->held->behind))
	{
		atp_admission_hold(event, was_asked(event, who) ? ATP_HELD_SIGNATURE : ATP_HELD_IDENTITY);
		atp_admission_request_identity(event, true);
	}
	/* W-33: the directory may not know a new account yet */
	else if (atp_identity_is_denied(who))
	{
		atp_admission_hold(event, ATP_HELD_IDENTITY);
		atp_admission_request_identity(event, true);
	}
	else if (atp_identity_is_broken(who))
		atp_admission_ignore(event, ATP_SKIP_NO_IDENTITY);
	/* V-40, W-30 */
	else if (!atp_identity_is_usable(who, now))
	{
		atp_admission_hold(event, ATP_HELD_IDENTITY);
		/* a known identity without a usable key has to be read again, or no look-up would start */
		atp_admission_request_identity(event, event->verdict.refresh || who->state == ATP_IDENTITY_GOOD);
	}
	else
		return true;
	return false;
}

/* Verifying costs much processor time, and a replay in pieces asks again: AtpSigned caches the result for the last key. */
bool
atp_signed_fits(AtpSigned *s, const uint8_t key[ATP_MULTIKEY_LEN])
{
	AtpErr		err;

	if (s == NULL)
		return false;
	if (s->tried && memcmp(s->key, key, ATP_MULTIKEY_LEN) == 0)
		return s->fits;
	err = atp_sig_check(atp_multikey_curve(key), (AtpBytes) {s->sig, ATP_SIG_LEN});
	if (err == ATP_OK)
		err = atp_signature_verify(NULL, key, s->digest, s->sig);
	if (err == ATP_E_KEY_BUILD)
		elog(ERROR, "this build cannot verify signatures by secp256k1");
	s->tried = true;
	memcpy(s->key, key, ATP_MULTIKEY_LEN);
	s->fits = err == ATP_OK;
	return s->fits;
}

void
atp_admission_by_signature(AtpEvent *event, const AtpIdentity *who, bool fits)
{
	if (fits)
		event->verdict.judged = ATP_JUDGED_TRUE;
	/* V-41: false only after a successful look-up; a failed look-up proves nothing */
	else if (atp_admission_was_answered(event, who) && event->held->why != ATP_HELD_IDENTITY)
		event->verdict.judged = ATP_JUDGED_FALSE;
	else
	{
		/* V-41: the account may have a new key that no #identity has announced yet, or the directory lags behind */
		atp_admission_hold(event, ATP_HELD_SIGNATURE);
		atp_admission_request_identity(event, true);
	}
}

/* ------------------------------------------------------------------------
 * Effects of the verdicts: letters, held events, look-ups
 * ------------------------------------------------------------------------
 */
const char *
atp_signed_key(const AtpSigned *s)
{
	char	   *text = palloc(2 * ATP_MULTIKEY_LEN + 1);

	if (s == NULL)
		return "";
	for (int i = 0; i < ATP_MULTIKEY_LEN; i++)
		sprintf(text + 2 * i, "%02x", s->key[i]);
	return text;
}

AtpDeadLetter *
atp_admission_dead_letter(AtpBatch *batch, const AtpEvent *event, struct varlena *did, const char *text)
{
	AtpDeadLetter *letter = atp_batch_new_dead_letter(batch, atp_stage_signature, event->message, event->seq);

	/* atp_batch_new_dead_letter() counts the letter as invalid, but the verdict is already counted as a bad signature */
	batch->skips[ATP_SKIP_INVALID]--;
	strlcpy(letter->sqlstate, "22P03", sizeof(letter->sqlstate));
	letter->did = did;
	letter->event = event;
	letter->text = text;
	return letter;
}

int
atp_admission_compare_dids(const void *a, const void *b)
{
	return atp_compare_dids((*(AtpEvent *const *) a)->did, (*(AtpEvent *const *) b)->did);
}

/* Request look-ups for the events with this refresh and priority.  The events are sorted by DID. */
static void
request_lookups(const AtpApply *a, AtpEvent *const *events, int n, bool refresh, AtpRequestPriority priority)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * n);
	int			ndids = 0;

	for (int i = 0; i < n; i++)
		if (events[i]->verdict.refresh == refresh && (events[i]->verdict.judged == ATP_JUDGED_HELD) == (priority == ATP_REQUEST_HELD) &&
			(ndids == 0 || atp_compare_dids(dids[ndids - 1], events[i]->did) != 0))
			dids[ndids++] = events[i]->did;
	if (ndids == 0)
		return;
	atp_identity_requests_add(dids, ndids, refresh, priority, a->sub->owner, false);
	atp_wake_fetcher();
}

void
atp_admission_write(AtpApply *a, AtpEvent *const *events, int n)
{
	AtpEvent  **held = palloc(sizeof(AtpEvent *) * Max(n, 1));
	AtpEvent  **requests = palloc(sizeof(AtpEvent *) * Max(n, 1));
	int			nheld = 0;
	int			nrequests = 0;

	for (int i = 0; i < n; i++)
	{
		AtpEvent   *event = events[i];

		if (atp_admission_waits_from_now(event))
			held[nheld++] = event;
		/* V-41: the event and the later held events of the repository wait for a newer look-up */
		else if (event->verdict.judged == ATP_JUDGED_HELD && event->verdict.why_held == ATP_HELD_SIGNATURE &&
				 event->held->asked_at != event->verdict.asked_at)
			atp_held_wait_again(a, event, event->verdict.asked_at);
		/* the wait for a missing commit has a time limit, which release_find.c finds by why in the held event's row: keep why current */
		else if (event->verdict.judged == ATP_JUDGED_HELD && event->held->gap != (event->verdict.why_held == ATP_HELD_GAP) &&
				 event->verdict.why_held != ATP_HELD_ORDER && event->verdict.why_held != ATP_HELD_RESYNC)
			atp_held_set_why(a, event);
		if (event->verdict.request_identity)
			requests[nrequests++] = event;
	}
	if (nheld > 0)
	{
		atp_held_add(a, held, nheld);
		a->batch->held = true;
	}
	qsort(requests, nrequests, sizeof(AtpEvent *), atp_admission_compare_dids);
	for (int refresh = 0; refresh < 2; refresh++)
	{
		request_lookups(a, requests, nrequests, refresh, ATP_REQUEST_HELD);
		request_lookups(a, requests, nrequests, refresh, ATP_REQUEST_OTHER);
	}
}
