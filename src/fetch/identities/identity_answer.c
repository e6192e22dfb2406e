/*
 * identity_answer.c
 *		How the answer to a look-up changes the row of atproto.identity.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "fetch/identities/identity_answer.h"
#include "common/signature.h"
#include "identity/identity_document.h"
#include "types/types.h"
#include "utils/timestamp.h"

#define HOUR_S		3600
#define DAY_S		(24 * HOUR_S)

static TimestampTz
later_time(TimestampTz now, double seconds)
{
	return now + (TimestampTz) (seconds * USECS_PER_SEC);
}

/* ------------------------------------------------------------------------
 * No document
 * ------------------------------------------------------------------------
 */

/* W-32.  While nothing is known of the account, the first retries come sooner. */
static bool
fail_lookup(AtpIdentity *identity, const char *error, TimestampTz now)
{
	static const int first[] = {10, 30, 120};
	bool		known = identity->resolved_at != DT_NOBEGIN;
	double		seconds;

	identity->tries++;
	if (!known && identity->tries <= lengthof(first))
		seconds = first[identity->tries - 1];
	else
		seconds = atp_doubled_seconds(120, known ? identity->tries : identity->tries - lengthof(first), DAY_S);
	/* spread the retries: look-ups that failed together must not come back together */
	seconds *= 0.8 + 0.4 * pg_prng_double(&pg_global_prng_state);
	identity->next_try = later_time(now, known ? Max(seconds, ATP_IDENTITY_LEAST_S) : seconds);
	atp_identity_set_error(identity, error);
	if (identity->state == ATP_IDENTITY_UNKNOWN)
		identity->state = ATP_IDENTITY_WANTED;
	/* W-30 */
	else if (identity->state == ATP_IDENTITY_GOOD && !atp_identity_is_usable(identity, now))
		identity->state = ATP_IDENTITY_UNREACHABLE;
	return false;
}

/*
 * the server is overloaded, which is no statement about the account.  So tries stays as it
 * was.
 */
static bool
put_off_lookup(AtpIdentity *identity, const AtpHttpAnswer *answer, TimestampTz now)
{
	int			tries = identity->tries;

	(void) fail_lookup(identity, answer->error, now);
	identity->tries = tries;
	identity->next_try = later_time(now, Min(Max(answer->retry_after_s, ATP_IDENTITY_LEAST_S), HOUR_S));
	return false;
}

/*
 * The answer says that no document exists for this DID, or none that is valid.  Where this could be
 * a short failure of the server, only a second such answer counts: for a good account a minute
 * later (W-33), for a missing did:web document an hour later (W-04).
 */
static bool
deny_document(AtpIdentity *identity, AtpIdentityState state, int apart_s, const char *error, TimestampTz now)
{
	if (identity->denied_at > now)
		identity->denied_at = DT_NOBEGIN;
	if (apart_s > 0 && !atp_identity_is_broken(identity) &&
		(identity->denied_at == DT_NOBEGIN || now < later_time(identity->denied_at, apart_s)))
	{
		TimestampTz denied_at = identity->denied_at == DT_NOBEGIN ? now : identity->denied_at;

		(void) fail_lookup(identity, error, now);
		identity->denied_at = denied_at;
		identity->next_try = Max(later_time(denied_at, apart_s), later_time(now, ATP_IDENTITY_LEAST_S));
		return false;
	}
	identity->has_key = identity->has_label_key = false;
	identity->pds = NULL;
	identity->handle = NULL;
	return atp_identity_settle_broken(identity, state, error, now);
}

/*
 * The directory has no document of an account that was never looked up with success: the account
 * may be too new for the directory, so the next look-up comes after a minute.
 */
static bool
deny_new(AtpIdentity *identity, const char *error, TimestampTz now)
{
	(void) atp_identity_settle_broken(identity, ATP_IDENTITY_GONE, error, now);
	identity->tries = 0;
	identity->denied_at = now;
	identity->next_try = later_time(now, ATP_IDENTITY_LEAST_S);
	return true;
}

static int
minute_if_good(const AtpIdentity *identity)
{
	return identity->state == ATP_IDENTITY_GOOD || identity->state == ATP_IDENTITY_UNREACHABLE ? ATP_IDENTITY_LEAST_S : 0;
}

/* ------------------------------------------------------------------------
 * A document
 * ------------------------------------------------------------------------
 */

static bool
take_body(AtpIdentity *identity, AtpAsked asked, const AtpHttpAnswer *answer, TimestampTz now)
{
	AtpDidDoc	doc;
	size_t		at;
	AtpErr		err = atp_diddoc_parse(answer->body, answer->body_len, asked.did, atp_signature_point, NULL, &doc, &at);

	if (err == ATP_OK)
		return atp_identity_take_document(identity, &doc, now);
	return deny_document(identity, ATP_IDENTITY_INVALID, minute_if_good(identity),
						 psprintf("%s: %s", answer->url, atp_err_text(err)), now);
}

bool
atp_identity_take(AtpIdentity *identity, AtpAsked asked, const AtpHttpAnswer *answer, TimestampTz now)
{
	identity->asked_at = now;
	switch (answer->outcome)
	{
		case ATP_HTTP_OK:
			break;
		case ATP_HTTP_TOO_LARGE:	/* W-07 */
		case ATP_HTTP_REDIRECT: /* W-05 */
			return deny_document(identity, ATP_IDENTITY_INVALID, minute_if_good(identity), answer->error, now);
		case ATP_HTTP_BUSY:
		case ATP_HTTP_SETTINGS:
			return put_off_lookup(identity, answer, now);
		default:
			return fail_lookup(identity, answer->error, now);
	}
	switch (answer->status)
	{
		case 200:
			return take_body(identity, asked, answer, now);
		case 301:
		case 302:
		case 303:
		case 307:
		case 308:
			return deny_document(identity, ATP_IDENTITY_INVALID, minute_if_good(identity), answer->error, now);
			/* W-03 */
		case 404:
		case 410:
			if (!asked.web && (identity->state == ATP_IDENTITY_UNKNOWN || identity->state == ATP_IDENTITY_WANTED))
				return deny_new(identity, answer->error, now);
			return deny_document(identity, ATP_IDENTITY_GONE, asked.web ? HOUR_S : minute_if_good(identity), answer->error, now);
		case 429:
		case 503:
			return put_off_lookup(identity, answer, now);
		default:
			return fail_lookup(identity, answer->error, now);
	}
}

bool
atp_identity_refuse(AtpIdentity *identity, AtpErr why, TimestampTz now)
{
	identity->asked_at = now;
	return deny_document(identity, ATP_IDENTITY_INVALID, 0, atp_err_text(why), now);
}
