/*
 * progress_sql.c
 *		SQL: atproto_internal.repo_states(): how many repositories of a target are in which state.
 *
 * The function counts as the subscription's owner, since the owner may have put any view or trigger
 * there.  If the owner cannot read the table, or a session has locked the table, the result is NULL,
 * so that a view still shows all its remaining rows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/audit/audit.h"
#include "tables/base/error_class.h"
#include "tables/base/lock_patience.h"
#include "tables/base/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_repo_states);

/* The owner and target of the subscription; false: the caller may not know of the subscription. */
static bool
find_target(AtpArg name, Oid *owner, char **target)
{
	Oid			user = GetUserId();
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_audit_look("SELECT owner::oid AS owner, target::text AS target FROM atproto.subscription WHERE name = $1", name);
	bool		isnull;

	atp_owner_end(caller);
	if (found.n == 0)
		return false;
	*owner = DatumGetObjectId(atp_get(atp_result_row(found, 0), "owner", OIDOID, &isnull));
	*target = atp_get_text(atp_result_row(found, 0), "target");
	return SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(*owner)) &&
		(has_privs_of_role(user, *owner) || has_privs_of_role(user, ROLE_PG_MONITOR));
}

static char *
count_states(Oid owner, const char *target)
{
	AtpCaller	caller = atp_owner_begin(owner);
	AtpResult	found = atp_audit_look(atp_expand_sql("SELECT COALESCE(jsonb_object_agg(sync, n), '{}')::text AS states"
													  " FROM (SELECT sync, count(*) AS n FROM #.repo WHERE $1 GROUP BY sync) s", target),
									   atp_bool_arg(true));

	atp_owner_end(caller);
	return atp_get_text(atp_result_row(found, 0), "states");
}

/*
 * count_states() in a subtransaction; NULL: the owner may not read the table, the table does not
 * exist, or a session has locked the table.
 */
static char *
try_to_count_states(Oid owner, const char *target)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner resources = CurrentResourceOwner;
	char	   *volatile states = NULL;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		atp_lock_patience();
		states = count_states(owner, target);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		(void) atp_lock_is_reason(error->sqlerrcode);
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		states = NULL;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = resources;
	/* after the end of the subtransaction: a caller that catches the ERROR ends none but the caller's own */
	if (error != NULL && atp_is_cancelled(error))
		ReThrowError(error);
	return states;
}

/* SQL: atproto_internal.repo_states(subscription) */
Datum
atp_repo_states(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	char	   *states = NULL;
	char	   *target;
	Oid			owner;

	SPI_connect();
	if (find_target(ATP_FUNCTION_ARG(0, TEXTOID), &owner, &target))
		states = try_to_count_states(owner, target);
	if (states != NULL)
		states = MemoryContextStrdup(caller_cxt, states);
	SPI_finish();
	if (states == NULL)
		PG_RETURN_NULL();
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(states));
}
