/*
 * release.c
 *		Release of held events: judge held events again, and apply or reject them.
 *
 * The transaction that makes a new verdict possible queues the repositories in atproto.held_release.  A consumer,
 * or the apply worker of the shard, reads the held events in the order of their revisions into a batch, and applies the
 * batch with the code for batches of the stream.  Invariant: the progress of such a batch is the removal of its rows
 * from atproto.held_event, in the same transaction, so each event counts exactly once.
 *
 * Some held events are never queued that way: a look-up ended just before an event was held, the subscription's level
 * was lowered, or a user emptied a table.  So each process queues all held events of its shard when it starts, and
 * every SWEEP_MS.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "common/injection.h"
#include "source.h"
#include "stream/decode.h"
#include "tables/base/error_class.h"
#include "tables/repos/resync.h"
#include "tables/repos/held.h"
#include "tables/repos/held_by.h"
#include "tables/base/progress.h"
#include "tables/apply/release.h"
#include "tables/repos/repo.h"
#include "tables/base/rows.h"
#include "tables/repos/multi_source.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define LOOK_MS		1000
#define SWEEP_MS	(5 * 60 * 1000)
#define UNSTICK_MS	10000
#define NAMED		64			/* maximum number of queued repositories in a step */
#define FETCH		64			/* events per fetch of the cursor */
#define GRACE_MS	60000		/* beyond atproto.multi_source_wait: how long events are left to a taker (held_by.h) */

enum
{
	NAMED_REPOS,				/* target, shards, shard, kind, own name, did[] or null, names, unused -> id, did */
	NAME_ALL,					/* the parameters of NAMED_REPOS, the last: only accounts whose events all have why = order */
	DUE_GAPS,					/* the parameters of NAMED_REPOS, the last: milliseconds; takers, milliseconds (LEFT_TO_TAKER) -> did */
	FORGET_STRAY,				/* target, kind, subscription */
	FORGET_NAMED,				/* id[] */
	READ_HELD,					/* target, did[], kind, names, takers, milliseconds (LEFT_TO_TAKER) */
	LOCK_HELD,					/* target, did[], rev[], subscription[], endpoint[], seq[] */
	AWAIT_HELD,					/* the parameters of LOCK_HELD */
	FIND_HELD,					/* the parameters of LOCK_HELD */
	REMOVE_HELD,				/* the parameters of LOCK_HELD */
	LOCK_SUBSCRIPTIONS			/* names */
};

/*
 * Is this event left to a taker (held_by.h), whichever subscription has received the event?  A taker holds events of the
 * repository, and the first of these waits for a missing commit.  The time limit is for a taker whose consumer does not
 * get to it.  Most subscriptions have no taker: cardinality() comes first, so that the taker's events are not looked for
 * at each event.
 */
#define LEFT_TO_TAKER(takers, ms) \
	" AND NOT (cardinality(" takers ") > 0 AND h.held_at BETWEEN now() - " ms " * interval '1 ms' AND now()" \
	" AND (SELECT " ATP_HELD_WAITS_FOR_COMMIT("t.rev", "t.why", "") " FROM atproto.held_event t WHERE t.target = h.target" \
	"  AND t.did OPERATOR(@.=) h.did AND t.kind = h.kind AND t.subscription = ANY (" takers ")) IS TRUE)"

#define OF_SHARD(last)	{ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), \
	ATP_ARRAY(ATP_TYPE_TEXT), last}
/* held events that the subscription may take; a foreign subscription's events only for accounts that this subscription follows */
#define TAKEN	" AND subscription = ANY ($7) AND ($6 IS NULL OR did OPERATOR(@.=) ANY ($6) OR subscription = $5)"
#define KEYS	{ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TID), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TEXT), \
	ATP_ARRAY(ATP_TYPE_INT8)}
#define NKEYS	6
#define BY_KEY	" FROM unnest($2, $3, $4, $5, $6) u (did, rev, subscription, endpoint, seq) JOIN atproto.held_event h" \
	" ON h.target = $1::name AND h.did OPERATOR(@.=) u.did AND h.rev OPERATOR(@.=) u.rev" \
	" AND h.subscription = u.subscription AND h.endpoint = u.endpoint AND h.seq = u.seq"
#define IN_ORDER	" ORDER BY h.did, h.rev, h.subscription, h.seq, h.endpoint"

static const AtpStatement statements[] = {
	[DUE_GAPS] = {
		"SELECT DISTINCT did FROM (SELECT did FROM atproto.held_event h WHERE target = $1::name AND shard_key % $2 = $3 AND kind = $4"
		TAKEN " AND why = 'gap' AND held_at NOT BETWEEN now() - $8 * interval '1 ms' AND now()" LEFT_TO_TAKER("$9", "$10")
		" LIMIT " CppAsString2(NAMED) ") h",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID),
		ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_INT8, ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_INT8}, {ATP_TYPE_DID}
	},
	[NAMED_REPOS] = {
		"SELECT id, did FROM atproto.held_release WHERE target = $1::name AND shard_key % $2 = $3 AND kind = $4" TAKEN
		" ORDER BY id LIMIT " CppAsString2(NAMED),
		SPI_OK_SELECT, OF_SHARD(ATP_TYPE_INT8), {ATP_TYPE_INT8, ATP_TYPE_DID}
	},
	[NAME_ALL] = {
		"INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key)"
		" SELECT DISTINCT ON (did, subscription) target, kind, did, subscription, shard_key"
		" FROM atproto.held_event h WHERE target = $1::name AND shard_key % $2 = $3 AND kind = $4" TAKEN
		" AND NOT ($8 AND EXISTS (SELECT FROM atproto.held_event e WHERE e.target = h.target AND e.did OPERATOR(@.=) h.did"
		"  AND e.kind = h.kind AND e.why <> 'order'))"
		/* skip accounts that are in the queue already, perhaps from a process that ended before the release */
		" AND NOT EXISTS (SELECT FROM atproto.held_release r WHERE r.target = h.target AND r.did OPERATOR(@.=) h.did"
		"  AND r.kind = h.kind AND r.subscription = h.subscription)",
		SPI_OK_INSERT, OF_SHARD(ATP_TYPE_BOOL)
	},
	[FORGET_STRAY] = {
		/*
		 * Delete rows whose subscription was removed, was renamed, or fills a different target now.  Delete also the
		 * earlier ones of duplicate rows: the queue of a paused subscription would otherwise grow without limit.
		 */
		"WITH stray AS (SELECT r.ctid FROM atproto.held_release r"
		"   WHERE NOT EXISTS (SELECT FROM atproto.subscription s WHERE s.name = r.subscription AND s.target = r.target)"
		"   OR r.id < (SELECT max(o.id) FROM atproto.held_release o WHERE o.target = r.target AND o.did OPERATOR(@.=) r.did"
		"    AND o.kind = r.kind AND o.subscription = r.subscription) FOR UPDATE SKIP LOCKED)"
		" DELETE FROM atproto.held_release WHERE ctid = ANY (ARRAY (SELECT ctid FROM stray))",
		SPI_OK_DELETE, {0}
	},
	[FORGET_NAMED] = {
		"DELETE FROM atproto.held_release WHERE id = ANY ($1)",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_INT8)}
	},
	[READ_HELD] = {
		"SELECT did, rev, subscription, seq, why, asked_at, bytes, held_at, verify, format, endpoint FROM atproto.held_event h"
		" WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2) AND kind = $3 AND subscription = ANY ($4)"
		LEFT_TO_TAKER("$5", "$6") IN_ORDER,
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_TEXT),
		ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_INT8},
		{ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TIMESTAMP, ATP_TYPE_BYTEA, ATP_TYPE_TIMESTAMP,
		ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT}
	},
	[LOCK_HELD] = {"SELECT" BY_KEY IN_ORDER " FOR UPDATE OF h SKIP LOCKED", SPI_OK_SELECT, KEYS},
	[AWAIT_HELD] = {"SELECT" BY_KEY IN_ORDER " FOR UPDATE OF h", SPI_OK_SELECT, KEYS},
	[FIND_HELD] = {"SELECT" BY_KEY, SPI_OK_SELECT, KEYS},
	[REMOVE_HELD] = {
		"DELETE FROM atproto.held_event WHERE ctid = ANY (ARRAY (SELECT h.ctid" BY_KEY "))", SPI_OK_DELETE, KEYS
	},
	[LOCK_SUBSCRIPTIONS] = {
		"SELECT FROM atproto.subscription WHERE name = ANY ($1) FOR KEY SHARE SKIP LOCKED", SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_TEXT)}
	},
};

/* The progress (progress.h) of a batch of held events, and the batch itself. */
typedef struct Held
{
	AtpProgress base;
	AtpHeldBy	by;
	AtpBatch   *batch;
	AtpHeldRow *rows;			/* rows of atproto.held_event, in the order of the batch's events */
	struct varlena **dids;		/* the accounts to release, sorted, without duplicates */
	int			ndids;
	Datum	   *named;			/* ids of the rows of atproto.held_release; 0: found by repo.hold or by a time limit */
	struct varlena **named_dids;
	int			nnamed;
	bool		all;			/* the batch has all held events of all these accounts */
	int			shard;			/* the shard whose cursor counts the skips */
	AtpSkipsWritten skips;
	bool		written;		/* skips of the present transaction are written */
} Held;

static uint64
execute_as_table_owner(AtpStatements *set, int statement, Datum *args, const char *nulls)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	uint64		n = atp_execute(set, &statements[statement], args, nulls);

	atp_owner_end(caller);
	return n;
}

static Datum
target_of(AtpStatements *set)
{
	return CStringGetTextDatum(atp_target(set));
}

static Datum
name_kind(const AtpApply *a)
{
	return CStringGetTextDatum(atp_held_kind(a->sink));
}

/* Are the held events of repositories, whose rows have the column hold?  False: labels. */
static bool
are_repos(const AtpApply *a)
{
	return (a->sink->uses & ATP_USE_REPOS) != 0;
}

/* ------------------------------------------------------------------------
 * Callbacks of the progress: lock and remove the held events' rows
 * ------------------------------------------------------------------------
 */

/* Parameters with the keys of the rows of events [lo, hi); only_done: without events that wait on.  Returns the number of keys. */
static int
key_args(const Held *held, AtpStatements *set, int lo, int hi, bool only_done, Datum *args)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(set, types, hi - lo);

	for (int i = lo; i < hi; i++)
	{
		const AtpHeldRow *row = &held->rows[i];

		if (only_done && !held->batch->events[i].ignored && held->batch->events[i].verdict.judged == ATP_JUDGED_HELD)
			continue;
		atp_put_ref(rows, row->did);
		atp_put(rows, AtpTidGetDatum(row->rev), false);
		atp_put_ref(rows, row->subscription);
		atp_put_ref(rows, row->endpoint);
		atp_put(rows, Int64GetDatum(row->seq), false);
	}
	args[0] = target_of(set);
	atp_rows_bind(rows, args + 1);
	return rows->n;
}

static int64
reach_of_release(AtpProgress *progress, const AtpApply *a)
{
	return PG_INT64_MAX;
}

static AtpLocked
lock_held(AtpProgress *progress, const AtpApply *a, bool letters)
{
	const Held *held = (const Held *) progress;

	/* a dead letter refers to the subscription that received the event, so lock all subscriptions in takes */
	Datum		subscriptions = atp_array(a->statements, ATP_TYPE_TEXT, held->by.takes, NULL, held->by.ntakes);
	Datum		args[NKEYS];
	int			n = key_args(held, a->statements, a->lo, a->hi, false, args);

	if (execute_as_table_owner(a->statements, LOCK_HELD, args, NULL) == n &&
		(!letters || execute_as_table_owner(a->statements, LOCK_SUBSCRIPTIONS, &subscriptions, NULL) == held->by.ntakes))
		return ATP_LOCKED;
	return execute_as_table_owner(a->statements, FIND_HELD, args, NULL) == n ? ATP_LOCKED_BY_OTHERS : ATP_LOCKED_NOTHING;
}

static bool
await_held(AtpProgress *progress, const AtpApply *a)
{
	const Held *held = (const Held *) progress;
	Datum		args[NKEYS];
	bool		there = false;

	atp_begin("waiting for a change of held events");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		int			n = key_args(held, a->statements, a->lo, held->batch->nevents, false, args);

		there = execute_as_table_owner(a->statements, AWAIT_HELD, args, NULL) == n;
	}
	atp_commit();
	return there;
}

/*
 * Does the batch finish this repository?  A batch that is not complete ends within a repository, which may have more
 * held events.  If the batch's last event waits on, the repository's later events must wait as well, so the repository
 * is finished.
 */
static bool
is_done(const Held *held, struct varlena *did)
{
	int			last = held->batch->nmessages - 1;
	int			cmp = held->all ? -1 : atp_compare_dids(did, held->rows[last].did);

	return cmp < 0 || (cmp == 0 && held->batch->nevents > 0 && held->batch->events[last].verdict.judged == ATP_JUDGED_HELD);
}

static void
forget_named(const Held *held, AtpStatements *set)
{
	Datum	   *ids = palloc(sizeof(Datum) * Max(held->nnamed, 1));
	int			n = 0;
	Datum		arg;

	for (int i = 0; i < held->nnamed; i++)
		if (DatumGetInt64(held->named[i]) != 0 && is_done(held, held->named_dids[i]))
			ids[n++] = held->named[i];
	if (n == 0)
		return;
	arg = atp_array(set, ATP_TYPE_INT8, ids, NULL, n);
	(void) execute_as_table_owner(set, FORGET_NAMED, &arg, NULL);
}

static void
count_outcomes(Held *held, const AtpApply *a)
{
	int64		more[ATP_SKIP_COUNT];

	held->written = !atp_skips_due(&held->skips, a->batch->skips, a->skips, more) ||
		atp_skips_add(a->statements, a->sub, held->shard, more);
}

/* in the transaction of their effects, remove the held events that were judged. */
static bool
remove_released(AtpProgress *progress, const AtpApply *a)
{
	Held	   *held = (Held *) progress;
	Datum		args[NKEYS];
	int			n = key_args(held, a->statements, a->lo, a->hi, true, args);

	if (n > 0 && execute_as_table_owner(a->statements, REMOVE_HELD, args, NULL) != n)
		return false;
	if (a->hi == held->batch->nevents)
		forget_named(held, a->statements);
	count_outcomes(held, a);
	ATP_INJECTION_POINT("held events next");
	return true;
}

static void
note_removed(AtpProgress *progress)
{
	Held	   *held = (Held *) progress;

	atp_skips_written(&held->skips, held->written);
}

/* ------------------------------------------------------------------------
 * Find the repositories and events to release
 * ------------------------------------------------------------------------
 */
static void
add_named(Held *held, int64 id, struct varlena *did)
{
	held->named[held->nnamed] = Int64GetDatum(id);
	held->named_dids[held->nnamed++] = did;
}

/* The last two parameters of a statement with LEFT_TO_TAKER: takers, milliseconds. */
static void
taker_args(AtpStatements *set, const AtpHeldBy *by, Datum *args)
{
	args[0] = atp_array(set, ATP_TYPE_TEXT, by->takers, NULL, by->ntakers);
	args[1] = Int64GetDatum((int64) atp_multi_source_wait_ms + GRACE_MS);
}

/*
 * Execute DUE_GAPS, NAMED_REPOS or NAME_ALL; arg is the last parameter.  Accounts that this subscription does not follow
 * are left to the subscriptions that do, except for events that this subscription itself has received.
 */
static uint64
execute_of_shard(const AtpReleaser *r, const AtpApply *a, const AtpHeldBy *by, int statement, Datum arg)
{
	const AtpSettings *settings = &a->sub->settings;
	AtpStatements *set = a->statements;
	Datum		args[10] = {
		target_of(set), Int64GetDatum(r->shards), Int64GetDatum(r->shard), name_kind(a), CStringGetTextDatum(a->sub->name),
		(Datum) 0, atp_array(set, ATP_TYPE_TEXT, by->takes, NULL, by->ntakes), arg
	};
	bool		some = are_repos(a) && settings->ndids >= 0;

	if (some)
		args[5] = atp_array(set, ATP_TYPE_DID, (Datum *) settings->dids, NULL, settings->ndids);
	taker_args(set, by, args + 8);
	return execute_as_table_owner(set, statement, args, some ? NULL : statement == NAMED_REPOS ? "     n n" : "     n    ");
}

/* Add the repositories with an event that has waited atproto.multi_source_wait for a missing commit. */
static void
add_due(const AtpReleaser *r, const AtpApply *a, Held *held)
{
	int			n;

	if (!are_repos(a))
		return;
	n = atp_take_dids(held->dids, execute_of_shard(r, a, &held->by, DUE_GAPS, Int64GetDatum(atp_multi_source_wait_ms)));
	for (int i = 0; i < n; i++)
		add_named(held, 0, held->dids[i]);
}

/* Read the repositories to release from the queue, from time limits and from repo.hold, into memory that outlives the transaction. */
static void
read_named(const AtpReleaser *r, AtpApply *a, Held *held)
{
	uint64		n = execute_of_shard(r, a, &held->by, NAMED_REPOS, Int64GetDatum(0));

	held->named = palloc(sizeof(Datum) * 3 * NAMED);
	held->named_dids = palloc(sizeof(struct varlena *) * 3 * NAMED);
	for (uint64 i = 0; i < n; i++)
	{
		Datum		v[2];
		bool		null[2];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		add_named(held, DatumGetInt64(v[0]), PG_DETOAST_DATUM_COPY(v[1]));
	}
	SPI_freetuptable(SPI_tuptable);
	held->dids = palloc(sizeof(struct varlena *) * 3 * NAMED);
	add_due(r, a, held);
	/* a transaction that has locked a repository's row may set hold = release there in place of a row in the queue */
	if (r->shard == 0 && are_repos(a))
	{
		int			nreleased = atp_repos_released(a->sub, a->statements, held->dids, NAMED);
		AtpHeldCount *counts = palloc(sizeof(AtpHeldCount) * Max(nreleased, 1));

		nreleased = atp_sort_dids(held->dids, nreleased);
		atp_held_count(a, held->dids, nreleased, counts);
		/* leave repositories whose held events this subscription may not take; with no held events at all, hold has to be cleared */
		for (int i = 0; i < nreleased; i++)
			if (counts[i].n > 0 || counts[i].all == 0)
				add_named(held, 0, held->dids[i]);
	}
	memcpy(held->dids, held->named_dids, sizeof(struct varlena *) * held->nnamed);
	held->ndids = atp_sort_dids(held->dids, held->nnamed);
}

/*
 * The reason why a held event waits.  An event that waits behind an earlier event (order) has the earlier event's reason.
 * If no earlier event is left, or the event waited for a missing commit, no look-up has been compared with the event's
 * signature yet, so the reason is identity.
 */
static AtpWhyHeld
why_of(const Held *held, const AtpHeldRow *row, AtpWhyHeld why)
{
	if (why == ATP_HELD_GAP)
		return ATP_HELD_IDENTITY;
	if (why != ATP_HELD_ORDER)
		return why;
	return row > held->rows && atp_compare_dids(row[-1].did, row->did) == 0 ? row[-1].why : ATP_HELD_IDENTITY;
}

/* The owner of one of the subscriptions in takes; a batch has only events of these subscriptions. */
static Oid
owner_of(const AtpHeldBy *by, const char *subscription)
{
	for (int i = 0; i < by->ntakes; i++)
		if (strcmp(TextDatumGetCString(by->takes[i]), subscription) == 0)
			return by->owners[i];
	return InvalidOid;
}

/* Add a held event to the batch. */
static void
add_event(Held *held, HeapTuple tuple, TupleDesc desc, int max)
{
	AtpHeldRow *row = &held->rows[held->batch->nmessages];
	Datum		v[11];
	bool		null[11];
	bytea	   *bytes;
	AtpWhyHeld	why;

	Assert(held->batch->nmessages < max);
	heap_deform_tuple(tuple, desc, v, null);
	bytes = DatumGetByteaPP(v[6]);
	row->did = PG_DETOAST_DATUM_COPY(v[0]);
	row->rev = DatumGetAtpTid(v[1]);
	row->subscription = DatumGetTextPCopy(v[2]);
	row->owner = owner_of(&held->by, text_to_cstring(row->subscription));
	row->seq = DatumGetInt64(v[3]);
	why = atp_held_why(TextDatumGetCString(v[4]));
	row->gap = why == ATP_HELD_GAP;
	row->held_at = DatumGetTimestampTz(v[7]);
	row->why = why_of(held, row, why);
	row->asked_at = null[5] ? DT_NOBEGIN : DatumGetTimestampTz(v[5]);
	row->level = null[8] ? ATP_VERIFY_FULL : Max(atp_word_number(atp_verify_words, TextDatumGetCString(v[8])), 0);
	row->endpoint = DatumGetTextPCopy(v[10]);
	row->source = null[9] ? NULL
		: atp_stream_kind_of(atp_endpoint_parse(text_to_cstring(row->endpoint))->stream, TextDatumGetCString(v[9]));
	if (!atp_batch_add(held->batch, (const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
}

/* Read the held events of the accounts in dids, until the batch is full. */
static void
read_events(const AtpApply *a, Held *held)
{
	AtpStatements *set = a->statements;
	Datum		args[6] = {
		target_of(set), (Datum) 0, name_kind(a), atp_array(set, ATP_TYPE_TEXT, held->by.takes, NULL, held->by.ntakes)
	};
	AtpCaller	caller = atp_as_table_owner("held_event");
	MemoryContext old = CurrentMemoryContext;
	Portal		portal;
	uint64		n;

	args[1] = atp_array(set, ATP_TYPE_DID, (Datum *) held->dids, NULL, held->ndids);
	taker_args(set, &held->by, args + 4);
	portal = atp_open(set, &statements[READ_HELD], args);
	held->rows = palloc(sizeof(AtpHeldRow) * ATP_BATCH_EVENTS);
	held->all = true;
	do
	{
		SPI_cursor_fetch(portal, true, FETCH);
		/* SPI has changed the current memory context */
		MemoryContextSwitchTo(old);
		n = SPI_processed;
		for (uint64 i = 0; i < n && held->all; i++)
		{
			if (atp_batch_full(held->batch))
				held->all = false;
			else
				add_event(held, SPI_tuptable->vals[i], SPI_tuptable->tupdesc, ATP_BATCH_EVENTS);
		}
		SPI_freetuptable(SPI_tuptable);
	} while (n > 0 && held->all);
	SPI_cursor_close(portal);
	MemoryContextSwitchTo(old);
	atp_owner_end(caller);
}

/* V-03: an event is judged at the receiving subscription's level at receipt, or at its present level if an operator has lowered it. */
static void
find_levels(const AtpApply *a, Held *held)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	const char *known = a->sub->name;
	AtpVerify	level = a->sub->settings.verify;

	for (int i = 0; i < held->batch->nmessages; i++)
	{
		AtpHeldRow *row = &held->rows[i];
		const char *name = text_to_cstring(row->subscription);

		if (strcmp(name, known) != 0)
		{
			const AtpSubscription *sub = strcmp(name, a->sub->name) == 0 ? a->sub : atp_subscription_get(name, CurrentMemoryContext);

			level = sub == NULL ? ATP_VERIFY_FULL : sub->settings.verify;
			known = name;
		}
		row->level = Min(row->level, level);
		/* the row has no valid format: a user may have changed the row */
		if (row->source == NULL)
			row->source = a->sub->source;
	}
	atp_owner_end(caller);
}

/* Clear hold of repositories without held events: no batch will have an event of them, so no other code would clear hold. */
static void
unhold_empty(const Held *held, AtpApply *a)
{
	struct varlena **empty = palloc(sizeof(struct varlena *) * held->ndids);
	int			n = 0;
	int			row = 0;

	for (int i = 0; i < held->ndids && is_done(held, held->dids[i]); i++)
	{
		while (row < held->batch->nmessages && atp_compare_dids(held->rows[row].did, held->dids[i]) < 0)
			row++;
		if (row == held->batch->nmessages || atp_compare_dids(held->rows[row].did, held->dids[i]) != 0)
			empty[n++] = held->dids[i];
	}
	if (n > 0)
		atp_repos_unhold(a, empty, n);
}

/*
 * Decode each held message to an event of the batch.  The order is that of revisions, not of sequence numbers, so each
 * message is decoded with a fresh position.  The filters by account are off: they were applied at receipt.
 */
static void
decode_held(Held *held, AtpDecoder *decoder, const AtpSubscription *sub)
{
	AtpBatch   *batch = held->batch;
	int			n = batch->nmessages;
	AtpSettings all = sub->settings;

	all.ndids = -1;
	all.slice.of = 0;
	atp_decoder_settings(decoder, &all);
	batch->nmessages = 0;
	for (int i = 0; i < n; i++)
	{
		AtpPosition position = atp_position_after(-1, 0);

		batch->nmessages = i + 1;
		all.verify = held->rows[i].level;
		atp_decoder_format(decoder, held->rows[i].source->format);
		(void) atp_decode(decoder, batch, &position, ATP_DECODE_HELD);
		batch->ndecoded = i + 1;
		/* no event was decoded: a user may have changed the row; an ignored event makes remove_released() remove the row */
		if (batch->nevents == i)
		{
			memset(&batch->events[i], 0, sizeof(AtpEvent));
			batch->events[batch->nevents++].ignored = true;
		}
		batch->events[i].held = &held->rows[i];
	}
	atp_decoder_settings(decoder, &sub->settings);
	atp_decoder_format(decoder, sub->source->format);
}

static void
unhold_repos(AtpApply *a, int unused, int unused2)
{
	Held	   *held = (Held *) a->progress;

	if (held != NULL)
	{
		unhold_empty(held, a);
		return;
	}
	atp_resync_end_abandoned(a);
	atp_repos_unhold(a, NULL, 0);
}

/* Clear hold in a subtransaction.  If the database refuses, hold stays set, which is harmless: log the error and go on. */
static void
try_unhold(AtpApply *a)
{
	ErrorData  *error = are_repos(a) ? atp_attempt(a, unhold_repos, 0, 0) : NULL;

	if (error != NULL)
		ereport(LOG,
				(errmsg("rows of table \"repo\" say that events wait, for atproto subscription \"%s\": %s",
						a->sub->name, error->message)));
}

/*
 * Queue all held events of this shard for release; stuck: only accounts whose held events all wait behind an earlier event
 * which no longer exists.  The latter happens with labels: a labeler has no row to lock, so this subscription may hold a
 * label behind held labels which a second subscription is just applying.  Returns whether the queue has rows.
 */
static bool
queue_all_held(AtpReleaser *r, AtpApply *a, bool stuck)
{
	bool		any = false;
	AtpHeldBy	by;

	atp_begin("looking for held events");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		if (r->shard == 0 && !stuck)
			(void) execute_as_table_owner(a->statements, FORGET_STRAY, NULL, NULL);
		by = atp_held_by(a);
		any = execute_of_shard(r, a, &by, NAME_ALL, BoolGetDatum(stuck)) > 0;
		/* rows that were in the queue before count, too */
		any |= execute_of_shard(r, a, &by, NAMED_REPOS, Int64GetDatum(0)) > 0;
		SPI_freetuptable(SPI_tuptable);
		if (r->shard == 0 && !stuck)
			try_unhold(a);
	}
	atp_commit();
	return any;
}

/* Has the step applied or dropped an event?  False: all events of the batch wait on. */
static bool
has_taken(const AtpBatch *batch)
{
	for (int i = 0; i < batch->nevents; i++)
		if (batch->events[i].ignored || batch->events[i].verdict.judged != ATP_JUDGED_HELD)
			return true;
	return false;
}

/* Has the step used up rows of the queue?  Repositories found by repo.hold or by a time limit have no row. */
static bool
has_used_queue(const Held *held)
{
	for (int i = 0; i < held->nnamed; i++)
		if (DatumGetInt64(held->named[i]) != 0)
			return true;
	return false;
}

AtpReleaser
atp_releaser(int shard, int shards)
{
	return (AtpReleaser) {.shard = shard, .shards = shards};
}

void
atp_release_note(AtpReleaser *r, const AtpBatch *batch)
{
	r->waits |= batch->held || batch->released;
	r->more |= batch->released;
}

long
atp_release_due(const AtpReleaser *r, AtpTime now)
{
	if (r->more || !r->swept)
		return 0;
	/* without held events known: sweep every SWEEP_MS, since further processes hold events that this process may have to release */
	return r->waits ? atp_remaining(now, r->look, LOOK_MS) : atp_remaining(now, r->sweep, SWEEP_MS);
}

AtpApplied
atp_release(AtpReleaser *r, const AtpSubscription *sub, const AtpSink *sink, AtpDecoder *decoder,
			AtpStatements *set, MemoryContext cxt, int64 *skips, const char **reason)
{
	Held		held = {
		.base = {.reach = reach_of_release, .lock = lock_held, .await = await_held, .move = remove_released, .moved = note_removed},
		.shard = r->shard, .skips.uncounted = r->uncounted
	};
	AtpApply	a = {.sub = sub, .sink = sink, .statements = set, .batch = &(AtpBatch) {.cxt = cxt}};
	AtpApplied	result = ATP_APPLIED;
	AtpExtension extension;

	r->look = atp_now();
	if (!r->swept || (!r->more && atp_remaining(r->look, r->sweep, SWEEP_MS) == 0))
	{
		r->waits = queue_all_held(r, &a, false);
		r->swept = true;
		r->sweep = r->unstick = r->look;
	}
	else if (r->waits && !are_repos(&a) && atp_remaining(r->look, r->unstick, UNSTICK_MS) == 0)
	{
		(void) queue_all_held(r, &a, true);
		r->unstick = r->look;
	}
	r->more = false;
	if (!r->waits)
	{
		/* nothing waits, so there is room; the look for room below is not reached */
		atp_held_end_stall();
		return ATP_APPLIED;
	}
	held.batch = atp_batch_create(cxt);
	MemoryContextSwitchTo(held.batch->cxt);
	atp_begin("looking for held events");
	MemoryContextSwitchTo(held.batch->cxt);
	if ((extension = atp_extension_lock()) == ATP_EXTENSION_READY)
	{
		/* when the time has run out, room counts only once a labeler's key has become known */
		if (r->taken || atp_held_stalls(r->look))
			atp_held_look_for_room(&a);
		r->taken = false;
		held.by = atp_held_by(&a);
		read_named(r, &a, &held);
		if (held.ndids > 0)
		{
			read_events(&a, &held);
			find_levels(&a, &held);
			a.batch = held.batch;
			a.progress = &held.base;
			try_unhold(&a);
			if (held.batch->nmessages == 0)
				forget_named(&held, set);
		}
	}
	atp_commit();
	if (extension != ATP_EXTENSION_READY)
		return ATP_APPLY_GONE;
	/* without a message, all events of the repositories may be left to a taker: the next look is soon enough */
	r->more = held.ndids > 0 && (held.batch->nmessages > 0 || has_used_queue(&held));
	MemoryContextSwitchTo(cxt);
	if (held.ndids > 0 && held.batch->nmessages > 0)
	{
		ATP_INJECTION_POINT("held events read");
		decode_held(&held, decoder, sub);
		result = atp_apply(sub, sink, set, held.batch, &held.base, reason);
		if (result == ATP_APPLIED)
		{
			memcpy(skips, held.batch->skips, sizeof(held.batch->skips));
			r->taken = has_taken(held.batch);
			/* false: all events of the batch wait on, and no row of the queue was used up */
			r->more = r->taken || has_used_queue(&held);
		}
		else if (result == ATP_APPLY_CURSOR_MOVED)
		{
			/* a concurrent process has released these events */
			r->more = false;
			result = ATP_APPLIED;
		}
	}
	return result;
}
