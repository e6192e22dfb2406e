/*
 * held_leave.c
 *		SQL: triggers about held events: they get what an older dump does not have, and go with their
 *		subscription, not in silence.
 *
 * A subscription that is removed, or whose target or kind of stream changes, leaves events behind that nobody
 * judges any more.  Another subscription gets them if it may take them (held_by.h).  Otherwise they are dropped in
 * this transaction, their repositories are marked, and a row of atproto.gap tells how many there were.  A refill
 * (refill.c) ends with its subscription.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "commands/trigger.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/base/audit_request.h"
#include "tables/base/error_class.h"
#include "tables/repos/held.h"
#include "tables/repos/held_by.h"
#include "tables/base/job.h"
#include "tables/repos/repo.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(atp_held_event_fill);
PG_FUNCTION_INFO_V1(atp_subscription_held);

/* ------------------------------------------------------------------------
 * A row without a level, a format or an endpoint
 * ------------------------------------------------------------------------
 */

/* SQL: atproto.held_event_fill(), BEFORE INSERT, for each row */
Datum
atp_held_event_fill(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	MemoryContext cxt = CurrentMemoryContext;
	AtpTuple	row;
	const AtpSubscription *sub;
	const char *const columns[] = {"verify", "format", "endpoint"};
	const char *values[3];
	Datum		datums[3];
	bool		nulls[3] = {false, false, false};
	int			numbers[3];
	int			n = 0;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired before each row", "held_event_fill")));
	row = (AtpTuple) {trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)};
	SPI_connect();
	sub = atp_subscription_get(atp_get_text(row, "subscription"), cxt);
	SPI_finish();
	/* there is none: the foreign key says so */
	if (sub == NULL)
		return PointerGetDatum(row.tuple);
	values[0] = atp_verify_words[sub->settings.verify];
	values[1] = sub->source->format_name;
	values[2] = sub->ep->scope;
	for (int i = 0; i < lengthof(columns); i++)
	{
		bool		isnull;

		(void) atp_get(row, columns[i], TEXTOID, &isnull);
		if (!isnull)
			continue;
		numbers[n] = atp_column(row, columns[i]);
		datums[n++] = CStringGetTextDatum(values[i]);
	}
	return PointerGetDatum(heap_modify_tuple_by_cols(row.tuple, row.desc, n, numbers, datums, nulls));
}

/* ------------------------------------------------------------------------
 * A subscription leaves
 * ------------------------------------------------------------------------
 */
typedef struct Leaving
{
	const AtpSubscription *sub;
	struct varlena **dids;		/* whose events it holds, sorted */
	int			ndids;
	bool		removed;		/* no row is going to have its name */
} Leaving;

static uint64
run_as_table_owner(const char *sql, const AtpArg *args, int nargs)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	uint64		n = atp_run(atp_identity_sql(sql), args, nargs);

	atp_owner_end(caller);
	return n;
}

static void
find_dids(Leaving *l)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	AtpResult	found = atp_query("SELECT DISTINCT did FROM atproto.held_event WHERE subscription = $1 AND target = $2::name",
								  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));
	bool		isnull;

	atp_owner_end(caller);
	l->dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
		l->dids[i] = PG_DETOAST_DATUM_COPY(atp_get(atp_result_row(found, i), "did", atp_type("did"), &isnull));
	atp_result_free(found);
	l->ndids = atp_sort_dids(l->dids, found.n);
}

/* The first subscription that may take what is held, one that runs if there is any; NULL: there is none. */
static const AtpSubscription *
find_heir(const Leaving *l)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND name <> $2"
								  " ORDER BY enabled AND stopped IS NULL DESC, name",
								  ATP_ARGS(atp_text_arg(l->sub->target), atp_text_arg(l->sub->name)));
	const AtpSubscription *heir = NULL;

	for (uint64 i = 0; i < found.n && heir == NULL; i++)
	{
		const AtpSubscription *sub = atp_subscription_get(atp_get_text(atp_result_row(found, i), "name"), CurrentMemoryContext);

		if (sub != NULL && atp_held_may_take(sub, l->sub))
			heir = sub;
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return heir;
}

static void
hand_over(const Leaving *l, const AtpSubscription *heir)
{
	/* what both have received is there once more, under the heir's name */
	(void) run_as_table_owner("UPDATE atproto.held_event h SET subscription = $3 WHERE subscription = $1 AND target = $2::name AND NOT EXISTS"
							  " (SELECT FROM atproto.held_event e WHERE e.target = h.target AND e.did OPERATOR(@.=) h.did"
							  "  AND e.rev OPERATOR(@.=) h.rev AND e.subscription = $3 AND e.seq = h.seq AND e.endpoint = h.endpoint)",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target), atp_text_arg(heir->name)));
	(void) run_as_table_owner("DELETE FROM atproto.held_event WHERE subscription = $1 AND target = $2::name",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));
	atp_held_release(l->dids, l->ndids);
}

/* How many there were, for each stream; of labels, for each labeler. */
static void
note_lost(const Leaving *l)
{
	(void) run_as_table_owner("INSERT INTO atproto.gap (subscription, target, endpoint, did, events, after_seq, before_seq, reason)"
							  " SELECT CASE WHEN NOT $3 THEN $1 END, target, endpoint, CASE WHEN kind = 'label' THEN did END,"
							  "  count(*), min(seq) - 1, max(seq) + 1, 'held events dropped'"
							  " FROM atproto.held_event WHERE subscription = $1 AND target = $2::name"
							  " GROUP BY target, endpoint, CASE WHEN kind = 'label' THEN did END",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target), atp_bool_arg(l->removed)));
}

static void
remove_rows(const Leaving *l)
{
	(void) run_as_table_owner("DELETE FROM atproto.held_event WHERE subscription = $1 AND target = $2::name",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));
}

/* They lack what is dropped: who fetches repositories into these tables is to fetch them. */
static void
wish(const Leaving *l, struct varlena *const *dids, int n)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND name <> $2 AND backfill <> 'none'"
								  " AND atproto.role_may_fill(owner, target) ORDER BY enabled DESC, name LIMIT 1",
								  ATP_ARGS(atp_text_arg(l->sub->target), atp_text_arg(l->sub->name)));
	AtpJobWish *wishes = palloc(sizeof(AtpJobWish) * Max(n, 1));

	atp_owner_end(caller);
	for (int i = 0; i < n; i++)
		wishes[i] = (AtpJobWish) {.did = dids[i], .priority = ATP_JOB_BREAK, .reason = "break"};
	if (n > 0 && found.n > 0 && atp_jobs_wish(l->sub->target, atp_get_text(atp_result_row(found, 0), "name"), wishes, n) > 0)
		atp_wake_fetcher();
	atp_result_free(found);
}

typedef struct Marking
{
	AtpApply	apply;
	Leaving    *leaving;
} Marking;

/* With the rights of the subscription's owner, as its consumer would. */
static void
mark(AtpApply *a, int unused, int unused2)
{
	Leaving    *l = ((Marking *) a)->leaving;
	AtpCaller	caller = atp_owner_begin(l->sub->owner);
	struct varlena **marked;
	int			n = atp_repos_mark_left(a, l->dids, l->ndids, &marked);

	remove_rows(l);
	atp_repos_unhold(a, l->dids, l->ndids);
	atp_owner_end(caller);
	wish(l, marked, n);
}

/* False: the tables could not be written, and the gap alone tells. */
static bool
mark_repos(Leaving *l)
{
	AtpBatch	batch = {.cxt = CurrentMemoryContext};
	Marking		m = {.apply = {.sub = l->sub, .sink = l->sub->source->sink, .batch = &batch}, .leaving = l};
	ErrorData  *volatile error;

	if (!(m.apply.sink->uses & ATP_USE_REPOS) || !OidIsValid(l->sub->owner))
		return false;
	m.apply.statements = atp_statements_create(l->sub->target, ATP_WRITER_OTHER);
	PG_TRY();
	{
		error = atp_attempt(&m.apply, mark, 0, 0);
	}
	PG_FINALLY();
	{
		atp_statements_free(m.apply.statements);
	}
	PG_END_TRY();
	if (error != NULL)
		ereport(WARNING,
				(errmsg("repositories of which events waited could not be marked in schema \"%s\": %s", l->sub->target, error->message),
				 errdetail("A row of atproto.gap tells how many events are dropped.")));
	return error == NULL;
}

/* Does the target have repositories that the subscription's owner may change? */
static bool
may_end_refills(const AtpSubscription *sub)
{
	Oid			schema = get_namespace_oid(sub->target, true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid(atp_repo_table.name, schema) : InvalidOid;

	return sub->source->by_repo && OidIsValid(relid) && atp_table_is_ours(&atp_repo_table, relid) &&
		get_attnum(relid, "refill_at") != InvalidAttrNumber && atp_role_may_fill(sub->owner, sub->target);
}

/*
 * V-31: what a refill has written is unproven until it comes to the repository's revision.  Nobody goes on with this
 * refill, and the fetcher audits no repository that is being read again.  Rows of an earlier version have the name.
 * A repository without a tree cannot be audited: a record that the refill has brought may have been removed by an event
 * that the refill has not come to, so such a repository is marked, from the first event on that was read again.
 */
static void
end_refills(AtpApply *a, int unused, int unused2)
{
	const AtpSubscription *sub = a->sub;
	AtpCaller	caller = atp_owner_begin(sub->owner);
	uint64		n = atp_run(atp_expand_sql("UPDATE #.repo SET sync = CASE WHEN data IS NULL AND sync IN ('partial', 'unproven')"
										   "  AND refill_rev IS NOT NULL AND (refill_rev OPERATOR(@.=) deleted_rev) IS NOT TRUE"
										   "  THEN 'desynchronized' ELSE sync END, refill_by = NULL, refill_rev = NULL, refill_data = NULL, refill_sync = NULL,"
										   " refill_to = NULL, refill_at = NULL, updated_at = now() WHERE refill_by IN ($1, $2)", sub->target),
							ATP_ARGS(atp_text_arg(sub->id), atp_text_arg(sub->name)));

	atp_owner_end(caller);
	if (n > 0)
		atp_audit_wish(sub->target);
}

/* A trigger of the table may refuse that: then atproto.check() finds the rows. */
static void
leave_refills(const AtpSubscription *sub)
{
	AtpBatch	batch = {.cxt = CurrentMemoryContext};
	AtpApply	apply = {.sub = sub, .sink = sub->source->sink, .batch = &batch};
	ErrorData  *error;
	int			nest;

	if (!may_end_refills(sub))
		return;
	nest = atp_caller_begin();
	error = atp_attempt(&apply, end_refills, 0, 0);
	atp_caller_end(nest);
	if (error != NULL)
		ereport(WARNING,
				(errmsg("a refill of subscription \"%s\" could not be ended in schema \"%s\": %s", sub->name, sub->target, error->message)));
}

static void
leave(const AtpSubscription *sub, bool removed)
{
	Leaving		l = {.sub = sub, .removed = removed};
	const AtpSubscription *heir;
	int			nest;

	leave_refills(sub);
	find_dids(&l);
	if (l.ndids == 0)
		return;
	if ((heir = find_heir(&l)) != NULL)
	{
		hand_over(&l, heir);
		return;
	}
	note_lost(&l);
	/* no trigger of the tables waits for the transaction's end, where it would have the caller's rights */
	nest = atp_caller_begin();
	if (!mark_repos(&l))
		remove_rows(&l);
	atp_caller_end(nest);
}

/* Do its held events go to other tables by now, or would another kind of sink have to take them? */
static bool
is_another(AtpTuple old, AtpTuple row)
{
	const AtpSource *before = atp_source_of(atp_endpoint_parse(atp_get_text(old, "url"))->stream, atp_get_text_or_null(old, "format"));
	const AtpSource *after = atp_source_of(atp_endpoint_parse(atp_get_text(row, "url"))->stream, atp_get_text_or_null(row, "format"));

	return strcmp(atp_get_text(old, "target"), atp_get_text(row, "target")) != 0 ||
		(before != NULL && after != NULL && before->sink != after->sink);
}

/* SQL: atproto.subscription_held(), BEFORE UPDATE OF target, url, format or DELETE, for each row */
Datum
atp_subscription_held(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	AtpTuple	old,
				row;
	bool		removed;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired before each row", "subscription_held")));
	old = row = (AtpTuple) {trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)};
	removed = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
	if (!removed)
		row.tuple = trigger->tg_newtuple;
	if (removed || (!atp_target_is_renamed() && is_another(old, row)))
	{
		AtpSubscription *sub;

		SPI_connect();
		sub = atp_subscription_get(atp_get_text(old, "name"), CurrentMemoryContext);
		if (sub != NULL)
			leave(sub, removed);
		SPI_finish();
	}
	return PointerGetDatum(row.tuple);
}
