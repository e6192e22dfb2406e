/*
 * cursor.c
 *		Rows of atproto.cursor: the position of each stream, for each of its shards.
 */
#include "postgres.h"

#include "config/cursor.h"
#include "config/spi.h"

/*
 * The digest is of the row that was read.  The row may have been changed since, and events are still applied
 * under the settings that were read.
 */
void
atp_cursor_settings(const AtpSubscription *sub)
{
	AtpArg		digest = {PointerGetDatum(sub->digest), BYTEAOID, false};

	atp_run("UPDATE atproto.cursor c SET settings_after = c.seq, read_from = c.seq, settings = $3"
			" WHERE c.subscription = $1 AND c.endpoint = $2 AND c.settings IS DISTINCT FROM $3",
			ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->ep->scope), digest));
}

/*
 * Only the name of the target changes, so no events have to be read again.  A batch of the former name does not move
 * a cursor with a new layout.
 */
void
atp_cursors_rename_target(const char *before, const char *now, AtpArg subscriptions)
{
	atp_run("UPDATE atproto.cursor c SET layout = c.layout + 1, settings = CASE WHEN c.settings = s.before THEN s.digest ELSE c.settings END FROM (SELECT name, " ATP_SETTINGS_DIGEST " AS before, " ATP_SETTINGS_DIGEST_OF("$2::name") " AS digest"
			"  FROM atproto.subscription WHERE target = $1::name AND name = ANY ($3)) s WHERE c.subscription = s.name",
			ATP_ARGS(atp_text_arg(before), atp_text_arg(now), subscriptions));
}

char *
atp_cursor_unsettled(const char *target)
{
	AtpResult	found = atp_query("SELECT name FROM (SELECT name, " ATP_SETTINGS_DIGEST " AS digest FROM atproto.subscription"
								  "  WHERE target = $1::name AND links <> 'none' AND enabled AND stopped IS NULL"
								  "   AND atproto.role_may_fill(owner, target, target_owner)) s"
								  " WHERE digest <> (SELECT settings FROM atproto.cursor c WHERE c.subscription = s.name"
								  "  ORDER BY updated_at DESC LIMIT 1) ORDER BY name LIMIT 1", ATP_ARGS(atp_text_arg(target)));
	char	   *name = found.n > 0 ? atp_get_text(atp_result_row(found, 0), "name") : NULL;

	atp_result_free(found);
	return name;
}

/* Read and lock all rows of a cursor, until the end of the transaction. */
static AtpCursor
read_cursor(const char *name, const char *endpoint)
{
	AtpCursor	cursor = {.lowest = PG_INT64_MAX, .highest = -1};
	AtpResult	shards = atp_query("SELECT shard, layout, COALESCE(seq, -1) AS seq, COALESCE(last_row, 0) AS last_row FROM atproto.cursor"
								   " WHERE subscription = $1 AND endpoint = $2 ORDER BY shard FOR NO KEY UPDATE",
								   ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	bool		whole = shards.n > 0 && shards.n <= ATP_WORKERS_MAX;

	for (int i = 0; whole && i < shards.n; i++)
	{
		AtpTuple	row = atp_result_row(shards, i);
		int			layout = atp_get_int4(row, "layout");
		int64		seq = atp_get_int8(row, "seq");

		whole = atp_get_int4(row, "shard") == i && (i == 0 || layout == cursor.layout);
		cursor.layout = layout;
		cursor.shards++;
		if (seq < cursor.lowest)
			cursor.last_row = atp_get_int8(row, "last_row");
		cursor.lowest = Min(cursor.lowest, seq);
		cursor.highest = Max(cursor.highest, seq);
	}
	atp_result_free(shards);
	if (!whole)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cursor of subscription \"%s\" has not all its shards, or others", name),
				 errhint("Restore the rows of table \"%s\", or unsubscribe and subscribe again.", "atproto.cursor")));
	return cursor;
}

AtpCursor
atp_cursor_get(const char *name, const char *endpoint)
{
	atp_run("INSERT INTO atproto.cursor (subscription, endpoint) VALUES ($1, $2) ON CONFLICT DO NOTHING",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	return read_cursor(name, endpoint);
}

void
atp_cursor_make(const char *name, const char *endpoint, int64 seq)
{
	atp_run("INSERT INTO atproto.cursor (subscription, endpoint, seq) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(seq)));
}

bool
atp_cursor_of_shard(const char *name, const char *endpoint, int shard, int layout, int64 *seq)
{
	AtpResult	found = atp_query("SELECT COALESCE(seq, -1) AS seq FROM atproto.cursor"
								  " WHERE subscription = $1 AND endpoint = $2 AND shard = $3 AND layout = $4",
								  ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint),
										   atp_int4_arg(shard), atp_int4_arg(layout)));

	if (found.n > 0)
		*seq = atp_get_int8(atp_result_row(found, 0), "seq");
	atp_result_free(found);
	return found.n > 0;
}

AtpCursor
atp_cursor_share(const char *name, const char *endpoint, int shards)
{
	AtpCursor	cursor = read_cursor(name, endpoint);

	if (cursor.lowest != cursor.highest)
		return cursor;

	/* events missed by one shard are missed by the stream: all shards get the latest read_from */
	atp_run("UPDATE atproto.cursor c SET read_from = m.read_from"
			" FROM (SELECT max(read_from) AS read_from FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2) m"
			" WHERE c.subscription = $1 AND c.endpoint = $2 AND c.read_from IS DISTINCT FROM m.read_from",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	/* add the counts of the shards to be removed to the counts of shard 0 */
	atp_run("WITH gone AS (DELETE FROM atproto.cursor"
			"  WHERE subscription = $1 AND endpoint = $2 AND shard >= $3"
			"  RETURNING events, record_ops, skips)"
			" UPDATE atproto.cursor c SET events = c.events + g.events,"
			"  record_ops = c.record_ops + g.record_ops, skips = COALESCE(g.skips, '{}')"
			" FROM (SELECT COALESCE(sum(events), 0) AS events, COALESCE(sum(record_ops), 0) AS record_ops,"
			"  (SELECT jsonb_object_agg(key, n) FROM (SELECT key, sum(value::numeric) AS n"
			"   FROM (SELECT skips FROM gone UNION ALL SELECT skips FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = 0) a,"
			"   jsonb_each_text(a.skips) GROUP BY key) k) AS skips"
			"  FROM gone HAVING count(*) > 0) g"
			" WHERE c.subscription = $1 AND c.endpoint = $2 AND c.shard = 0",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int4_arg(shards)));
	atp_run("INSERT INTO atproto.cursor (subscription, endpoint, shard, layout, seq, event_time, settings_after, settings, read_from, left_at, last_row)"
			" SELECT subscription, endpoint, n, layout, seq, event_time, settings_after, settings, read_from, left_at, last_row"
			" FROM atproto.cursor, generate_series(1, $3 - 1) n"
			" WHERE subscription = $1 AND endpoint = $2 AND shard = 0"
			" ON CONFLICT DO NOTHING",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int4_arg(shards)));
	/* A worker started before the change has the old layout, and so cannot move these rows. */
	atp_run("UPDATE atproto.cursor SET layout = layout + 1 WHERE subscription = $1 AND endpoint = $2",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	return read_cursor(name, endpoint);
}

void
atp_cursor_begin(const char *name, const char *endpoint, int64 seq)
{
	atp_run("UPDATE atproto.cursor SET seq = $3, read_from = $3 WHERE subscription = $1 AND endpoint = $2 AND seq IS NULL",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(seq)));
}

void
atp_cursor_passed(const char *name, const char *endpoint, TimestampTz passed_at)
{
	atp_run("UPDATE atproto.cursor SET passed_at = $3 WHERE subscription = $1 AND endpoint = $2 AND (passed_at < $3 OR passed_at IS NULL)",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_time_arg(passed_at)));
}
