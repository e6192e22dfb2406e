/*
 * hide.c
 *		SQL: atproto.hide() and atproto.unhide(): an operator's own takedown of an account.
 *
 * The column repo.hidden_at says that an account is hidden.  No event, fetch or archive writes this column (ATP_APART), so the
 * network's status of the account changes nothing, and the consumers go on with the account's events.
 */
#include "postgres.h"

#include "changes/announce.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/blocked.h"
#include "tables/base/table.h"
#include "tables/erase/erase_target.h"

PG_FUNCTION_INFO_V1(atp_hide);
PG_FUNCTION_INFO_V1(atp_unhide);

/* Also makes a row, which later events of the account find. */
#define HIDE \
	"INSERT INTO #.repo AS p (did, hidden_at) VALUES ($1, now())" \
	" ON CONFLICT (did) DO UPDATE SET hidden_at = now(), updated_at = now() WHERE p.hidden_at IS NULL"
#define UNHIDE \
	"UPDATE #.repo SET hidden_at = NULL, updated_at = now() WHERE did OPERATOR(@.=) $1 AND hidden_at IS NOT NULL"

/* Returns whether a row has changed. */
static bool
change_target(const AtpErase *e, const char *target, bool hides)
{
	AtpCaller	section = atp_erase_begin(e, target);
	bool		blocked = hides && atp_is_blocked_now(target, e->did);
	uint64		n = 0;

	if (!blocked)
	{
		/* the output plugin does not see from an UPDATE which columns have changed */
		atp_announce_account(e->did, ATP_CHANGE_STATUS);
		n = atp_run(atp_expand_sql(hides ? HIDE : UNHIDE, target), ATP_ARGS(atp_did_arg(e->did)));
	}
	atp_owner_end(section);
	if (blocked)
		ereport(NOTICE,
				(errmsg("the account is blocked in schema \"%s\", which has no rows of it to hide", target)));
	return n > 0;
}

static Datum
change_account(FunctionCallInfo fcinfo, bool hides)
{
	AtpErase	e = {.caller = GetUserId()};
	bool		changed = false;
	List	   *targets;
	ListCell   *lc;
	int			nest;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("did");
	atp_erase_refuse_in_trigger();
	SPI_connect();
	e.cxt = CurrentMemoryContext;
	e.did = PG_GETARG_VARLENA_PP(0);
	e.target = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	nest = atp_caller_begin();
	targets = atp_erase_targets(&e);
	foreach(lc, targets)
		changed |= change_target(&e, lfirst(lc), hides);
	atp_caller_end(nest);
	atp_erase_report_foreign(&e);
	SPI_finish();
	PG_RETURN_BOOL(changed);
}

/* SQL: atproto.hide(did, target) */
Datum
atp_hide(PG_FUNCTION_ARGS)
{
	return change_account(fcinfo, true);
}

/* SQL: atproto.unhide(did, target) */
Datum
atp_unhide(PG_FUNCTION_ARGS)
{
	return change_account(fcinfo, false);
}
