/*
 * held.c
 *		Events that wait until they can be judged: atproto.held_event.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/held.h"
#include "tables/repo.h"
#include "tables/rows.h"
#include "types/types.h"
#include "utils/builtins.h"

/* A repository may have this part of max_held_bytes. */
#define SHARE	64

/* How much is held is looked up again after a process has added so much of max_held_bytes. */
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
	/* somebody may have dropped the constraint */
	return why < ATP_HELD_COUNT ? why : ATP_HELD_ORDER;
}

enum
{
	COUNT_HELD,					/* target, did[], kind -> n-th, events, first revision, bytes */
	COUNT_BYTES,				/* subscription */
	ADD_HELD,
	DROP_HELD,					/* target, did[], kind */
	FIND_LARGEST,				/* target, subscription, kind, bytes -> did */
	WAIT_AGAIN,
	SET_WHY						/* target, did, rev, subscription, seq, why */
};

static const AtpStatement statements[] = {
	[COUNT_HELD] = {
		"SELECT u.n::integer, h.events, h.rev, h.bytes FROM unnest($2) WITH ORDINALITY u (did, n),"
		" LATERAL (SELECT count(*) AS events, (array_agg(rev ORDER BY rev))[1] AS rev,"
		"   COALESCE(sum(octet_length(bytes)), 0)::bigint AS bytes FROM atproto.held_event e WHERE e.target = $1::name AND e.did OPERATOR(@.=) u.did"
		"   AND e.kind = $3) h WHERE h.events > 0",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT}, {ATP_TYPE_INT4, ATP_TYPE_INT8, ATP_TYPE_TID, ATP_TYPE_INT8}
	},
	[COUNT_BYTES] = {
		"SELECT COALESCE(sum(octet_length(bytes)), 0)::bigint FROM atproto.held_event WHERE subscription = $1",
		SPI_OK_SELECT, {ATP_TYPE_TEXT}, {ATP_TYPE_INT8}
	},
	[ADD_HELD] = {
		"INSERT INTO atproto.held_event (target, subscription, kind, did, rev, seq, why, asked_at, shard_key, bytes)"
		" SELECT $1::name, $2, $3, * FROM unnest($4, $5, $6, $7, $8, $9, $10)"
		/* one that comes again is there already */
		" ON CONFLICT DO NOTHING",
		SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TID),
		ATP_ARRAY(ATP_TYPE_INT8), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TIMESTAMP), ATP_ARRAY(ATP_TYPE_INT8),
		ATP_ARRAY(ATP_TYPE_BYTEA)}
	},
	[DROP_HELD] = {
		/* what somebody else is at, he takes */
		"WITH gone AS (SELECT ctid FROM atproto.held_event WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2) AND kind = $3"
		"   FOR UPDATE SKIP LOCKED)"
		" DELETE FROM atproto.held_event WHERE ctid = ANY (ARRAY (SELECT ctid FROM gone))",
		SPI_OK_DELETE, {ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_TYPE_TEXT}
	},
	[FIND_LARGEST] = {
		/* who has many names below one domain is one, as far as anybody knows */
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
		" WHERE target = $1::name AND did OPERATOR(@.=) $2 AND kind = $4",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TIMESTAMP, ATP_TYPE_TEXT}
	},
	[SET_WHY] = {
		"UPDATE atproto.held_event SET why = $6 WHERE target = $1::name AND did OPERATOR(@.=) $2 AND rev OPERATOR(@.=) $3"
		" AND subscription = $4 AND seq = $5",
		SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_TEXT}
	},
};

/* One of them, as the owner of the table. */
static uint64
execute(AtpApply *a, int statement, Datum *args, const char *nulls)
{
	AtpCaller	caller = atp_as_table_owner("held_event");
	uint64		n = atp_execute(a->statements, &statements[statement], args, nulls);

	atp_owner_end(caller);
	return n;
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
kind_of(const AtpApply *a)
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
 * How much there is
 * ------------------------------------------------------------------------
 */

/* bytes may be NULL. */
static void
count_held(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts, int64 *bytes)
{
	Datum		args[3] = {target_of(a), did_array(a, dids, n), kind_of(a)};
	uint64		found;

	memset(counts, 0, sizeof(AtpHeldCount) * n);
	found = execute(a, COUNT_HELD, args, NULL);
	for (uint64 i = 0; i < found; i++)
	{
		Datum		v[4];
		bool		null[4];
		int			which;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		which = DatumGetInt32(v[0]) - 1;
		counts[which] = (AtpHeldCount) {DatumGetInt64(v[1]), DatumGetAtpTid(v[2])};
		if (bytes != NULL)
			bytes[which] = DatumGetInt64(v[3]);
	}
	SPI_freetuptable(SPI_tuptable);
}

void
atp_held_count(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts)
{
	count_held(a, dids, n, counts, NULL);
}

/* What this process knows of all that its subscription holds: others add to it, too. */
static struct
{
	bool		known;
	int64		bytes;
	int64		added;			/* by this process since that was looked up */
}			total;

/*
 * All that is held of these repositories, but of those whose rows somebody else has: who
 * has the row may take it.  Nobody has verified it, so nothing follows from it; but where
 * a repository is being fetched, what it fetches may lack what has gone.
 */
static void
drop(AtpApply *a, struct varlena **dids, int n)
{
	Datum		args[3] = {target_of(a), (Datum) 0, kind_of(a)};

	if (a->sink->uses & ATP_USE_REPOS)
		n = atp_repos_mark_fetched(a, dids, n);
	if (n == 0)
		return;
	args[1] = did_array(a, dids, n);
	a->skips[ATP_SKIP_HELD_DROPPED] += execute(a, DROP_HELD, args, NULL);
}

/* Those that hold most, until it is so many bytes. */
static void
drop_largest(AtpApply *a, int64 bytes)
{
	Datum		args[4] = {target_of(a), CStringGetTextDatum(a->sub->name), kind_of(a), Int64GetDatum(bytes)};
	uint64		n = execute(a, FIND_LARGEST, args, NULL);
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));

	drop(a, dids, atp_take_dids(dids, n));
}

/* of the subscription so many bytes more are held.  Are these too many? */
static void
limit(AtpApply *a, int64 bytes)
{
	int64		max = a->sub->settings.max_held_bytes;
	Datum		arg = CStringGetTextDatum(a->sub->name);
	bool		isnull;

	total.added += bytes;
	if (total.known && total.bytes + total.added <= max && total.added <= max / LOOK)
		return;
	(void) execute(a, COUNT_BYTES, &arg, NULL);
	total.bytes = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	total.added = 0;
	total.known = total.bytes <= max;
	/* a tenth more, so that it is not the same for the next event */
	if (!total.known)
		drop_largest(a, total.bytes - max + max / 10);
}

/* ------------------------------------------------------------------------
 * Events come
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

/* A repository's share is more than full. */
static void
drop_repo(AtpApply *a, AtpEvent *const *events, int n)
{
	struct varlena *did = events[0]->did;

	a->skips[ATP_SKIP_HELD_DROPPED] += n;
	drop(a, &did, 1);
}

/* What tells it from others of its revision: where positions are times, these may have the same. */
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
	atp_put(rows, CStringGetTextDatum(why_names[event->why_held]), false);
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
	Datum		args[10];

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
		/* one event may be as large as it likes */
		if (counts[d].n + (end - i) > settings->max_held ||
			(counts[d].n + (end - i) > 1 && bytes[d] + new_bytes > settings->max_held_bytes / SHARE))
		{
			drop_repo(a, &sorted[i], end - i);
			continue;
		}
		for (int e = i; e < end; e++)
			put_event(a, rows, sorted[e], sorted[e]->asked_at);
		sum += new_bytes;
	}
	if (rows->n == 0)
		return;
	args[0] = target_of(a);
	args[1] = CStringGetTextDatum(a->sub->name);
	args[2] = kind_of(a);
	atp_rows_bind(rows, args + 3);
	(void) execute(a, ADD_HELD, args, NULL);
	limit(a, sum);
}

void
atp_held_wait_again(AtpApply *a, struct varlena *did, TimestampTz asked_at)
{
	Datum		args[4] = {target_of(a), PointerGetDatum(did), TimestampTzGetDatum(asked_at), kind_of(a)};

	(void) execute(a, WAIT_AGAIN, args, asked_at == DT_NOBEGIN ? "  n " : NULL);
}

void
atp_held_set_why(AtpApply *a, const AtpEvent *event)
{
	const AtpHeldRow *row = event->held;
	Datum		args[6] = {
		target_of(a), PointerGetDatum(row->did), AtpTidGetDatum(row->rev), PointerGetDatum(row->subscription),
		Int64GetDatum(row->seq), CStringGetTextDatum(why_names[event->why_held])
	};

	(void) execute(a, SET_WHY, args, NULL);
}

/* ------------------------------------------------------------------------
 * They may go
 * ------------------------------------------------------------------------
 */
void
atp_held_release(struct varlena *const *dids, int n)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("held_event");
	atp_run(atp_identity_sql("INSERT INTO atproto.held_release (target, kind, did, shard_key)"
							 " SELECT DISTINCT ON (h.target, h.kind, h.did) h.target, h.kind, h.did, h.shard_key"
							 " FROM atproto.held_event h WHERE h.did OPERATOR(@.=) ANY ($1)"),
			ATP_ARGS(atp_dids_arg(dids, n)));
	atp_owner_end(caller);
}
