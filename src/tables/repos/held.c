/*
 * held.c
 *		Held events: count, add, drop and release the rows of atproto.held_event.
 *
 * Why an event is held is decided in admission.c and label_judge.c; release.c reads held events and judges
 * them again.  Invariant: an event that is dropped for lack of room leaves a mark on its repository or a row of
 * atproto.gap.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/clock.h"
#include "config/option.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/base/gap.h"
#include "tables/repos/held.h"
#include "tables/repos/held_by.h"
#include "tables/base/job.h"
#include "tables/repos/admission_after.h"
#include "tables/repos/repo.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"

/* A repository may use max_held_bytes divided by this. */
#define SHARE	64

/* The sum of held bytes is read again after this process has added max_held_bytes divided by this. */
#define LOOK	64

static const char *const why_names[ATP_HELD_COUNT] = {
	[ATP_HELD_IDENTITY] = "identity",
	[ATP_HELD_SIGNATURE] = "signature",
	[ATP_HELD_ORDER] = "order",
	[ATP_HELD_RESYNC] = "resync",
	[ATP_HELD_GAP] = "gap",
};

AtpWhyHeld
atp_held_why(const char *name)
{
	AtpWhyHeld	why = 0;

	while (why < ATP_HELD_COUNT && strcmp(name, why_names[why]) != 0)
		why++;
	/* an unknown word is possible: a user may have dropped the CHECK constraint */
	return why < ATP_HELD_COUNT ? why : ATP_HELD_ORDER;
}

int			atp_label_wait_ms;

void
atp_held_init(void)
{
	DefineCustomIntVariable("atproto.label_wait",
							"Longest time that a stream stands still when labels of one labeler, whose key is not known, have no more room to wait.",
							"Then its labels that wait are dropped, and a row of atproto.gap counts them.", &atp_label_wait_ms, 60000, 0, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

enum
{
	COUNT_HELD,					/* target, did[], kind, names of subscriptions (AtpHeldBy.takes), own name -> see count_held() */
	COUNT_BYTES,				/* subscription */
	COUNT_LABELS,				/* subscription -> numbers of labelers, events, bytes */
	ADD_HELD,
	DROP_HELD,					/* target, did[], kind, subscription */
	FIND_LARGEST,				/* target, subscription, kind, bytes -> did */
	WAIT_AGAIN,					/* target, did, asked_at, kind, subscription; rev, seq, endpoint of the event */
	SET_WHY,					/* target, did, rev, subscription, seq, why, endpoint */
	ERASE_HELD,					/* target, did, kind, names of subscriptions (AtpHeldBy.takes) */
	ERASE_OLDER					/* target, did, kind, names of subscriptions, endpoint, seq */
};

static const AtpStatement statements[] = {
	[COUNT_HELD] = {
		"SELECT u.n::integer, h.events, h.rev, h.awaits_commit, h.own, h.bytes, h.every, h.gap FROM unnest($2) WITH ORDINALITY u (did, n),"
		" LATERAL (SELECT count(*) FILTER (WHERE subscription = ANY ($4)) AS events,"
		"   (array_agg(rev ORDER BY rev) FILTER (WHERE subscription = ANY ($4)))[1] AS rev,"
		"   (" ATP_HELD_WAITS_FOR_COMMIT("rev", "why", " FILTER (WHERE subscription = ANY ($4))") ") AS awaits_commit,"
		"   count(*) FILTER (WHERE subscription = $5) AS own,"
		"   COALESCE(sum(octet_length(bytes)) FILTER (WHERE subscription = $5), 0)::bigint AS bytes,"
		"   count(*) AS every, COALESCE(bool_or(why = 'gap'), false) AS gap"
		"   FROM atproto.held_event e WHERE e.target = $1::name AND e.did OPERATOR(@.=) u.did AND e.kind = $3) h WHERE h.every > 0",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_TEXT},
		{ATP_TYPE_INT4, ATP_TYPE_INT8, ATP_TYPE_TID, ATP_TYPE_BOOL, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_BOOL}
	},
	[COUNT_BYTES] = {
		"SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.held_event WHERE subscription = $1",
		SPI_OK_SELECT, {ATP_TYPE_TEXT}, {ATP_TYPE_INT8}
	},
	[COUNT_LABELS] = {
		"SELECT count(DISTINCT did), count(*), COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.held_event"
		" WHERE subscription = $1 AND kind = 'label'",
		SPI_OK_SELECT, {ATP_TYPE_TEXT}, {ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_INT8}
	},
	[ADD_HELD] = {
		"INSERT INTO atproto.held_event (target, subscription, kind, verify, format, endpoint, did, rev, seq, why, asked_at, shard_key, bytes)"
		" SELECT $1::name, $2, $3, $4, $5, $6, * FROM unnest($7, $8, $9, $10, $11, $12, $13)"
		/* an event that the stream sends again may be held already */
		" ON CONFLICT DO NOTHING",
		SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT,
			ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TID),
			ATP_ARRAY(ATP_TYPE_INT8), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TIMESTAMP), ATP_ARRAY(ATP_TYPE_INT8),
		ATP_ARRAY(ATP_TYPE_BYTEA)}
	},
	[DROP_HELD] = {
		/* SKIP LOCKED: a process that releases an event has locked the event's row, and will apply the event */
		"WITH gone AS (SELECT ctid FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2) AND kind = $3"
		"   AND subscription = $4 FOR UPDATE SKIP LOCKED)"
		" DELETE FROM atproto.held_event WHERE ctid = ANY (ARRAY (SELECT ctid FROM gone)) RETURNING did, seq",
		SPI_OK_DELETE_RETURNING, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT, ATP_TYPE_TEXT}, {ATP_TYPE_DID, ATP_TYPE_INT8}
	},
	[FIND_LARGEST] = {
		/* all did:web names below a domain count as a single site, because the domain's owner can make any number of them */
		"WITH repo AS (SELECT did, COALESCE(substring(did::text FROM '^did:web:.*?([^.:]+[.][^.:]+)$'), did::text) AS site,"
		"   sum(octet_length(bytes)) AS bytes FROM atproto.held_event"
		"   WHERE target = $1::name AND subscription = $2 AND kind = $3 GROUP BY did),"
		" site AS (SELECT site, sum(bytes) AS bytes FROM repo GROUP BY site)"
		" SELECT did FROM (SELECT r.did, sum(r.bytes) OVER (ORDER BY s.bytes DESC, s.site, r.bytes DESC, r.did) - r.bytes AS before"
		"   FROM repo r JOIN site s USING (site)) l WHERE before < $4",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT8}, {ATP_TYPE_DID}
	},
	[WAIT_AGAIN] = {
		"UPDATE atproto.held_event SET why = 'signature', asked_at = $3"
		/* events that wait behind this one keep the time since when: the look-up may have begun before they came */
		" WHERE target = $1::name AND did OPERATOR(@.=) $2 AND kind = $4 AND subscription = $5"
		" AND (why <> 'order' OR (rev OPERATOR(@.=) $6 AND seq = $7 AND endpoint = $8))",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TIMESTAMP, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TID, ATP_TYPE_INT8, ATP_TYPE_TEXT}
	},
	[SET_WHY] = {
		"UPDATE atproto.held_event SET why = $6 WHERE target = $1::name AND did OPERATOR(@.=) $2 AND rev OPERATOR(@.=) $3"
		" AND subscription = $4 AND seq = $5 AND endpoint = $7",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TEXT}
	},
	[ERASE_HELD] = {
		"DELETE FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) $2 AND kind = $3 AND subscription = ANY ($4)",
		SPI_OK_DELETE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_TEXT)}
	},
	[ERASE_OLDER] = {
		"DELETE FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) $2 AND kind = $3 AND subscription = ANY ($4)"
		" AND endpoint = $5 AND seq < $6",
		SPI_OK_DELETE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_TEXT), ATP_TYPE_TEXT, ATP_TYPE_INT8}
	},
};

uint64
atp_held_execute(AtpStatements *set, const AtpStatement *statement, Datum *args, const char *nulls)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	uint64		n = atp_execute(set, statement, args, nulls);

	atp_owner_end(caller);
	return n;
}

static uint64
execute_as_table_owner(AtpApply *a, int statement, Datum *args, const char *nulls)
{
	return atp_held_execute(a->statements, &statements[statement], args, nulls);
}

static Datum
target_of(const AtpApply *a)
{
	return CStringGetTextDatum(atp_target(a->statements));
}

const char *
atp_held_kind(const AtpSink *sink)
{
	return sink->uses & ATP_USE_LABELS ? "label" : "repo";
}

static Datum
name_kind(const AtpApply *a)
{
	return CStringGetTextDatum(atp_held_kind(a->sink));
}

static Datum
did_array(AtpApply *a, struct varlena *const *dids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = PointerGetDatum(dids[i]);
	return atp_array(a->statements, ATP_TYPE_DID, values, NULL, n);
}

/* ------------------------------------------------------------------------
 * Counts of held events
 * ------------------------------------------------------------------------
 */

/* atp_held_count(); bytes, unless NULL, are set to the bytes of the events that the subscription itself received. */
static void
count_held(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts, int64 *bytes)
{
	AtpHeldBy	by = atp_held_by(a);
	Datum		args[5] = {
		target_of(a), did_array(a, dids, n), name_kind(a), atp_array(a->statements, ATP_TYPE_TEXT, by.takes, NULL, by.ntakes),
		CStringGetTextDatum(a->sub->name)
	};
	uint64		found;

	memset(counts, 0, sizeof(AtpHeldCount) * n);
	found = execute_as_table_owner(a, COUNT_HELD, args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		Datum		v[8];
		bool		null[8];
		int			which;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		which = DatumGetInt32(v[0]) - 1;
		counts[which] = (AtpHeldCount) {
			.n = DatumGetInt64(v[1]), .own = DatumGetInt64(v[4]), .all = DatumGetInt64(v[6]), .any_gap = DatumGetBool(v[7]),
			.first_rev = null[2] ? 0 : DatumGetAtpTid(v[2]),
			.awaits_commit = !null[3] && DatumGetBool(v[3])
		};
		if (bytes != NULL)
			bytes[which] = DatumGetInt64(v[5]);
	}
	SPI_freetuptable(SPI_tuptable);
}

void
atp_held_count(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts)
{
	count_held(a, dids, n, counts, NULL);
}

void
atp_held_order_follow(AtpHeldOrder *order, const AtpHeldRow *row, int64 nheld, uint64 first_rev)
{
	if (!order->follows)
		order->stays |= nheld == 0 || row->rev != first_rev;
	order->follows = true;
}

/* Estimate of the bytes that the subscription holds.  The subscription's further workers add events, too, so limit_held() reads the sum again. */
static struct
{
	bool		known;
	int64		bytes;
	int64		added;			/* by this process since the sum was read */
}			total;

/* ------------------------------------------------------------------------
 * Limits of held events
 * ------------------------------------------------------------------------
 */

/*
 * when this process first paused its stream for a labeler's key; 0: not paused.  When atproto.label_wait has
 * run out, the stream goes on and the value stays, so that the stream is not paused again before held labels have
 * been taken, or no label is held: a labeler whose key never becomes known would otherwise delay all other labelers
 * each time the room is full.
 */
static AtpTime stalled;

/* Count the held labels of the subscription: numbers of labelers, events, and bytes. */
static void
count_labels(AtpApply *a, int64 *labelers, int64 *events, int64 *bytes)
{
	Datum		arg = CStringGetTextDatum(a->sub->name);
	Datum		v[3];
	bool		null[3];

	(void) execute_as_table_owner(a, COUNT_LABELS, &arg, NULL);
	heap_deform_tuple(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, v, null);
	*labelers = DatumGetInt64(v[0]);
	*events = DatumGetInt64(v[1]);
	*bytes = DatumGetInt64(v[2]);
	SPI_freetuptable(SPI_tuptable);
}

/*
 * pause the stream rather than drop labels?  A lost label cannot be recovered: labels have no chain that would
 * show the loss, and no export that contains the label.  While the labels of only one labeler are held, the stream
 * pauses for the labeler's key (atp_held_stalls()), for atproto.label_wait at most, and the labels received so far stay
 * held.  If labels of several labelers are held, the stream goes on: otherwise one labeler would block all.
 */
static bool
stall_stream(AtpApply *a, struct varlena *did)
{
	int64		labelers;
	int64		events;
	int64		bytes;
	AtpTime		now = atp_now();

	if (a->sink->uses & ATP_USE_REPOS || a->sub->settings.max_held == 0 || atp_label_wait_ms == 0)
		return false;
	if (stalled != 0 && !atp_held_stalls(now))
		return false;
	count_labels(a, &labelers, &events, &bytes);
	if (labelers > 1)
		return false;
	if (labelers == 1 && did != NULL)
	{
		AtpHeldCount own;

		atp_held_count(a, &did, 1, &own);
		if (own.own == 0)
			return false;
	}
	if (stalled == 0)
		stalled = now;
	return true;
}

bool
atp_held_stalls(AtpTime now)
{
	return stalled != 0 && atp_remaining(now, stalled, atp_label_wait_ms) > 0;
}

void
atp_held_look_for_room(AtpApply *a)
{
	int64		labelers;
	int64		events;
	int64		bytes;

	if (stalled == 0)
		return;
	count_labels(a, &labelers, &events, &bytes);
	if (events <= a->sub->settings.max_held && bytes <= a->sub->settings.max_held_bytes / SHARE)
		atp_held_end_stall();
}

void
atp_held_end_stall(void)
{
	stalled = 0;
}

/* Is a DID in this sorted array? */
static bool
is_among(struct varlena *const *dids, int n, struct varlena *did)
{
	return n > 0 && bsearch(&did, dids, n, sizeof(struct varlena *), atp_compare_did_refs) != NULL;
}

/* Count a dropped event whose repository has no row to mark; the caller writes the count to atproto.gap. */
static void
note_lost(const AtpApply *a, AtpLost *lost, int64 seq)
{
	/* in a stream whose positions are times, seq of a held event may be a hash (number_of) and not a position */
	if (a->sub->source->rewind > 0)
		seq = a->batch->events[a->lo].seq;
	lost->first = lost->events == 0 ? seq : Min(lost->first, seq);
	lost->last = lost->events == 0 ? seq : Max(lost->last, seq);
	lost->events++;
}

/*
 * Drop all events that the subscription holds of these repositories, except repositories whose rows are locked: the
 * process with the lock may be applying the events.
 *
 * A repository with a stored commit, or with hold resync or gap, is marked as desynchronized, because the tables lack the
 * dropped events.
 * Below level full such a repository is fetched at once.  At level full the dropped events may be forged (V-11), so the
 * fetch waits for the next verified event.  Dropped events of an unmarked repository are counted in lost.
 */
static void
drop_events(AtpApply *a, struct varlena **dids, int n, AtpLost *lost)
{
	Datum		args[4] = {target_of(a), (Datum) 0, name_kind(a), CStringGetTextDatum(a->sub->name)};
	struct varlena **marked = NULL;
	int			nmarked = 0;
	uint64		gone;

	if (a->sink->uses & ATP_USE_REPOS)
		n = atp_repos_mark_dropped(a, dids, n, &marked, &nmarked);
	if (n == 0)
		return;
	args[1] = did_array(a, dids, n);
	gone = execute_as_table_owner(a, DROP_HELD, args, NULL);
	for (uint64 i = 0; i < gone; i++)
	{
		Datum		v[2];
		bool		null[2];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		if (!is_among(marked, nmarked, PG_DETOAST_DATUM(v[0])))
			note_lost(a, lost, DatumGetInt64(v[1]));
	}
	SPI_freetuptable(SPI_tuptable);
	a->skips[ATP_SKIP_HELD_DROPPED] += gone;
	/*
	 * A repository whose last held event is dropped here waits for nothing.  The batch has stored the mark "hold"
	 * before, and no process would look at the repository again before the repository's next event.
	 */
	if (a->sink->uses & ATP_USE_REPOS)
		atp_repos_unhold(a, dids, n);
	/* events of further subscriptions may have waited behind the dropped events */
	if (gone > 0 && (a->sink->uses & ATP_USE_REPOS))
	{
		atp_held_release(dids, n);
		a->batch->released = true;
	}
	if (nmarked > 0 && a->sub->settings.verify != ATP_VERIFY_FULL)
		atp_jobs_repair(atp_target(a->statements), marked, nmarked, ATP_JOB_BREAK, "break");
}

/* Drop held events of the repositories or labelers with the most bytes, until this number of bytes is free. */
static void
drop_largest(AtpApply *a, int64 bytes)
{
	Datum		args[4] = {target_of(a), CStringGetTextDatum(a->sub->name), name_kind(a), Int64GetDatum(bytes)};
	uint64		n = execute_as_table_owner(a, FIND_LARGEST, args, NULL);
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));

	n = atp_take_dids(dids, n);
	if (a->sink->uses & ATP_USE_REPOS)
	{
		AtpLost		lost = {0};

		drop_events(a, dids, n, &lost);
		atp_gap_lost(a, NULL, &lost);
		return;
	}
	/* atproto.gap gets a row for each labeler: the operator has to know whose labels are missing */
	for (uint64 i = 0; i < n; i++)
	{
		AtpLost		lost = {0};

		drop_events(a, &dids[i], 1, &lost);
		atp_gap_lost(a, dids[i], &lost);
	}
}

/* this process has added bytes to the held events.  If the subscription's limit is exceeded, pause the stream or drop events. */
static void
limit_held(AtpApply *a, int64 bytes)
{
	int64		max = a->sub->settings.max_held_bytes;
	Datum		arg = CStringGetTextDatum(a->sub->name);
	bool		isnull;

	total.added += bytes;
	if (total.known && total.bytes + total.added <= max && total.added <= max / LOOK)
		return;
	(void) execute_as_table_owner(a, COUNT_BYTES, &arg, NULL);
	total.bytes = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	total.added = 0;
	total.known = total.bytes <= max;
	/* free a tenth of the limit in addition; otherwise each of the next events would exceed the limit again */
	if (!total.known && !stall_stream(a, NULL))
		drop_largest(a, total.bytes - max + max / 10);
}

/* ------------------------------------------------------------------------
 * New held events
 * ------------------------------------------------------------------------
 */
static int
compare_events(const void *a, const void *b)
{
	const AtpEvent *x = *(AtpEvent *const *) a;
	const AtpEvent *y = *(AtpEvent *const *) b;
	int			cmp = atp_compare_dids(x->did, y->did);

	return cmp != 0 ? cmp : x < y ? -1 : x > y;
}

/* A repository or labeler has exceeded its share: drop the new events together with the held events. */
static void
drop_repo(AtpApply *a, AtpEvent *const *events, int n)
{
	struct varlena *did = events[0]->did;
	AtpLost		lost = {0};
	bool		marked = false;

	if (a->sink->uses & ATP_USE_REPOS)
	{
		struct varlena *own = did;
		struct varlena **list;
		int			nlist;

		(void) atp_repos_mark_dropped(a, &own, 1, &list, &nlist);
		marked = nlist > 0;
	}
	for (int i = 0; i < n && !marked; i++)
		note_lost(a, &lost, events[i]->seq);
	a->skips[ATP_SKIP_HELD_DROPPED] += n;
	drop_events(a, &did, 1, &lost);
	atp_gap_lost(a, a->sink->uses & ATP_USE_REPOS ? NULL : events[0]->did, &lost);
}

/*
 * A unique number among the events of a revision.  In a stream whose positions are times, several events may have the
 * same position, so the number is taken from the path's hash.  Only operations of one account and revision are compared: an
 * account that makes two paths with one hash loses an operation of its own.
 */
static int64
number_of(const AtpApply *a, const AtpEvent *event)
{
	return event->partial && a->sub->source->rewind > 0 ? (int64) (event->path >> 1) : event->seq;
}

static void
put_event(const AtpApply *a, AtpRows *rows, const AtpEvent *event, TimestampTz asked_at)
{
	atp_put_ref(rows, event->did);
	atp_put(rows, AtpTidGetDatum(event->rev), false);
	atp_put(rows, Int64GetDatum(number_of(a, event)), false);
	atp_put(rows, CStringGetTextDatum(why_names[event->verdict.why_held]), false);
	atp_put(rows, TimestampTzGetDatum(asked_at), asked_at == DT_NOBEGIN);
	atp_put(rows, Int64GetDatum(event->key), false);
	atp_put_ref(rows, atp_varlena(event->message.ptr, event->message.len));
}

void
atp_held_add(AtpApply *a, AtpEvent *const *events, int n)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_TIMESTAMP,
	ATP_TYPE_INT8, ATP_TYPE_BYTEA, ATP_TYPE_END};
	const AtpSettings *settings = &a->sub->settings;
	AtpEvent  **sorted = palloc(sizeof(AtpEvent *) * n);
	struct varlena **dids = palloc(sizeof(struct varlena *) * n);
	AtpHeldCount *counts = palloc(sizeof(AtpHeldCount) * n);
	int64	   *bytes = palloc0(sizeof(int64) * n);
	AtpRows    *rows = atp_rows_create(a->statements, types, n);
	int64		sum = 0;
	int			ndids = 0;
	Datum		args[13];

	memcpy(sorted, events, sizeof(AtpEvent *) * n);
	qsort(sorted, n, sizeof(AtpEvent *), compare_events);
	for (int i = 0; i < n; i++)
		if (i == 0 || atp_compare_dids(sorted[i - 1]->did, sorted[i]->did) != 0)
			dids[ndids++] = sorted[i]->did;
	count_held(a, dids, ndids, counts, bytes);
	for (int i = 0, d = 0, end; i < n; i = end, d++)
	{
		int64		new_bytes = 0;

		for (end = i; end < n && atp_compare_dids(sorted[end]->did, dids[d]) == 0; end++)
			new_bytes += sorted[end]->message.len;
		/* a single event is always kept, however large: otherwise it could never be applied */
		if ((counts[d].own + (end - i) > settings->max_held ||
			 (counts[d].own + (end - i) > 1 && bytes[d] + new_bytes > settings->max_held_bytes / SHARE)) &&
			!(ndids == 1 && stall_stream(a, dids[d])))
		{
			drop_repo(a, &sorted[i], end - i);
			continue;
		}
		for (int e = i; e < end; e++)
			put_event(a, rows, sorted[e], sorted[e]->verdict.asked_at);
		sum += new_bytes;
	}
	if (rows->n == 0)
		return;
	args[0] = target_of(a);
	args[1] = CStringGetTextDatum(a->sub->name);
	args[2] = name_kind(a);
	args[3] = CStringGetTextDatum(atp_verify_words[settings->verify]);
	args[4] = CStringGetTextDatum(a->sub->source->format_name);
	args[5] = CStringGetTextDatum(a->sub->ep->scope);
	atp_rows_bind(rows, args + 6);
	(void) execute_as_table_owner(a, ADD_HELD, args, NULL);
	limit_held(a, sum);
}

void
atp_held_wait_again(AtpApply *a, const AtpEvent *event, TimestampTz asked_at)
{
	const AtpHeldRow *row = event->held;
	Datum		args[8] = {
		target_of(a), PointerGetDatum(event->did), TimestampTzGetDatum(asked_at), name_kind(a), PointerGetDatum(row->subscription),
		AtpTidGetDatum(row->rev), Int64GetDatum(row->seq), PointerGetDatum(row->endpoint)
	};

	(void) execute_as_table_owner(a, WAIT_AGAIN, args, asked_at == DT_NOBEGIN ? "  n     " : NULL);
}

void
atp_held_set_why(AtpApply *a, const AtpEvent *event)
{
	const AtpHeldRow *row = event->held;
	Datum		args[7] = {
		target_of(a), PointerGetDatum(row->did), AtpTidGetDatum(row->rev), PointerGetDatum(row->subscription),
		Int64GetDatum(row->seq), CStringGetTextDatum(why_names[event->verdict.why_held]), PointerGetDatum(row->endpoint)
	};

	(void) execute_as_table_owner(a, SET_WHY, args, NULL);
}

/* ------------------------------------------------------------------------
 * Held events of deleted accounts
 * ------------------------------------------------------------------------
 */
void
atp_held_erase(AtpApply *a, int index)
{
	AtpBatch   *batch = a->batch;
	struct varlena *did = batch->events[index].did;
	bool		lost = batch->events[index].effects.drops_held;
	AtpLost		new = {0};
	AtpHeldBy	by = atp_held_by(a);
	Datum		args[4] = {target_of(a), PointerGetDatum(did), name_kind(a), atp_array(a->statements, ATP_TYPE_TEXT, by.takes, NULL, by.ntakes)};

	if (lost)
		atp_gap_erased(a, did, args[3]);
	a->skips[ATP_SKIP_INACTIVE] += execute_as_table_owner(a, ERASE_HELD, args, NULL);
	for (int i = a->lo; i < index; i++)
	{
		AtpEvent   *event = &batch->events[i];

		if (event->ignored || !atp_admission_waits_from_now(event) || atp_compare_dids(event->did, did) != 0)
			continue;
		atp_admission_ignore(event, ATP_SKIP_INACTIVE);
		a->skips[ATP_SKIP_INACTIVE]++;
		a->skips[ATP_SKIP_HELD]--;
		if (lost)
			note_lost(a, &new, event->seq);
	}
	atp_gap_lost(a, NULL, &new);
}

void
atp_held_erase_older(AtpApply *a, const AtpEvent *event)
{
	AtpHeldBy	by = atp_held_by(a);
	struct varlena *did = event->did;
	Datum		args[6] = {
		target_of(a), PointerGetDatum(did), name_kind(a), atp_array(a->statements, ATP_TYPE_TEXT, by.takes, NULL, by.ntakes),
		CStringGetTextDatum(a->sub->ep->scope), Int64GetDatum(event->seq)
	};
	uint64		gone = execute_as_table_owner(a, ERASE_OLDER, args, NULL);

	if (gone == 0)
		return;
	a->skips[ATP_SKIP_INACTIVE] += gone;
	/* the later events of the account no longer wait behind those */
	atp_repos_unhold(a, &did, 1);
	atp_held_release(&did, 1);
	a->batch->released = true;
}

void
atp_held_erase_all(const char *target, struct varlena *did)
{
	AtpCaller	caller = atp_as_table_owner("held_event");

	atp_run(atp_identity_sql("DELETE FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2) AND kind = 'repo'"),
			ATP_ARGS(atp_text_arg(target), atp_dids_arg(&did, 1)));
	atp_owner_end(caller);
}

/* ------------------------------------------------------------------------
 * Release
 * ------------------------------------------------------------------------
 */
void
atp_held_release(struct varlena *const *dids, int n)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("held_event");
	atp_run(atp_identity_sql("INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key)"
							 " SELECT DISTINCT ON (h.target, h.kind, h.did, h.subscription) h.target, h.kind, h.did, h.subscription, h.shard_key"
							 " FROM atproto.held_event h WHERE h.did OPERATOR(@.=) ANY ($1)"),
			ATP_ARGS(atp_dids_arg(dids, n)));
	atp_owner_end(caller);
}
