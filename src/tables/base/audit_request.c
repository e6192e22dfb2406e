/*
 * audit_request.c
 *		The table audit_state: of which targets something is to be audited by itself.
 *
 * The fetcher, and the manager, look at this table of ours: to look at a table of a
 * user's is to run what he has put there.
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/base/audit_request.h"
#include "utils/builtins.h"

/*
 * That it is wished for already is seen under a lock that many can have: the fetcher
 * takes no wish back while somebody has it (fetch/repositories/task_audit.c).
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
