/*
 * hide.c
 *		SQL: atproto.hide() and atproto.unhide(): an operator's own takedown of an account.
 *
 * The column repo.hidden_at says that an account is hidden.  No event, fetch or archive writes this column (ATP_APART), so the
 * network's status of the account changes nothing, and the consumers go on with the account's events.
 *
 * A call that leaves the account visible in a target says so in a WARNING or an ERROR.
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
#include "tables/base/error_class.h"
#include "tables/base/hiding.h"
#include "tables/base/table.h"
#include "tables/erase/erase_target.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_hide);
PG_FUNCTION_INFO_V1(atp_unhide);

/* Also makes a row, which later events of the account find.  Citus refuses now() behind DO UPDATE. */
#define HIDE \
	"INSERT INTO #.repo AS p (did, hidden_at, updated_at) VALUES ($1, now(), now())" \
	" ON CONFLICT (did) DO UPDATE SET hidden_at = excluded.hidden_at, updated_at = excluded.updated_at WHERE p.hidden_at IS NULL"
#define UNHIDE \
	"UPDATE #.repo SET hidden_at = NULL, updated_at = now() WHERE did OPERATOR(@.=) $1 AND hidden_at IS NOT NULL"

static const char *
hint_of_column(const char *target)
{
	return psprintf("The table is of an earlier version: SELECT atproto.create_tables(%s), as its owner, adds the column.", quote_literal_cstr(target));
}

/* What the account still is, when a call has failed. */
static const char *
former_state(bool hides)
{
	return hides ? "visible" : "hidden";
}

/* Has the call reached its end?  A policy that hides the row from the tables' owner makes this false after hide(). */
static bool
is_done(const AtpErase *e, const char *target, bool hides)
{
	return (atp_run(atp_expand_sql("SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 AND hidden_at IS NOT NULL", target), ATP_ARGS(atp_did_arg(e->did))) > 0) == hides;
}

static bool
shows_hidden(const char *target)
{
	return atp_run("SELECT WHERE " ATP_SQL_VIEW_SHOWS_HIDDEN, ATP_ARGS(atp_text_arg(target))) > 0;
}

/* Warn if hide() has left the account visible, or unhide() has left the row hidden. */
static void
warn_of_state(const AtpErase *e, const char *target, bool hides)
{
	if (!is_done(e, target, hides))
		ereport(WARNING,
				(errmsg("the account is still %s in schema \"%s\"", former_state(hides), target),
				 errhint("Triggers, rules or row security of table \"repo\" keep its rows as they are.")));
	else if (hides && shows_hidden(target))
		ereport(WARNING,
				(errmsg("schema \"%s\" has a view that shows hidden accounts", target),
				 errhint("visible_record or visible_link is of an earlier version, or made by hand. Drop both views, then SELECT atproto.create_tables(%s).", quote_literal_cstr(target))));
}

/* Returns whether a row has changed. */
static bool
change_target(const AtpErase *e, const char *target, bool hides)
{
	AtpCaller	section = atp_erase_begin(e, target);
	bool		blocked = hides && atp_is_blocked_now(target, e->did);
	uint64		n = 0;

	if (!atp_has_hiding(target))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("table \"%s\" of schema \"%s\" has no column \"%s\"", "repo", target, "hidden_at"),
				 errhint("%s", hint_of_column(target))));
	if (!blocked)
	{
		/* the output plugin does not see from an UPDATE which columns have changed */
		atp_announce_account(e->did, ATP_CHANGE_STATUS);
		n = atp_run(atp_expand_sql(hides ? HIDE : UNHIDE, target), ATP_ARGS(atp_did_arg(e->did)));
		warn_of_state(e, target, hides);
	}
	atp_owner_end(section);
	if (blocked)
		ereport(NOTICE,
				(errmsg("the account is blocked in schema \"%s\", which has no rows of it to hide", target)));
	return n > 0;
}

static bool
hide_in_target(AtpErase *e, const char *target)
{
	return change_target(e, target, true);
}

static bool
show_in_target(AtpErase *e, const char *target)
{
	return change_target(e, target, false);
}

/*
 * One of several targets.  An ERROR in tables of another role, or in tables of an earlier version, is a warning, because
 * no owner of tables may keep an account visible in the tables of all other owners.  In the caller's own tables an ERROR ends
 * the call without a subtransaction.
 *
 * Returns false after a warning.
 */
static bool
attempt_target(AtpErase *e, const char *target, bool hides, bool *changed)
{
	ErrorData  *error;
	bool		n = false;

	if (!atp_has_hiding(target))
	{
		ereport(WARNING,
				(errmsg("the account is still %s in schema \"%s\": table \"%s\" has no column \"%s\"", former_state(hides), target, "repo", "hidden_at"),
				 errhint("%s", hint_of_column(target))));
		return false;
	}
	if (atp_erase_role(target, e->caller) == e->caller)
	{
		*changed |= change_target(e, target, hides);
		return true;
	}
	error = atp_erase_attempt(e, target, hides ? hide_in_target : show_in_target, &n);
	if (error == NULL)
	{
		*changed |= n;
		return true;
	}
	if (atp_is_cancelled(error))
		ReThrowError(error);
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("the account is still %s in schema \"%s\": %s", former_state(hides), target, error->message),
			 error->context ? errdetail_internal("%s", error->context) : 0));
	return false;
}

static bool
change_targets(AtpErase *e, const List *targets, bool hides)
{
	bool		changed = false;
	int			done = 0;
	const ListCell *lc;

	foreach(lc, targets)
		done += attempt_target(e, lfirst(lc), hides, &changed);
	if (targets != NIL && done == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the account is still %s in all schemas", former_state(hides)),
				 errdetail("The warnings before tell why.")));
	return changed;
}

static Datum
change_account(FunctionCallInfo fcinfo, bool hides)
{
	AtpErase	e = {.caller = GetUserId()};
	bool		changed;
	List	   *targets;
	int			nest;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("did");
	PreventCommandIfReadOnly(hides ? "hide()" : "unhide()");
	atp_erase_refuse_in_trigger();
	SPI_connect();
	e.cxt = CurrentMemoryContext;
	e.did = PG_GETARG_VARLENA_PP(0);
	e.target = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	e.removed = palloc0(sizeof(int64) * atp_nholdings);
	nest = atp_caller_begin();
	targets = atp_erase_targets(&e);
	changed = e.target != NULL ? change_target(&e, linitial(targets), hides) : change_targets(&e, targets, hides);
	atp_caller_end(nest);
	atp_erase_report_left(&e);
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
