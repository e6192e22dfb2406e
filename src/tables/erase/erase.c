/*
 * erase.c
 *		SQL: CALL atproto.erase(): forgets an account.
 *
 * The procedure goes through the targets whose tables the caller may write, each in short transactions (erase_target.c), and
 * then through the extension's tables (holding.c).  Rows of foreign roles stay, and a notice of the procedure tells so.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/sweep.h"
#include "tables/base/table.h"
#include "tables/erase/erase_target.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_erase);
PG_FUNCTION_INFO_V1(atp_unblock);

/* Schemas with a table repo of the extension's making. */
#define TARGETS \
	"SELECT n.nspname::text AS name FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'repo' AND c.relkind IN ('r', 'p')" \
	" WHERE ($2 IS NULL OR n.nspname = $2::name)" \
	" AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'did' AND a.atttypid = $1)" \
	" AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'rev') ORDER BY 1"

typedef struct ErasureRun
{
	AtpErase	erase;
	bool		atomic;			/* the procedure cannot commit */
	List	   *all;			/* names of all targets */
	int			foreign;		/* number of targets that the caller may not erase from */
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

/* The targets that the caller may write. */
static List *
find_targets(ErasureRun *w)
{
	AtpErase   *e = &w->erase;
	AtpResult	found = atp_query(TARGETS, ATP_ARGS((AtpArg) {ObjectIdGetDatum(atp_type("did")), OIDOID, false}, atp_text_arg(e->target)));
	List	   *targets = NIL;

	for (uint64 i = 0; i < found.n; i++)
	{
		char	   *name = MemoryContextStrdup(e->cxt, atp_get_text(atp_result_row(found, i), "name"));
		MemoryContext old = MemoryContextSwitchTo(e->cxt);

		w->all = lappend(w->all, name);

		if (OidIsValid(atp_erase_role(name, e->caller)))
			targets = lappend(targets, name);
		else
			w->foreign++;
		MemoryContextSwitchTo(old);
	}
	atp_result_free(found);
	return targets;
}

/* Wait for the transactions that have this table locked as writers, and may not have seen the block. */
static void
await_writers(const char *target, const char *table)
{
	Oid			schema = get_namespace_oid(target, true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid(table, schema) : InvalidOid;

	if (OidIsValid(relid))
		atp_sweep_await_writers(relid);
}

/*
 * Block the account in the targets, or, for whoever may erase everything, in the whole database, and wait until all processes
 * obey (blocked.h).
 */
static void
block_account(ErasureRun *w, List *targets)
{
	AtpErase   *e = &w->erase;
	bool		whole = e->everything && e->target == NULL;
	int			nest = atp_caller_begin();
	AtpCaller	section = atp_as_table_owner("blocked_account");
	ListCell   *lc;

	if (whole)
		(void) atp_run("INSERT INTO atproto.blocked_account (did) VALUES ($1) ON CONFLICT DO NOTHING", ATP_ARGS(atp_did_arg(e->did)));
	foreach(lc, whole ? NIL : targets)
		(void) atp_run("INSERT INTO atproto.blocked_account (did, target) VALUES ($1, $2::name) ON CONFLICT DO NOTHING",
					   ATP_ARGS(atp_did_arg(e->did), atp_text_arg(lfirst(lc))));
	atp_owner_end(section);
	end_step(w, nest);
	nest = atp_caller_begin();
	foreach(lc, whole ? w->all : targets)
	{
		await_writers(lfirst(lc), "repo");
		await_writers(lfirst(lc), "label");
	}
	end_step(w, nest);
}

static void
erase_target(ErasureRun *w, const char *target)
{
	bool		more;
	int			nest;

	atp_progress_phase("removing records", -1);
	do
	{
		CHECK_FOR_INTERRUPTS();
		nest = atp_caller_begin();
		more = atp_erase_piece(&w->erase, target);
		end_step(w, nest);
		atp_progress_to(w->erase.removed[0]);
	} while (more);
	atp_progress_phase("removing events, labels and messages", -1);
	nest = atp_caller_begin();
	atp_erase_rows(&w->erase, target);
	end_step(w, nest);
}

static void
erase_own(ErasureRun *w, AtpHolding holds)
{
	int			nest = atp_caller_begin();

	atp_erase_own(&w->erase, holds, w->erase.target);
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
	if (w->foreign > 0)
		ereport(NOTICE,
				(errmsg("the tables of %d schemas belong to other owners, and were left alone", w->foreign),
				 errhint("A superuser, or each owner, can call the procedure, too.")));
	ereport(NOTICE,
			(errmsg("copies may remain elsewhere"),
			 errhint("See atproto.account_traces().")));
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
	targets = find_targets(&w);
	if (e->target != NULL && targets == NIL)
		atp_erase_refuse(e->target);
	end_step(&w, nest);
	if (PG_GETARG_BOOL(1))
		block_account(&w, targets);
	atp_progress_begin("erase", e->target != NULL ? e->target : "");
	foreach(lc, targets)
		erase_target(&w, lfirst(lc));
	erase_own(&w, ATP_HOLDS_BY_OWNER);
	if (e->directory)
		erase_own(&w, ATP_HOLDS_LOG_BY_OWNER);
	atp_progress_end();
	report_removed(&w);
	MemoryContextSwitchTo(old);
	SPI_finish();
	PG_RETURN_VOID();
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
	SPI_connect();
	e->cxt = CurrentMemoryContext;
	e->did = PG_GETARG_VARLENA_PP(0);
	e->target = PG_ARGISNULL(1) ? NULL : NameStr(*PG_GETARG_NAME(1));
	e->everything = atp_has_owners_rights("atproto", "identity");
	targets = find_targets(&w);
	if (e->target != NULL && targets == NIL)
		atp_erase_refuse(e->target);
	section = atp_as_table_owner("blocked_account");
	foreach(lc, targets)
		removed += atp_run(atp_identity_sql("DELETE FROM atproto.blocked_account WHERE did OPERATOR(@.=) $1 AND target = $2::name"),
						   ATP_ARGS(atp_did_arg(e->did), atp_text_arg(lfirst(lc))));
	if (e->everything && e->target == NULL)
		removed += atp_run(atp_identity_sql("DELETE FROM atproto.blocked_account WHERE did OPERATOR(@.=) $1"), ATP_ARGS(atp_did_arg(e->did)));
	atp_owner_end(section);
	SPI_finish();
	PG_RETURN_BOOL(removed > 0);
}
