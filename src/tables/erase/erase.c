/*
 * erase.c
 *		SQL: CALL atproto.erase(): forgets an account.
 *
 * The procedure goes through the targets whose tables the caller may write, each in short transactions (erase_target.c), and
 * then through the extension's tables (holding.c).  Rows of foreign roles stay, and a notice of the procedure tells so.
 *
 * The tables of a target are as its owner has made them: a trigger may raise an ERROR.  Where the procedure can commit, such
 * an ERROR is a warning, the other targets are erased, and the procedure ends with an ERROR.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/error_class.h"
#include "tables/base/sweep.h"
#include "tables/base/table.h"
#include "tables/erase/erase_target.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_erase);
PG_FUNCTION_INFO_V1(atp_unblock);

/* Blocks of a target that roles without the rights of the extension's owner may make. */
#define BLOCKS_MAX	10000

typedef struct ErasureRun
{
	AtpErase	erase;
	bool		atomic;			/* the procedure cannot commit */
	int			failed;			/* number of targets that were not erased because of an ERROR */
	int64		others;			/* subscriptions of other owners that fill the erased targets */
} ErasureRun;

/* End a step, which began with atp_caller_begin(). */
static void
end_step(ErasureRun *w, int nest)
{
	atp_caller_end(nest);
	if (!w->atomic)
		SPI_commit();
	MemoryContextSwitchTo(w->erase.cxt);
}

/* Wait for the transactions that have this table locked as writers, and may not have seen the block. */
static void
await_writers(const char *target, const char *table)
{
	Oid			relid = atp_target_relid(target, table);

	if (OidIsValid(relid))
		atp_sweep_await_writers(relid);
}

/* Each process has all blocks in memory, so a role cannot make any number of them. */
static void
require_room(ErasureRun *w, const char *target)
{
	AtpResult	found;
	int64		n;

	if (w->erase.everything)
		return;
	found = atp_query("SELECT count(*) AS n FROM atproto.blocked_account WHERE target = $1::name", ATP_ARGS(atp_text_arg(target)));
	n = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	if (n >= BLOCKS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg(INT64_FORMAT " accounts are blocked in schema \"%s\"", n, target),
				 errdetail("A role may block %d accounts in a schema.", BLOCKS_MAX),
				 errhint("A superuser can block more.")));
}

/*
 * Block the account in the targets, or, for whoever may erase everything, in the whole database.  Processes obey when their
 * transactions have been waited for (blocked.h).
 */
static void
block_account(ErasureRun *w, List *targets)
{
	AtpErase   *e = &w->erase;
	bool		whole = e->everything && e->target == NULL;
	int			nest;
	AtpCaller	section;
	ListCell   *lc;

	if (!whole && targets == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("the account cannot be blocked: there is no schema with data tables that you may erase from"),
				 errhint("A superuser can block it in the whole database.")));
	nest = atp_caller_begin();
	section = atp_as_table_owner("blocked_account");
	if (whole)
		(void) atp_run("INSERT INTO atproto.blocked_account (did) VALUES ($1) ON CONFLICT DO NOTHING", ATP_ARGS(atp_did_arg(e->did)));
	foreach(lc, whole ? NIL : targets)
	{
		require_room(w, lfirst(lc));
		(void) atp_run("INSERT INTO atproto.blocked_account (did, target) VALUES ($1, $2::name) ON CONFLICT DO NOTHING",
					   ATP_ARGS(atp_did_arg(e->did), atp_text_arg(lfirst(lc))));
	}
	atp_owner_end(section);
	end_step(w, nest);
}

static bool
await_all_writers(AtpErase *e, const char *target)
{
	await_writers(target, "repo");
	await_writers(target, "label");
	return false;
}

/* Call a step in a transaction of its own, if the procedure can commit, until the step is done.  False, after a warning: an ERROR has ended the step. */
static bool
run_step(ErasureRun *w, const char *target, AtpEraseStep step)
{
	ErrorData  *error = NULL;
	bool		more = false;

	do
	{
		int			nest = atp_caller_begin();

		CHECK_FOR_INTERRUPTS();
		if (w->atomic || w->erase.target != NULL)
			more = step(&w->erase, target);
		else
			error = atp_erase_attempt(&w->erase, target, step, &more);
		if (error != NULL && atp_is_cancelled(error))
			ReThrowError(error);
		end_step(w, nest);
		atp_progress_to(w->erase.removed[0]);
	} while (error == NULL && more);
	if (error == NULL)
		return true;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("the account is not erased from schema \"%s\": %s", target, error->message),
			 error->context ? errdetail_internal("%s", error->context) : 0));
	return false;
}

static void
erase_target(ErasureRun *w, const char *target, bool block)
{
	if (block && !run_step(w, target, await_all_writers))
	{
		w->failed++;
		return;
	}
	atp_progress_phase("removing records", -1);
	if (run_step(w, target, atp_erase_piece))
	{
		atp_progress_phase("removing events, labels and messages", -1);
		if (run_step(w, target, atp_erase_rows))
			return;
	}
	w->failed++;
}

static void
erase_own(ErasureRun *w, AtpHolding holds)
{
	int			nest = atp_caller_begin();

	atp_erase_own(&w->erase, holds, w->erase.target);
	end_step(w, nest);
}

/* Subscriptions, and not dead letters of the account: a caller must not learn of dead letters in subscriptions of foreign owners. */
static void
count_others(ErasureRun *w, List *targets)
{
	int			nest = atp_caller_begin();
	AtpCaller	section = atp_as_table_owner("subscription");
	Datum	   *names = palloc(sizeof(Datum) * Max(list_length(targets), 1));
	int			n = 0;
	AtpResult	found;
	ListCell   *lc;

	foreach(lc, targets)
		names[n++] = CStringGetTextDatum(lfirst(lc));
	found = atp_query("SELECT count(*) AS n FROM atproto.subscription s WHERE s.target::text = ANY ($1) AND pg_has_role($2, s.owner, 'USAGE') IS NOT TRUE",
					  ATP_ARGS(atp_array_arg(TEXTOID, names, NULL, n), (AtpArg) {ObjectIdGetDatum(w->erase.caller), OIDOID, false}));
	w->others = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	atp_owner_end(section);
	end_step(w, nest);
}

static void
report_removed(const ErasureRun *w)
{
	for (int i = 0; atp_holdings[i].relation != NULL; i++)
		if (w->erase.removed[i] > 0)
			ereport(NOTICE,
					(errmsg("%s: " INT64_FORMAT " rows removed", atp_holding_is_data(&atp_holdings[i]) ? atp_holding_table(&atp_holdings[i]) : atp_holdings[i].relation,
							w->erase.removed[i])));
	atp_erase_report_left(&w->erase);
	if (w->others > 0)
		ereport(NOTICE,
				(errmsg("dead letters and gaps of " INT64_FORMAT " subscriptions belong to other owners, and were left alone", w->others),
				 errhint("A superuser, or each owner, can make this call, too.")));
	ereport(NOTICE,
			(errmsg("copies may remain elsewhere"),
			 errhint("See atproto.account_traces().")));
	if (w->failed > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the account is not erased from %d schemas", w->failed),
				 errdetail("The warnings before tell why. From all other schemas it is erased."),
				 errhint("Call the procedure again, or let the owners of the tables call it.")));
}

/* SQL: CALL atproto.erase(did, block, directory, target) */
Datum
atp_erase(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"did", "block", "directory"};
	ErasureRun	w = {.atomic = atp_call_is_atomic(fcinfo)};
	AtpErase   *e = &w.erase;
	MemoryContext old;
	List	   *targets;
	ListCell   *lc;
	int			nest;

	for (int i = 0; i < lengthof(names); i++)
		if (PG_ARGISNULL(i))
			atp_argument_is_null(names[i]);
	PreventCommandIfReadOnly("erase()");
	if (w.atomic && PG_GETARG_BOOL(1))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("accounts cannot be blocked in a transaction block")));
	SPI_connect_ext(w.atomic ? 0 : SPI_OPT_NONATOMIC);
	e->cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto erasure", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(e->cxt);
	e->did = (struct varlena *) PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(0));
	e->directory = PG_GETARG_BOOL(2);
	e->target = PG_ARGISNULL(3) ? NULL : pstrdup(NameStr(*PG_GETARG_NAME(3)));
	e->caller = GetUserId();
	e->everything = atp_has_owners_rights("atproto", "identity");
	e->removed = palloc0(sizeof(int64) * atp_nholdings);
	nest = atp_caller_begin();
	targets = atp_erase_targets(e);
	end_step(&w, nest);
	atp_progress_begin("erase", e->target != NULL ? e->target : "");
	if (PG_GETARG_BOOL(1))
		block_account(&w, targets);
	/* before the operations: a consumer would write an answer's operations again */
	if (e->directory)
		erase_own(&w, ATP_HOLDS_LOG_BY_OWNER);
	foreach(lc, targets)
		erase_target(&w, lfirst(lc), PG_GETARG_BOOL(1));
	erase_own(&w, ATP_HOLDS_BY_OWNER);
	count_others(&w, targets);
	atp_progress_end();
	report_removed(&w);
	MemoryContextSwitchTo(old);
	SPI_finish();
	PG_RETURN_VOID();
}

/* A block of the whole database keeps the account away from each target, whatever blocks of targets are gone. */
static void
tell_block_of_all(const AtpErase *e)
{
	if (atp_run(atp_identity_sql("SELECT FROM atproto.blocked_account WHERE did OPERATOR(@.=) $1 AND target IS NULL"), ATP_ARGS(atp_did_arg(e->did))) > 0)
		ereport(NOTICE,
				(errmsg("the account is still blocked, in the whole database"),
				 errhint("A superuser can let it in again: unblock() without a target.")));
}

/* SQL: atproto.unblock(did, target) */
Datum
atp_unblock(PG_FUNCTION_ARGS)
{
	ErasureRun	w = {.erase.caller = GetUserId()};
	AtpErase   *e = &w.erase;
	uint64		removed = 0;
	AtpCaller	section;
	List	   *targets;
	ListCell   *lc;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("did");
	PreventCommandIfReadOnly("unblock()");
	SPI_connect();
	e->cxt = CurrentMemoryContext;
	e->did = PG_GETARG_VARLENA_PP(0);
	e->target = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	e->everything = atp_has_owners_rights("atproto", "identity");
	targets = atp_erase_targets(e);
	section = atp_as_table_owner("blocked_account");
	foreach(lc, targets)
		removed += atp_run(atp_identity_sql("DELETE FROM atproto.blocked_account WHERE did OPERATOR(@.=) $1 AND target = $2::name"),
						   ATP_ARGS(atp_did_arg(e->did), atp_text_arg(lfirst(lc))));
	if (e->everything && e->target == NULL)
		removed += atp_run(atp_identity_sql("DELETE FROM atproto.blocked_account WHERE did OPERATOR(@.=) $1"), ATP_ARGS(atp_did_arg(e->did)));
	tell_block_of_all(e);
	atp_owner_end(section);
	SPI_finish();
	PG_RETURN_BOOL(removed > 0);
}
