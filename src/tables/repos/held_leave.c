/*
 * held_leave.c
 *		SQL: the trigger that completes rows of atproto.held_event from older dumps, and the trigger that keeps
 *		the held events and the dead letters of a subscription from getting lost without a trace.
 *
 * If a subscription is removed, or its target or kind of stream changes, no process would judge its held events
 * any more.  A second subscription gets the events if that subscription may take them (held_by.h).  Otherwise this
 * transaction drops the events, marks their repositories, and counts the events in a row of atproto.gap.  The
 * repositories of the subscription's dead letters are marked, too.  A refill (refill.c) ends with its subscription.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/base/audit_request.h"
#include "tables/base/distributed.h"
#include "tables/base/error_class.h"
#include "tables/base/gap.h"
#include "tables/repos/held.h"
#include "tables/repos/dead_letter.h"
#include "tables/repos/held_by.h"
#include "tables/base/job.h"
#include "tables/repos/repo.h"
#include "tables/repos/status_request.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_held_event_fill);
PG_FUNCTION_INFO_V1(atp_subscription_held);

/* ------------------------------------------------------------------------
 * A row without a level, a format or an endpoint
 * ------------------------------------------------------------------------
 */

/* SQL: atproto_internal.held_event_fill(), BEFORE INSERT, for each row */
Datum
atp_held_event_fill(PG_FUNCTION_ARGS)
{
	AtpTuple	row = atp_row_trigger(fcinfo, "held_event_fill", ATP_BEFORE_ROW, ATP_ON_INSERT).row;
	MemoryContext cxt = CurrentMemoryContext;
	const AtpSubscription *sub;
	const char *const columns[] = {"verify", "format", "endpoint"};
	const char *values[3];
	Datum		datums[3];
	bool		nulls[3] = {false, false, false};
	int			numbers[3];
	int			n = 0;

	SPI_connect();
	sub = atp_subscription_get(atp_get_text(row, "subscription"), cxt);
	SPI_finish();
	/* the subscription does not exist: leave the row, and the foreign key raises the error */
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
 * A subscription is removed or changes its target
 * ------------------------------------------------------------------------
 */
typedef struct Leaving
{
	const AtpSubscription *sub;
	struct varlena **dids;		/* the accounts with events held by the subscription, or with its letters, sorted */
	int			ndids;
	struct varlena **exported;	/* the accounts with letters about records of an export, sorted */
	int			nexported;
	bool		removed;		/* the subscription is being deleted, so no row may refer to its name */
	bool		jumps;			/* the subscription stays, and its cursor jumps over events */
	List	   *marked;			/* the DIDs of repositories that were marked, and are to be fetched */
	MemoryContext cxt;			/* of marked */
} Leaving;

static uint64
run_as_table_owner(const char *sql, const AtpArg *args, int nargs)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	uint64		n = atp_run(atp_identity_sql(sql), args, nargs);

	atp_owner_end(caller);
	return n;
}

/* The accounts of the rows that the subscription has in the table, and that satisfy the condition; returns their number. */
static int
find_dids(const Leaving *l, const char *table, const char *condition, struct varlena ***dids)
{
	AtpCaller	caller = atp_as_table_owner(table);
	AtpResult	found = atp_query(psprintf("SELECT DISTINCT did FROM atproto.%s WHERE subscription = $1 AND %s", table, condition),
								  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));

	atp_owner_end(caller);
	*dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
		(*dids)[i] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
	atp_result_free(found);
	return atp_sort_dids(*dids, found.n);
}

/* A subscription that may take the held events, preferably a running one; NULL: no subscription may. */
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
	/* skip events that the heir has received as well, since the heir has its own rows for these events; delete the rest below */
	(void) run_as_table_owner("UPDATE atproto.held_event h SET subscription = $3 WHERE subscription = $1 AND target = $2::name AND NOT EXISTS"
							  " (SELECT FROM atproto.held_event e WHERE e.target = h.target AND e.did OPERATOR(@.=) h.did"
							  "  AND e.rev OPERATOR(@.=) h.rev AND e.subscription = $3 AND e.seq = h.seq AND e.endpoint = h.endpoint)",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target), atp_text_arg(heir->name)));
	(void) run_as_table_owner("DELETE FROM atproto.held_event WHERE subscription = $1 AND target = $2::name",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));
	if (l->sub->owner != heir->owner)
		atp_identities_share_doubts(l->dids, l->ndids, l->sub->owner, heir->owner);
	atp_held_release(l->dids, l->ndids);
}

static void
remove_rows(const Leaving *l)
{
	(void) run_as_table_owner("DELETE FROM atproto.held_event WHERE subscription = $1 AND target = $2::name",
							  ATP_ARGS(atp_text_arg(l->sub->name), atp_text_arg(l->sub->target)));
}

/* The repositories were marked: request_fetch() has them fetched. */
static void
note_marked(Leaving *l, struct varlena *const *dids, int n)
{
	MemoryContext old = MemoryContextSwitchTo(l->cxt);

	for (int i = 0; i < n; i++)
		l->marked = lappend(l->marked, PG_DETOAST_DATUM_COPY(PointerGetDatum(dids[i])));
	MemoryContextSwitchTo(old);
}

/*
 * Queue fetches of the marked repositories, which lack the dropped events, for a subscription that fetches repositories
 * into the target: this one, too, if it stays.  One that a session is removing is not waited for: see atp_jobs_repair().
 *
 * Other processes lock repositories, then requests for a status, then jobs.  So the caller has changed all repositories, and the
 * requests, before.
 */
static void
request_fetch(const Leaving *l)
{
	int			n = list_length(l->marked);
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	AtpJobRequest *requests = palloc(sizeof(AtpJobRequest) * Max(n, 1));
	AtpCaller	caller;
	AtpResult	found;

	if (n == 0)
		return;
	caller = atp_as_table_owner("subscription");
	found = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND ($3 OR name <> $2) AND backfill <> 'none'"
					  " AND atproto.role_may_fill(owner, target, target_owner) ORDER BY enabled DESC, name LIMIT 1 FOR KEY SHARE SKIP LOCKED",
					  ATP_ARGS(atp_text_arg(l->sub->target), atp_text_arg(l->sub->name), atp_bool_arg(l->jumps)));
	atp_owner_end(caller);
	for (int i = 0; i < n; i++)
		dids[i] = list_nth(l->marked, i);
	n = atp_sort_dids(dids, n);
	for (int i = 0; i < n; i++)
		requests[i] = (AtpJobRequest) {.did = dids[i], .priority = ATP_JOB_BREAK, .reason = "break"};
	if (found.n > 0 && atp_jobs_request(l->sub->target, atp_get_text(atp_result_row(found, 0), "name"), requests, n) > 0)
		atp_wake_fetcher();
	atp_result_free(found);
}

typedef struct Marking
{
	AtpApply	apply;
	Leaving    *leaving;
} Marking;

/*
 * Mark the repositories and remove the held events, with the rights of the subscription's owner: the caller of the
 * trigger may have no rights on the target's tables.
 */
static void
mark_dropped(AtpApply *a, int unused, int unused2)
{
	Leaving    *l = ((Marking *) a)->leaving;
	AtpCaller	caller = atp_target_begin(l->sub);
	struct varlena **marked;
	int			n = atp_repos_mark_left(a, l->dids, l->ndids, &marked);

	remove_rows(l);
	atp_repos_unhold(a, l->dids, l->ndids);
	atp_owner_end(caller);
	note_marked(l, marked, n);
}

/* Mark the repositories of dead letters, with the rights of the subscription's owner. */
static void
mark_lettered(AtpApply *a, int unused, int unused2)
{
	Leaving    *l = ((Marking *) a)->leaving;
	AtpCaller	caller = atp_target_begin(l->sub);
	struct varlena **marked;
	int			n = atp_repos_mark_lettered(a, l->dids, l->ndids, l->exported, l->nexported, &marked);

	atp_owner_end(caller);
	note_marked(l, marked, n);
}

/* Mark the repositories.  False: the tables could not be written, so only a row of atproto.gap records the loss. */
static bool
mark_repos(Leaving *l, AtpStep step)
{
	AtpBatch	batch = {.cxt = CurrentMemoryContext};
	Marking		m = {.apply = {.sub = l->sub, .sink = l->sub->source->sink, .batch = &batch}, .leaving = l};
	ErrorData  *volatile error;

	if (!(m.apply.sink->uses & ATP_USE_REPOS) || !OidIsValid(l->sub->owner))
		return false;
	m.apply.statements = atp_statements_create(l->sub->target, ATP_WRITER_OTHER);
	PG_TRY();
	{
		error = atp_attempt(&m.apply, step, 0, 0);
	}
	PG_FINALLY();
	{
		atp_statements_free(m.apply.statements);
	}
	PG_END_TRY();
	if (error != NULL)
		ereport(WARNING,
				(errmsg("repositories could not be marked as desynchronized in schema \"%s\": %s", l->sub->target, error->message),
				 errdetail("A row of atproto.gap tells how many events or dead letters are dropped.")));
	return error == NULL;
}

/* The target's table of repositories; InvalidOid if the target has none. */
static Oid
repo_table_of(const AtpSubscription *sub)
{
	Oid			relid = sub->source->by_repo ? atp_target_relid(sub->target, atp_repo_table.name) : InvalidOid;

	return OidIsValid(relid) && atp_table_is_ours(&atp_repo_table, relid) ? relid : InvalidOid;
}

/*
 * the tables lack what a dead letter is about.  After an export the repository is synchronized all the same, so the
 * letter may be the only row that tells.  The letter goes with its subscription, or with the next export into the new
 * target.  A superseded letter of an export does not count: a later export of another subscription has judged its record.
 */
static void
find_letters(Leaving *l)
{
	const char *condition = "did IS NOT NULL AND (seq IS NOT NULL OR superseded_rev IS NULL) AND " ATP_SQL_LACKING;

	if (!OidIsValid(repo_table_of(l->sub)))
		return;
	l->ndids = find_dids(l, "dead_letter", condition, &l->dids);
	l->nexported = find_dids(l, "dead_letter", psprintf("%s AND seq IS NULL", condition), &l->exported);
}

static void
leave_letters(Leaving *l)
{
	int			nest;

	find_letters(l);
	if (l->ndids == 0)
		return;
	nest = atp_caller_begin();
	if (!mark_repos(l, mark_lettered))
		atp_gap_letters(l->sub, l->removed);
	atp_caller_end(nest);
}

/* Does the target have repositories that the subscription's owner may change? */
static bool
may_end_refills(const AtpSubscription *sub)
{
	Oid			relid = repo_table_of(sub);

	return OidIsValid(relid) &&
		get_attnum(relid, "refill_at") != InvalidAttrNumber && atp_role_may_fill(sub->owner, sub->target, sub->target_owner);
}

/*
 * V-31: records of a refill are unproven until the refill reaches the repository's revision.  Without its subscription
 * the refill would never end, and the fetcher would never audit the repository, since repositories in a refill are not
 * audited.  So end the refill, and request an audit.  Rows written by an earlier version have the subscription's name in
 * place of its id.  A repository without a tree cannot be audited: a record of the refill may have been removed by an
 * event that the refill has not reached.  So such a repository is marked, as soon as one event was read again, and
 * fetched for another subscription.
 *
 * A cursor that jumps over events ends the refills that have written records: the refill may not reach the repository's revision any
 * more.  A refill by a Jetstream does not tell whether it has written records, so one that has read an event counts.  A refill that
 * has written none goes on with the events after the jump, unless an event of the repository is held: the refill would write its record
 * later.  So does a change of the stream, whose cursor begins elsewhere.
 */
static void
end_refills(AtpApply *a, int unused, int unused2)
{
	Leaving    *l = ((Marking *) a)->leaving;
	const AtpSubscription *sub = a->sub;
	AtpCaller	caller = atp_owner_begin(sub->owner);
	const char *no_refill = get_attnum(repo_table_of(sub), "refill_first") != InvalidAttrNumber ? ATP_SQL_NO_REFILL : ATP_SQL_NO_REFILL_BEFORE;
	bool		distributed = atp_is_distributed(atp_table_in(sub->target, atp_repo_table.name));

	/* the rows are locked in the order in which consumers lock them, except by Citus, which cannot */
	const char *begun = l->jumps ? " AND (refill_sync IS NOT NULL OR (data IS NULL AND refill_rev IS NOT NULL AND (refill_rev OPERATOR(@.=) deleted_rev) IS NOT TRUE)"
		" OR did OPERATOR(@.=) ANY ($3))" : "";
	const char *of_refill = distributed ? psprintf(" WHERE r.refill_by IN ($1, $2)%s", begun) : " FROM l WHERE r.did OPERATOR(@.=) l.did";
	const char *locked = distributed ? ""
		: psprintf("WITH l AS MATERIALIZED (SELECT did FROM #.repo WHERE refill_by IN ($1, $2)%s ORDER BY did FOR NO KEY UPDATE) ", begun);
	char	   *sql = psprintf("%sUPDATE #.repo r SET sync = CASE WHEN r.data IS NULL AND r.sync IN ('partial', 'unproven')"
							   "  AND r.refill_rev IS NOT NULL AND (r.refill_rev OPERATOR(@.=) r.deleted_rev) IS NOT TRUE"
							   "  THEN 'desynchronized' ELSE r.sync END, %s, updated_at = now()%s"
							   " RETURNING CASE WHEN r.sync = 'desynchronized' THEN r.did END AS did", locked, no_refill, of_refill);
	AtpResult	found = atp_query(atp_expand_sql(sql, sub->target), ATP_ARGS(atp_text_arg(sub->id), atp_text_arg(sub->name), atp_dids_arg(l->dids, l->ndids)));
	struct varlena **marked = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	int			n = 0;

	atp_owner_end(caller);
	for (uint64 i = 0; i < found.n; i++)
	{
		bool		isnull;
		Datum		did = atp_get(atp_result_row(found, i), "did", atp_type("did"), &isnull);

		if (!isnull)
			marked[n++] = PG_DETOAST_DATUM_COPY(did);
	}
	if (found.n > 0)
		atp_audit_request(sub->target);
	atp_result_free(found);
	/* have the repositories fetched now: maybe no later commit comes that would cause the fetch */
	note_marked(l, marked, n);
}

/* A user's trigger on the table may refuse the update: then the row stays as it is, and atproto.check() reports it. */
static void
leave_refills(Leaving *l)
{
	const AtpSubscription *sub = l->sub;
	AtpBatch	batch = {.cxt = CurrentMemoryContext};
	Marking		m = {.apply = {.sub = sub, .sink = sub->source->sink, .batch = &batch}, .leaving = l};
	ErrorData  *error;
	int			nest;

	if (!may_end_refills(sub))
		return;
	if (l->jumps)
		l->ndids = find_dids(l, "held_event", "target = $2::name", &l->dids);
	nest = atp_caller_begin();
	error = atp_attempt(&m.apply, end_refills, 0, 0);
	atp_caller_end(nest);
	if (error != NULL)
		ereport(WARNING,
				(errmsg("a refill of subscription \"%s\" could not be ended in schema \"%s\": %s", sub->name, sub->target, error->message)));
}

/* Consumers lock repositories in the order of DIDs: so lock all that leave_target() will change, before it changes them one after the other. */
static void
lock_repos(AtpApply *a, int unused, int unused2)
{
	const Leaving *l = ((Marking *) a)->leaving;
	AtpCaller	caller = atp_owner_begin(a->sub->owner);

	if (!atp_is_distributed(atp_table_in(a->sub->target, atp_repo_table.name)))
		atp_run(atp_expand_sql("SELECT FROM #.repo WHERE refill_by IN ($1, $2) OR did OPERATOR(@.=) ANY ($3) ORDER BY did FOR NO KEY UPDATE", a->sub->target),
				ATP_ARGS(atp_text_arg(a->sub->id), atp_text_arg(a->sub->name), atp_dids_arg(l->dids, l->ndids)));
	atp_owner_end(caller);
}

static void
lock_first(const AtpSubscription *sub)
{
	AtpBatch	batch = {.cxt = CurrentMemoryContext};
	Leaving		l = {.sub = sub};
	Marking		m = {.apply = {.sub = sub, .sink = sub->source->sink, .batch = &batch}, .leaving = &l};
	struct varlena **held;
	int			nheld;

	if (!may_end_refills(sub))
		return;
	find_letters(&l);
	nheld = find_dids(&l, "held_event", "target = $2::name", &held);
	l.dids = repalloc(l.dids, sizeof(struct varlena *) * (l.ndids + nheld + 1));
	memcpy(l.dids + l.ndids, held, sizeof(struct varlena *) * nheld);
	l.ndids = atp_sort_dids(l.dids, l.ndids + nheld);
	/* an error that the tables cause will be raised again, by the changes */
	(void) atp_attempt(&m.apply, lock_repos, 0, 0);
}

void
atp_refills_jump(const AtpSubscription *sub)
{
	Leaving		l = {.sub = sub, .jumps = true, .cxt = CurrentMemoryContext};

	leave_refills(&l);
	request_fetch(&l);
}

static void
leave_held(Leaving *l)
{
	const AtpSubscription *heir;
	int			nest;

	l->ndids = find_dids(l, "held_event", "target = $2::name", &l->dids);
	if (l->ndids == 0)
		return;
	if ((heir = find_heir(l)) != NULL)
	{
		hand_over(l, heir);
		return;
	}
	atp_gap_left(l->sub, l->removed);
	/* constraint triggers run now, with the owner's rights: deferred to commit, they would run with the caller's rights */
	nest = atp_caller_begin();
	if (!mark_repos(l, mark_dropped))
		remove_rows(l);
	atp_caller_end(nest);
}

/*
 * retry() of another subscription and the fetcher lock a repository, then the gap and the held events of this subscription, then the
 * request for a status, and wait without a limit.  So change the rows in the same order, and jobs last.
 */
static void
leave_target(const char *name, const char *target, bool removed)
{
	Leaving		l = {.sub = atp_subscription_get(name, CurrentMemoryContext), .removed = removed, .cxt = CurrentMemoryContext};

	if (l.sub != NULL)
	{
		lock_first(l.sub);
		leave_refills(&l);
		leave_letters(&l);
		if (removed)
			atp_gap_keep(l.sub);
		leave_held(&l);
	}
	if (removed)
		atp_status_requests_leave(name);
	else
		atp_status_requests_move(name, target);
	if (l.sub != NULL)
		request_fetch(&l);
}

/* Has the subscription a different target or a different kind of sink now, so that its held events cannot be applied any more? */
static bool
is_another(AtpTuple old, AtpTuple row)
{
	const AtpStreamKind *before = atp_stream_kind_of(atp_endpoint_parse(atp_get_text(old, "url"))->stream, atp_get_text_or_null(old, "format"));
	const AtpStreamKind *after = atp_stream_kind_of(atp_endpoint_parse(atp_get_text(row, "url"))->stream, atp_get_text_or_null(row, "format"));

	return strcmp(atp_get_text(old, "target"), atp_get_text(row, "target")) != 0 ||
		(before != NULL && after != NULL && before->sink != after->sink);
}

/* Does the subscription follow another stream now, with a cursor of its own? */
static bool
is_elsewhere(AtpTuple old, AtpTuple row)
{
	return strcmp(atp_endpoint_parse(atp_get_text(old, "url"))->scope, atp_endpoint_parse(atp_get_text(row, "url"))->scope) != 0;
}

static void
lock_cursors(AtpTuple old)
{
	AtpCaller	caller = atp_as_table_owner("cursor");

	atp_run("SELECT FROM atproto.cursor WHERE subscription = $1 ORDER BY endpoint, shard FOR NO KEY UPDATE",
			ATP_ARGS(atp_text_arg(atp_get_text(old, "name"))));
	atp_owner_end(caller);
}

/*
 * Lock the cursors: what batches have written is visible to the next statement.  The new layout of the cursors has a batch read
 * again that was read before.  Where all statements have one snapshot (REPEATABLE READ), the statement cannot see a batch that has committed
 * since: then the lock is an ERROR, as the batch has moved a cursor.
 *
 * Two statements: the lock waits for a batch, and a statement that has begun before does not see the rows that the batch has committed.
 */
static void
await_batches(AtpTuple old)
{
	AtpCaller	caller;

	lock_cursors(old);
	caller = atp_as_table_owner("cursor");
	atp_run("UPDATE atproto.cursor SET layout = layout + 1 WHERE subscription = $1", ATP_ARGS(atp_text_arg(atp_get_text(old, "name"))));
	atp_owner_end(caller);
}

/* W-31: the next owner receives what the former owner's stream sends, and judges what waits. */
static void
pass_doubts(AtpTuple old, AtpTuple row)
{
	Oid			before = DatumGetObjectId(atp_get_arg(old, "owner", OIDOID).value);
	Oid			after = DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value);

	if (before == after)
		return;
	SPI_connect();
	await_batches(old);
	atp_identities_share_doubts(NULL, -1, before, after);
	SPI_finish();
}

/* SQL: atproto_internal.subscription_held(), BEFORE UPDATE OF target, url, format, owner or DELETE, for each row */
Datum
atp_subscription_held(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "subscription_held", ATP_BEFORE_ROW, ATP_ON_UPDATE | ATP_ON_DELETE);
	AtpTuple	old = call.old;
	AtpTuple	row = call.row;
	bool		removed = call.deleted;

	if (removed || (!atp_target_is_renamed() && is_another(old, row)))
	{
		SPI_connect();
		/* held events of a removed subscription refer to its row, which is locked */
		if (!removed)
		{
			atp_jobs_await(atp_get_text(old, "name"));
			await_batches(old);
		}
		leave_target(atp_get_text(old, "name"), atp_get_text(old, "target"), removed);
		SPI_finish();
	}
	else if (!removed && is_elsewhere(old, row))
	{
		const AtpSubscription *sub;

		SPI_connect();
		/* a batch that has not moved its cursor is applied again, and finds no refill any more */
		lock_cursors(old);
		sub = atp_subscription_get(atp_get_text(old, "name"), CurrentMemoryContext);
		if (sub != NULL)
			atp_refills_jump(sub);
		SPI_finish();
	}
	if (!removed)
		pass_doubts(old, row);
	return PointerGetDatum(row.tuple);
}
