/*
 * audit_request.c
 *		Requests for audits: rows of the table atproto.audit_state, one for each target.
 *
 * The fetcher and the manager read this table of the extension to find work.  They do not read the
 * user's tables for that, because reading a user's table may run the user's code (a view, a
 * policy).
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/base/audit_request.h"
#include "utils/builtins.h"

/*
 * Looks for a pending request under FOR KEY SHARE, which many sessions can hold at once.  The fetcher does not clear
 * next_at of a row that is locked so (fetch/repositories/task_audit.c): without the lock, the fetcher could clear the
 * request before this transaction commits its unproven repository, and no audit would follow.
 */
static bool
is_wished(AtpArg target)
{
	AtpResult	found = atp_query("SELECT next_at IS NOT NULL AS wished FROM atproto.audit_state WHERE target = $1 FOR KEY SHARE",
								  ATP_ARGS(target));
	bool		wished = found.n > 0 && atp_get_bool(atp_result_row(found, 0), "wished");

	atp_result_free(found);
	return wished;
}

void
atp_audit_wish(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("audit_state");
	NameData	name;
	AtpArg		arg = {NameGetDatum(&name), NAMEOID, false};

	namestrcpy(&name, target);
	if (!is_wished(arg))
	{
		atp_run("INSERT INTO atproto.audit_state AS s (target, next_at) VALUES ($1, now())"
				" ON CONFLICT (target) DO UPDATE SET next_at = excluded.next_at WHERE s.next_at IS NULL", ATP_ARGS(arg));
		atp_wake_fetcher();
	}
	atp_owner_end(caller);
}
