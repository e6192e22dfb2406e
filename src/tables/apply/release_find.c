/*
 * release_find.c
 *		Which held events are due for release.
 *
 * The transaction that makes a new verdict possible queues the repositories in atproto.held_release.  This file reads the
 * queue, finds the repositories whose events have waited long enough for a missing commit, and reads the held events into
 * a batch, in the order of their revisions.  Where nothing is left to release, it clears the column hold.  Invariant: a
 * batch has only events of subscriptions that the releasing subscription may take (held_by.h).
 *
 * Some held events are never queued that way: a look-up ended just before an event was held, the subscription's level
 * was lowered, or a user emptied a table.  So each process calls atp_release_queue_all() when it starts, and from time
 * to time.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/apply/release_batch.h"
#include "tables/base/error_class.h"
#include "tables/repos/multi_source.h"
#include "tables/repos/repo.h"
#include "tables/repos/resync.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define NAMED		64			/* maximum number of queued repositories in a step */
#define FETCH		64			/* events per fetch of the cursor */
#define GRACE_MS	60000		/* beyond atproto.multi_source_wait: how long events are left to a taker (held_by.h) */

enum
{
	NAMED_REPOS,				/* target, shards, shard, kind, own name, did[] or null, names, unused -> id, did */
	NAME_ALL,					/* the parameters of NAMED_REPOS, the last: only accounts whose events all wait behind others */
	DUE_GAPS,					/* the parameters of NAMED_REPOS, the last: milliseconds; takers, milliseconds (LEFT_TO_TAKER) -> did */
	FORGET_STRAY,				/* no parameters */
	READ_HELD					/* target, did[], kind, names, takers, milliseconds (LEFT_TO_TAKER) */
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

static const AtpStatement statements[] = {
	[DUE_GAPS] = {
		"SELECT DISTINCT did FROM (SELECT did FROM atproto.held_event h WHERE target = $1::name AND shard_key % $2 = $3 AND kind = $4"
		TAKEN " AND why = 'gap' AND held_at NOT BETWEEN now() - $8 * interval '1 ms' AND now()" LEFT_TO_TAKER("$9", "$10")
		/*
		 * an event whose wait is over may wait on, as long as its repository is fetched: by the order of an index, many
		 * such events would come before all events whose wait has just ended
		 */
		" ORDER BY held_at DESC LIMIT " CppAsString2(NAMED) ") h",
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
		"  AND e.kind = h.kind AND e.subscription = ANY ($7) AND e.why NOT IN ('order', 'resync')))"
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
	[READ_HELD] = {
		"SELECT did, rev, subscription, seq, why, asked_at, bytes, held_at, verify, format, endpoint FROM atproto.held_event h"
		" WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2) AND kind = $3 AND subscription = ANY ($4)"
		LEFT_TO_TAKER("$5", "$6") ATP_ORDER_OF_HELD,
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_TEXT),
		ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_INT8},
		{ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TIMESTAMP, ATP_TYPE_BYTEA, ATP_TYPE_TIMESTAMP,
		ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT}
	},
};

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

static void
add_named(AtpHeldBatch *held, int64 id, struct varlena *did)
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
	return atp_held_execute(set, &statements[statement], args, some ? NULL : statement == NAMED_REPOS ? "     n n" : "     n    ");
}

/* Add the repositories with an event that has waited atproto.multi_source_wait for a missing commit. */
static void
add_due(const AtpReleaser *r, const AtpApply *a, AtpHeldBatch *held)
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
read_named(const AtpReleaser *r, AtpApply *a, AtpHeldBatch *held)
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
why_of(const AtpHeldBatch *held, const AtpHeldRow *row, AtpWhyHeld why)
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
add_event(AtpHeldBatch *held, HeapTuple tuple, TupleDesc desc, int max)
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
	row->behind = why == ATP_HELD_ORDER;
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

/*
 * The batch has no room for an event of the account did.  Take back the account's other events, which the next batch has together:
 * a commit by a former key is confirmed by events behind the commit (M-40), and refused without these events.  Only an account
 * that fills a batch alone is cut.
 */
static void
leave_to_next(AtpHeldBatch *held, const struct varlena *did)
{
	AtpBatch   *batch = held->batch;
	int			n = batch->nmessages;

	while (n > 0 && atp_compare_dids(held->rows[n - 1].did, did) == 0)
		n--;
	if (n == 0 || n == batch->nmessages)
		return;
	batch->nmessages = n;
	batch->used = batch->messages[n - 1].ptr + batch->messages[n - 1].len - batch->buffer;
}

/* Read the held events of the accounts in dids, until the batch is full. */
static void
read_events(const AtpApply *a, AtpHeldBatch *held)
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
			{
				bool		isnull;

				held->all = false;
				leave_to_next(held, PG_DETOAST_DATUM_PACKED(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
			}
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
find_levels(const AtpApply *a, AtpHeldBatch *held)
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

void
atp_release_find(const AtpReleaser *r, AtpApply *a, AtpHeldBatch *held)
{
	held->by = atp_held_by(a);
	read_named(r, a, held);
	if (held->ndids == 0)
		return;
	read_events(a, held);
	find_levels(a, held);
}

/* Clear hold of repositories without held events: no batch will have an event of them, so no other code would clear hold. */
static void
unhold_empty(const AtpHeldBatch *held, AtpApply *a)
{
	struct varlena **empty = palloc(sizeof(struct varlena *) * held->ndids);
	int			n = 0;
	int			row = 0;

	for (int i = 0; i < held->ndids && atp_release_finishes(held, held->dids[i]); i++)
	{
		while (row < held->batch->nmessages && atp_compare_dids(held->rows[row].did, held->dids[i]) < 0)
			row++;
		if (row == held->batch->nmessages || atp_compare_dids(held->rows[row].did, held->dids[i]) != 0)
			empty[n++] = held->dids[i];
	}
	if (n > 0)
		atp_repos_unhold(a, empty, n);
}

static void
unhold_repos(AtpApply *a, int unused, int unused2)
{
	AtpHeldBatch *held = (AtpHeldBatch *) a->progress;

	if (held != NULL)
	{
		unhold_empty(held, a);
		return;
	}
	atp_resync_end_abandoned(a);
	atp_repos_unhold(a, NULL, 0);
}

/* Clear hold in a subtransaction.  If the database refuses, hold stays set, which is harmless: log the error and go on. */
void
atp_release_unhold(AtpApply *a)
{
	ErrorData  *error;

	if (!are_repos(a))
		return;
	/* after a wait that is too long, the process ends, and the next process looks again */
	atp_queue_wait.limited = true;
	error = atp_attempt(a, unhold_repos, 0, 0);
	atp_queue_wait.limited = false;
	if (error != NULL)
		ereport(LOG,
				(errmsg("rows of table \"repo\" say that events wait, for atproto subscription \"%s\": %s",
						a->sub->name, error->message)));
}

bool
atp_release_queue_all(const AtpReleaser *r, AtpApply *a, bool stuck)
{
	bool		any = false;
	AtpHeldBy	by;

	atp_begin("looking for held events");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		if (r->shard == 0 && !stuck)
			(void) atp_held_execute(a->statements, &statements[FORGET_STRAY], NULL, NULL);
		by = atp_held_by(a);
		any = execute_of_shard(r, a, &by, NAME_ALL, BoolGetDatum(stuck)) > 0;
		/* rows that were in the queue before count, too */
		any |= execute_of_shard(r, a, &by, NAMED_REPOS, Int64GetDatum(0)) > 0;
		SPI_freetuptable(SPI_tuptable);
		if (r->shard == 0 && !stuck)
			atp_release_unhold(a);
	}
	atp_commit();
	return any;
}
