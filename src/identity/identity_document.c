/*
 * identity_document.c
 *		How a DID document changes the row of atproto.identity: see identity_document.h.
 */
#include "postgres.h"

#include "identity/identity_document.h"
#include "types/types.h"
#include "utils/timestamp.h"

#define HOUR_S		3600
#define WEEK_S		(7 * 24 * HOUR_S)
#define ERROR_MAX	400			/* bytes of an error's text that are kept */

double
atp_doubled_seconds(double seconds, int times, double limit)
{
	for (int i = 1; i < times && seconds < limit; i++)
		seconds *= 2;
	return Min(seconds, limit);
}

void
atp_identity_set_error(AtpIdentity *identity, const char *error)
{
	identity->error = error == NULL ? NULL : pnstrdup(error, ERROR_MAX);
}

bool
atp_identity_settle_broken(AtpIdentity *identity, AtpIdentityState state, const char *error, TimestampTz now)
{
	identity->tries = atp_identity_is_broken(identity) ? identity->tries + 1 : 1;
	identity->next_try = now + (TimestampTz) (atp_doubled_seconds(HOUR_S, identity->tries, WEEK_S) * USECS_PER_SEC);
	identity->denied_at = identity->log_time = DT_NOBEGIN;
	identity->state = state;
	atp_identity_set_error(identity, error);
	return true;
}

/*
 * As column pds has the server.  W-14: the code that sends a request to the server checks whether
 * the address is allowed.
 */
static char *
pds_text(const AtpDidDoc *doc)
{
	int			standard = doc->pds_is_plain ? 80 : 443;
	const char *scheme = doc->pds_is_plain ? "http://" : "";

	if (!doc->has_pds)
		return NULL;
	if (doc->pds_port == standard)
		return psprintf("%s%.*s", scheme, (int) doc->pds_len, doc->pds);
	return psprintf("%s%.*s:%u", scheme, (int) doc->pds_len, doc->pds, doc->pds_port);
}

bool
atp_identity_take_document(AtpIdentity *identity, const AtpDidDoc *doc, TimestampTz now)
{
	identity->has_key = doc->has_key;
	memcpy(identity->key, doc->key, ATP_MULTIKEY_LEN);
	identity->has_label_key = doc->has_label_key;
	memcpy(identity->label_key, doc->label_key, ATP_MULTIKEY_LEN);
	identity->pds = pds_text(doc);
	identity->handle = doc->handle_len == 0 ? NULL : atp_handle_make(doc->handle, doc->handle_len);
	identity->resolved_at = now;
	if (!doc->has_key)
		return atp_identity_settle_broken(identity, ATP_IDENTITY_NO_KEY, "The DID document has no valid key for commits.", now);
	if (!doc->has_pds)
		return atp_identity_settle_broken(identity, ATP_IDENTITY_NO_PDS, "The DID document names no valid personal data server.", now);
	identity->state = ATP_IDENTITY_GOOD;
	identity->tries = 0;
	identity->next_try = identity->denied_at = identity->log_time = DT_NOBEGIN;
	identity->error = NULL;
	return true;
}
