/*
 * identity_request.c
 *		Requests for look-ups: see identity_request.h.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "miscadmin.h"
#include "utils/guc.h"

int			atp_queue_limit;

void
atp_identity_request_init(void)
{
	DefineCustomIntVariable("atproto.queue_limit",
							"How much a role may ask the fetcher for at a time.",
							NULL, &atp_queue_limit, 10000, 0, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/*
 * Raise an ERROR if n more requests exceed the role's limit.  Two sessions at the same moment do not see each
 * other's requests, and together may exceed the limit; for a protection against floods that is enough.
 */
static void
check_limit(Oid role, int n)
{
	AtpResult	found = atp_query("SELECT count(*)::int4 AS n FROM"
								  " (SELECT FROM atproto.identity_request WHERE role = $1 LIMIT $2) w",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(role), OIDOID}, atp_int8_arg(atp_queue_limit)));
	int			there = atp_get_int4(atp_result_row(found, 0), "n");

	atp_result_free(found);
	if (n > atp_queue_limit - there)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("role \"%s\" has asked for %d identities that are still to be read",
						GetUserNameFromId(role, true), there),
				 errhint("Wait for them, or increase \"%s\".", "atproto.queue_limit")));
}

void
atp_identity_requests_add(struct varlena *const *dids, int n, bool refresh, AtpRequestPriority priority, Oid owner, bool limited)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("identity_request");
	if (limited)
		check_limit(owner, n);
	/*
	 * A stale document is requested with refresh, although it is not old.  A session's request (DO NOTHING)
	 * updates no existing row: the session may commit much later, and its row lock would block others until
	 * then.
	 */
	atp_run(atp_identity_sql(psprintf("INSERT INTO atproto.identity_request AS w (did, refresh, priority, requested_at, role, owner, web)"
									  " SELECT u.did, $2 OR COALESCE(i.stale, false), $3, $4, CASE WHEN $6 THEN $5 ELSE 0 END, $5, starts_with(u.did::text, 'did:web:')"
									  " FROM unnest($1) u (did) LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) u.did"
									  " ORDER BY u.did USING OPERATOR(@.<)"
									  " ON CONFLICT (did, role, owner, refresh) DO %s",
									  limited ? "NOTHING" : "UPDATE SET priority = excluded.priority WHERE excluded.priority < w.priority")),
			ATP_ARGS(atp_dids_arg(dids, n), atp_bool_arg(refresh),
					 (AtpArg) {Int16GetDatum(priority), INT2OID},
					 atp_time_arg(atp_time_of_day()),
					 (AtpArg) {ObjectIdGetDatum(owner), OIDOID}, atp_bool_arg(limited)));
	atp_owner_end(caller);
}
