/*
 * erase_target.c
 *		Erases an account from the data tables of a target, and from the rows of the extension's tables about this
 *		target.
 *
 * The records go in pieces, each in a transaction that has locked the repository's row: so a consumer with an event of the
 * account waits for a piece at most.  From the first piece on, the row says that older records may be missing (sync:
 * partial), which is true until the end, and also if the command ends in between.  The last piece also removes the
 * row, and the waiting work about the repository.
 *
 * Lock order: the tables, the repository's row, the job.  A fetch that has written a part of an export holds its job's row
 * until its transaction ends, and its next part needs the row: so the last piece removes the job before the last records.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/blocked.h"
#include "tables/base/derived.h"
#include "tables/base/distributed.h"
#include "tables/base/error_class.h"
#include "tables/base/hiding.h"
#include "tables/base/table_locks.h"
#include "tables/erase/erase_target.h"
#include "tables/records/collection_count.h"
#include "tables/records/link_count.h"
#include "tables/records/record.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/rls.h"

/* Records in a piece: a consumer waits for some hundredths of a second. */
#define PIECE	2000

/* The repository's row, as of an account of which older records may be missing. */
#define TAKE_REPO \
	"UPDATE #.repo SET sync = 'partial', proved = NULL, proved_rev = NULL, purge_rev = NULL, purge_seq = NULL," \
	" refill_by = NULL, refill_rev = NULL, refill_data = NULL, refill_first = NULL, refill_sync = NULL, refill_to = NULL, refill_at = NULL," \
	" updated_at = now() WHERE did OPERATOR(@.=) $1"

/*
 * Removes the account's events, and notes in collection_count how many events of an hour and a subscription are gone: the counts
 * stay, and check() compares counts and events.  No worker writes the row, so no consumer waits for erase().
 */
#define HOUR_OF_EVENT	"date_trunc('hour', g.received_at, 'UTC')"
#define ERASE_EVENTS(condition) \
	"WITH gone AS (DELETE FROM #.record_event x WHERE " condition " RETURNING x.subscription, x.received_at, x.seq)," \
	" noted AS (INSERT INTO #.collection_count AS c (hour, subscription, worker, collection, creates, updates, deletes, erased)" \
	"  SELECT " HOUR_OF_EVENT ", g.subscription, -1, '" ATP_OTHER_COLLECTIONS "', 0, 0, 0, count(*) FROM gone g WHERE g.seq IS NOT NULL" \
	"   AND EXISTS (SELECT FROM #.collection_count o WHERE o.hour = " HOUR_OF_EVENT " AND o.subscription = g.subscription)" \
	"  GROUP BY 1, 2 ORDER BY 1, 2 ON CONFLICT (hour, subscription, worker, collection) DO UPDATE SET erased = c.erased + excluded.erased)" \
	" SELECT count(*) AS n FROM gone"

Oid
atp_erase_role(const char *target, Oid caller)
{
	Oid			owner = atp_has_owners_rights(target, "repo") ? atp_owner_of_table(target, "repo") : InvalidOid;
	AtpCaller	section;
	AtpResult	found;

	if (OidIsValid(owner) && atp_role_may_fill(owner, target, atp_owner_of_schema(get_namespace_oid(target, false))))
		return owner;
	section = atp_as_table_owner("subscription");
	found = atp_query("SELECT s.owner::oid AS owner FROM atproto.subscription s WHERE s.target = $1::name AND pg_has_role($2, s.owner, 'USAGE')"
					  " AND atproto.role_may_fill(s.owner, s.target, s.target_owner) ORDER BY s.name LIMIT 1",
					  ATP_ARGS(atp_text_arg(target), (AtpArg) {ObjectIdGetDatum(caller), OIDOID, false}));
	owner = found.n > 0 ? DatumGetObjectId(atp_get_arg(atp_result_row(found, 0), "owner", OIDOID).value) : InvalidOid;
	atp_result_free(found);
	atp_owner_end(section);
	return owner;
}

void
atp_erase_refuse(const char *target)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must have the rights of the owner of the tables of schema \"%s\", or of a subscription that fills them", target)));
}

void
atp_erase_refuse_in_trigger(void)
{
	if (atp_statements_in_use())
		ereport(ERROR,
				(errcode(ATP_ERRCODE_STOP),
				 errmsg("accounts cannot be erased, hidden or shown by a trigger of the tables that are being filled")));
}

AtpCaller
atp_erase_begin(const AtpErase *e, const char *target)
{
	Oid			role = atp_erase_role(target, e->caller);

	if (!OidIsValid(role))
		atp_erase_refuse(target);
	return atp_owner_begin(role);
}

/*
 * Does the schema gather the tables of several servers under one name (postgres_fdw)?  A DELETE would remove records of these servers
 * without their links, and without a word to their consumers.
 */
static bool
is_elsewhere(const char *target)
{
	AtpResult	found = atp_query("SELECT EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relkind = 'f' WHERE i.inhparent = $1) AS elsewhere",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(atp_target_relid(target, atp_repo_table.name)), OIDOID, false}));
	bool		elsewhere = atp_get_bool(atp_result_row(found, 0), "elsewhere");

	atp_result_free(found);
	return elsewhere;
}

static void
refuse_elsewhere(const char *target)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("the rows of schema \"%s\" are on other servers", target),
			 errhint("Make the call on the server of the account's slice.")));
}

List *
atp_erase_targets(AtpErase *e)
{
	MemoryContext old = MemoryContextSwitchTo(e->cxt);
	List	   *targets = NIL;
	ListCell   *lc;

	foreach(lc, atp_targets(e->target))
	{
		char	   *name = lfirst(lc);

		if (!OidIsValid(atp_erase_role(name, e->caller)))
			e->foreign++;
		else if (!is_elsewhere(name))
		{
			atp_require_coordinator(name);
			targets = lappend(targets, name);
		}
		else if (e->target != NULL)
			refuse_elsewhere(name);
		else
			e->elsewhere++;
	}
	MemoryContextSwitchTo(old);
	if (e->target != NULL && targets == NIL)
		atp_erase_refuse(e->target);
	return targets;
}

void
atp_erase_report_left(const AtpErase *e)
{
	if (e->foreign > 0)
		ereport(NOTICE,
				(errmsg("the tables of %d schemas belong to other owners, and were left alone", e->foreign),
				 errhint("A superuser, or each owner, can make this call, too.")));
	if (e->elsewhere > 0)
		ereport(NOTICE,
				(errmsg("the rows of %d schemas are on other servers, and were left alone", e->elsewhere),
				 errhint("Make the call on these servers, too.")));
}

ErrorData *
atp_erase_attempt(AtpErase *e, const char *target, AtpEraseStep step, bool *result)
{
	ResourceOwner owner = CurrentResourceOwner;
	int64	   *before = palloc(sizeof(int64) * atp_nholdings);
	ErrorData  *volatile error = NULL;

	memcpy(before, e->removed, sizeof(int64) * atp_nholdings);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(e->cxt);
	PG_TRY();
	{
		*result = step(e, target);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(e->cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		memcpy(e->removed, before, sizeof(int64) * atp_nholdings);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(e->cxt);
	CurrentResourceOwner = owner;
	pfree(before);
	return error;
}

/* ------------------------------------------------------------------------
 * The extension's tables
 * ------------------------------------------------------------------------
 */
void
atp_erase_own(AtpErase *e, AtpHolding holds, const char *target)
{
	AtpArg		args[ATP_HOLDING_ARGS];

	atp_holding_args(args, e->did, e->caller, target, e->everything);
	for (int i = 0; atp_holdings[i].relation != NULL; i++)
	{
		const AtpHoldingEntry *entry = &atp_holdings[i];
		AtpCaller	section;

		if (entry->holds != holds)
			continue;
		section = atp_as_table_owner(atp_holding_table(entry));
		e->removed[i] += atp_run(atp_identity_sql(psprintf("DELETE FROM %s x WHERE %s", entry->relation, atp_holding_condition(entry))),
								 args, lengthof(args));
		atp_owner_end(section);
	}
}

/* ------------------------------------------------------------------------
 * The data tables
 * ------------------------------------------------------------------------
 */

/* Number of the entry for a data table's rows of the account. */
static int
entry_of(const char *table)
{
	int			i = 0;

	while (!atp_holding_is_data(&atp_holdings[i]) || strcmp(atp_holding_table(&atp_holdings[i]), table) != 0)
		i++;
	return i;
}

static bool
is_there(const char *target, const char *table)
{
	return OidIsValid(get_relname_relid(table, get_namespace_oid(target, false)));
}

/*
 * Do the counts note removed events?  PostgreSQL accepts no table with rules in ERASE_EVENTS, and Citus no tables on different
 * nodes.  Row security of the counts may refuse the row.
 */
static bool
counts_note_events(const char *target)
{
	Oid			events = atp_target_relid(target, atp_record_event_table.name);
	Oid			counts = atp_target_relid(target, atp_collection_count_table.name);
	AtpResult	found;
	bool		notes;

	if (!OidIsValid(events) || !OidIsValid(counts) || get_attnum(counts, "erased") == InvalidAttrNumber ||
		check_enable_rls(counts, InvalidOid, true) == RLS_ENABLED || atp_is_distributed(events) || atp_is_distributed(counts))
		return false;
	found = atp_query("SELECT FROM pg_class WHERE oid IN ($1, $2) AND relhasrules",
					  ATP_ARGS((AtpArg) {ObjectIdGetDatum(events), OIDOID, false}, (AtpArg) {ObjectIdGetDatum(counts), OIDOID, false}));
	notes = found.n == 0;
	atp_result_free(found);
	return notes;
}

static uint64
erase_noted_events(const char *target, const AtpArg *args)
{
	const char *condition = atp_holding_condition(&atp_holdings[entry_of(atp_record_event_table.name)]);
	AtpResult	found = atp_query(atp_expand_sql(psprintf(ERASE_EVENTS("%s"), condition), target), args, ATP_HOLDING_ARGS);
	int64		n = atp_get_int8(atp_result_row(found, 0), "n");

	atp_result_free(found);
	return (uint64) n;
}

/* Remove the rows of one table. */
static void
erase_table(AtpErase *e, const char *target, int number)
{
	const AtpHoldingEntry *entry = &atp_holdings[number];
	AtpArg		args[ATP_HOLDING_ARGS];

	if (!is_there(target, atp_holding_table(entry)))
		return;
	atp_holding_args(args, e->did, e->caller, target, e->everything);
	if (strcmp(atp_holding_table(entry), atp_record_event_table.name) == 0 && counts_note_events(target))
		e->removed[number] += erase_noted_events(target, args);
	else
		e->removed[number] += atp_run(atp_expand_sql(psprintf("DELETE FROM %s x WHERE %s", entry->relation, atp_holding_condition(entry)), target),
									  args, lengthof(args));
}

/*
 * The subscriptions that hear of each removed record.  The first one stands for the table link, which hears of each record
 * whatever the settings are by now.  Each subscription that keeps events or counts hears for record_event and
 * collection_count.
 */
static List *
find_listeners(const char *target)
{
	AtpSubscription *links = palloc0(sizeof(AtpSubscription));
	List	   *listeners = NIL;
	AtpCaller	section = atp_as_table_owner("subscription");
	List	   *names = atp_subscriptions_filling(target, "by_repo AND (events <> 'none' OR count_collections)", "name");
	ListCell   *lc;

	links->settings.has_links = is_there(target, atp_link_table.name);
	listeners = lappend(listeners, links);
	foreach(lc, names)
	{
		AtpSubscription *sub = atp_subscription_get(lfirst(lc), CurrentMemoryContext);

		if (sub == NULL)
			continue;
		sub->settings.has_links = false;
		listeners = lappend(listeners, sub);
	}
	atp_owner_end(section);
	return listeners;
}

/* Uses of the tables that a piece writes. */
static int
uses_of(const List *listeners)
{
	int			uses = ATP_USE_REPOS;
	const ListCell *lc;

	foreach(lc, listeners)
		uses |= atp_derived_uses(lfirst(lc));
	return uses;
}

static uint64
forget_records(AtpErase *e, AtpApply *a, const char *target, const List *listeners)
{
	uint64		n = is_there(target, atp_record_table.name) ? atp_records_forget(a, e->did, PIECE, listeners) : 0;

	e->removed[entry_of(atp_record_table.name)] += n;
	return n;
}

/* The hiding goes with the repository's row.  A blocked account cannot come back. */
static void
tell_hiding_goes(const AtpErase *e, const char *target)
{
	if (!atp_has_hiding(target) || atp_is_blocked(target, e->did) ||
		atp_run(atp_expand_sql("SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 AND hidden_at IS NOT NULL", target), ATP_ARGS(atp_did_arg(e->did))) == 0)
		return;
	ereport(NOTICE,
			(errmsg("the account was hidden in schema \"%s\", and is so no longer", target),
			 errhint("If events bring the account back, it is visible: call atproto.hide() again, or atproto.erase() with block => true.")));
}

/* As the role that erases.  False: nothing is left. */
static bool
take_piece(AtpErase *e, const char *target, AtpStatements *set)
{
	AtpApply	a = {.statements = set};
	List	   *listeners = find_listeners(target);
	bool		more;

	atp_tables_lock_waiting(set, uses_of(listeners));
	(void) atp_run(atp_expand_sql(TAKE_REPO, target), ATP_ARGS(atp_did_arg(e->did)));
	more = forget_records(e, &a, target, listeners) == PIECE;
	if (!more)
	{
		more = false;
		atp_erase_own(e, ATP_HOLDS_BY_TARGET, target);
		/* a statement that removes less than a piece has seen all records of the fetch: later records come from triggers */
		while (forget_records(e, &a, target, listeners) == PIECE)
			;
		tell_hiding_goes(e, target);
		erase_table(e, target, entry_of("repo"));
	}
	atp_link_counts_write(&a);
	e->removed[entry_of("link")] += a.links_removed;
	return more;
}

bool
atp_erase_piece(AtpErase *e, const char *target)
{
	AtpStatements *set;
	volatile bool more = false;

	atp_erase_refuse_in_trigger();
	set = atp_statements_create(target, ATP_WRITER_OTHER);
	PG_TRY();
	{
		AtpCaller	section = atp_erase_begin(e, target);

		more = take_piece(e, target, set);
		atp_owner_end(section);
	}
	PG_FINALLY();
	{
		atp_statements_free(set);
	}
	PG_END_TRY();
	return more;
}

/* Can a trigger, a rule or row security of the table keep rows that erase() deletes? */
static bool
may_keep_rows(const char *target, const char *table)
{
	AtpResult	found = atp_query("SELECT relhastriggers OR relhasrules OR relrowsecurity AS may FROM pg_class WHERE oid = $1",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(get_relname_relid(table, get_namespace_oid(target, false))), OIDOID, false}));
	bool		may = found.n > 0 && atp_get_bool(atp_result_row(found, 0), "may");

	atp_result_free(found);
	return may;
}

static void
warn_of_kept(AtpErase *e, const char *target, int number)
{
	const AtpHoldingEntry *entry = &atp_holdings[number];
	AtpArg		args[ATP_HOLDING_ARGS];
	AtpResult	found;
	int64		n;

	if (!is_there(target, atp_holding_table(entry)) || !may_keep_rows(target, atp_holding_table(entry)))
		return;
	atp_holding_args(args, e->did, e->caller, target, e->everything);
	found = atp_query(atp_expand_sql(psprintf("SELECT count(*) AS n FROM %s x WHERE %s", entry->relation, atp_holding_condition(entry)), target),
					  args, lengthof(args));
	n = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	if (n > 0)
		ereport(WARNING,
				(errmsg("%s of schema \"%s\": " INT64_FORMAT " rows of the account remain", atp_holding_table(entry), target, n),
				 errhint("Triggers or rules of the table keep its rows, or make new ones.")));
}

bool
atp_erase_rows(AtpErase *e, const char *target)
{
	AtpCaller	section = atp_erase_begin(e, target);

	for (int i = 0; atp_holdings[i].relation != NULL; i++)
		if (atp_holdings[i].holds == ATP_HOLDS_ROWS || (atp_holdings[i].holds == ATP_HOLDS_LOG && e->directory))
			erase_table(e, target, i);
	for (int i = 0; atp_holdings[i].relation != NULL; i++)
		if (atp_holdings[i].holds == ATP_HOLDS_RECORDS || atp_holdings[i].holds == ATP_HOLDS_ROWS)
			warn_of_kept(e, target, i);
	atp_owner_end(section);
	return false;
}
