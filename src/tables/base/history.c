/*
 * history.c
 *		Rows of atproto.history: see history.h.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "tables/base/history.h"
#include "tables/base/table.h"

/* Blocks and bytes that a plan can name: more is no estimate. */
#define PLANNED_MAX		"1000000000000000000"

/* A server decides how often a stream leaves a seam: with more, all become one, and the archive is asked for all of it. */
#define SEAMS_MAX		"1000"

static const char *const phase_words[] = {"plan", "rows", "markers", "seam", "live", NULL};

/* A reading that begins after the phase live is a sweep of its own, whose age counts from now on. */
#define SINCE	" sweep_since = CASE WHEN phase = 'live' THEN now() ELSE sweep_since END"

/*
 * H-26: the first of two passes has begun, and the changes of accounts after began_after are still to be read, wherever the reading goes
 * on.  The value of passes when the reading goes on after $n.
 */
#define OWED_AFTER(n)	"CASE WHEN passes = 2 AND phase IN ('plan', 'rows', 'markers') AND " n " > began_after THEN 2 END"

/* Run a statement on the row of the subscription. */
static void
change_row(const char *sql, const AtpArg *args, int nargs)
{
	AtpCaller	caller = atp_as_table_owner("history");

	atp_run(sql, args, nargs);
	atp_owner_end(caller);
}

/*
 * The stream's server changes in the first of two passes, or in the second: if the subscription goes back to the former server, its rows are
 * read again from the begin of the cycle on.  Otherwise changes of accounts before the position would never be read.
 */
static void
leave_endpoint(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("history");

	atp_run("UPDATE atproto.cursor c SET seq = h.began_after, last_row = NULL, left_at = NULL, read_from = h.began_after"
			" FROM atproto.history h JOIN atproto.subscription s ON s.name = h.subscription"
			" WHERE h.subscription = $1 AND h.endpoint <> s.endpoint AND s.history = 'archive' AND h.passes = 2"
			" AND c.subscription = h.subscription AND c.endpoint = h.endpoint AND c.seq > h.began_after", ATP_ARGS(atp_text_arg(name)));
	atp_owner_end(caller);
}

void
atp_history_begin(const char *name)
{
	leave_endpoint(name);
	/* the rows up to an existing cursor are not compared with the archive */
	change_row("INSERT INTO atproto.history AS h (subscription, endpoint, settled)"
			   " SELECT name, endpoint, COALESCE((SELECT min(c.seq) FROM atproto.cursor c WHERE c.subscription = name AND c.endpoint = s.endpoint), 0)"
			   " FROM atproto.subscription s WHERE name = $1 AND history = 'archive'"
			   " ON CONFLICT (subscription) DO UPDATE SET endpoint = EXCLUDED.endpoint, phase = 'plan', tip = NULL, passes = NULL,"
			   "  settled = EXCLUDED.settled, seams = '{}', again_until = 0, anchor = NULL, anchor_row = NULL, planned_blocks = NULL, blocks = 0, planned_bytes = NULL, bytes = 0, error = NULL, next_try = NULL,"
			   "  started_at = now(), sweep_since = now(), finished_at = NULL, incomplete = NULL, incomplete_at = NULL WHERE h.endpoint <> EXCLUDED.endpoint", ATP_ARGS(atp_text_arg(name)));
}

bool
atp_history_lock(const char *name, const char *id)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	bool		there = atp_run("SELECT FROM atproto.subscription WHERE name = $1 AND id = $2::uuid FOR KEY SHARE", ATP_ARGS(atp_text_arg(name), atp_text_arg(id))) > 0;

	atp_owner_end(caller);
	return there;
}

bool
atp_history_get(const char *name, AtpHistory *history)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	found = atp_query("SELECT phase, COALESCE(tip, 0) AS tip, COALESCE(passes, 0) AS passes, began_after, settled, again_until, COALESCE(anchor, 0) AS anchor, COALESCE(anchor_row, 0) AS anchor_row, COALESCE(lower(s.seam), 0) AS seam_from, COALESCE(upper(s.seam), 0) AS seam_to"
								  " FROM atproto.history LEFT JOIN LATERAL (SELECT r AS seam FROM unnest(seams) r ORDER BY 1 LIMIT 1) s ON true WHERE subscription = $1",
								  ATP_ARGS(atp_text_arg(name)));

	if (found.n > 0)
	{
		AtpTuple	row = atp_result_row(found, 0);

		history->phase = (AtpHistoryPhase) Max(atp_word_number(phase_words, atp_get_text(row, "phase")), 0);
		history->tip = atp_get_int8(row, "tip");
		history->passes = atp_get_int4(row, "passes");
		history->began_after = atp_get_int8(row, "began_after");
		history->settled = atp_get_int8(row, "settled");
		history->seam_from = atp_get_int8(row, "seam_from");
		history->seam_to = atp_get_int8(row, "seam_to");
		history->again_until = atp_get_int8(row, "again_until");
		history->anchor = atp_get_int8(row, "anchor");
		history->anchor_row = atp_get_int8(row, "anchor_row");
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return found.n > 0;
}

void
atp_history_planned(const char *name, int64 tip, int passes, int64 began_after)
{
	change_row("UPDATE atproto.history SET phase = 'rows', tip = $2, passes = $3, began_after = CASE WHEN passes = 2 THEN LEAST(began_after, $4) ELSE $4 END, markers_after = NULL, planned_blocks = NULL, blocks = 0, planned_bytes = NULL, bytes = 0,"
			   " error = NULL, next_try = NULL WHERE subscription = $1",
			   ATP_ARGS(atp_text_arg(name), atp_int8_arg(tip), atp_int4_arg(passes), atp_int8_arg(began_after)));
}

void
atp_history_note(const char *name, const AtpHistoryCounts *counts, const char *error, TimestampTz next_try)
{
	AtpArg		due = atp_time_arg(next_try);

	due.isnull = error == NULL;
	/* H-61: the server says how many blocks there are, so no sum or product may be out of range */
	change_row("UPDATE atproto.history SET planned_blocks = CASE WHEN $2 > 0 THEN LEAST(COALESCE(planned_blocks, 0), " PLANNED_MAX ") + $2 ELSE planned_blocks END,"
			   " blocks = blocks + $3, bytes = bytes + $4, rows = rows + $5, error = left($6, 2000), next_try = $7,"
			   " planned_bytes = CASE WHEN blocks + $3 > 0 THEN LEAST((bytes + $4)::double precision * GREATEST(planned_blocks::double precision + $2, blocks + $3)"
			   "  / (blocks + $3), " PLANNED_MAX ")::bigint END"
			   " WHERE subscription = $1",
			   ATP_ARGS(atp_text_arg(name), atp_int8_arg(counts->planned_blocks), atp_int8_arg(counts->blocks), atp_int8_arg(counts->bytes),
						atp_int8_arg(counts->rows), atp_text_arg(error), due));
}

void
atp_history_end_cycle(const char *name, int64 position, int64 anchor, int64 anchor_row)
{
	change_row("UPDATE atproto.history SET phase = 'seam', tip = NULL, passes = NULL, cycles = cycles + 1, error = NULL, next_try = NULL,"
			   " settled = GREATEST(settled, $2), anchor = CASE WHEN $3 > 0 THEN $3 ELSE anchor END, anchor_row = CASE WHEN $3 > 0 THEN $4 ELSE anchor_row END"
			   " WHERE subscription = $1", ATP_ARGS(atp_text_arg(name), atp_int8_arg(position), atp_int8_arg(anchor), atp_int8_arg(anchor_row)));
}

void
atp_history_seam(const char *name, int64 from, int64 to, bool audited)
{
	change_row("UPDATE atproto.history SET seams = CASE WHEN $4 THEN seams - int8multirange(int8range($2, $3))"
			   "  WHEN (SELECT count(*) FROM unnest(seams)) >= " SEAMS_MAX " THEN int8multirange(range_merge(seams + int8multirange(int8range($2, $3))))"
			   "  ELSE seams + int8multirange(int8range($2, $3)) END,"
			   " phase = CASE WHEN $4 THEN phase ELSE 'seam' END," SINCE " WHERE subscription = $1",
			   ATP_ARGS(atp_text_arg(name), atp_int8_arg(from), atp_int8_arg(to), atp_bool_arg(audited)));
}

void
atp_history_settle(const char *name, int64 seq)
{
	change_row("UPDATE atproto.history SET settled = GREATEST(settled, $2) WHERE subscription = $1", ATP_ARGS(atp_text_arg(name), atp_int8_arg(seq)));
}

void
atp_history_replan(const char *name)
{
	change_row("UPDATE atproto.history SET phase = 'plan', tip = NULL, passes = NULL," SINCE " WHERE subscription = $1", ATP_ARGS(atp_text_arg(name)));
}

void
atp_history_live(const char *name)
{
	change_row("UPDATE atproto.history SET phase = 'live', error = NULL, next_try = NULL, finished_at = now() WHERE subscription = $1 AND phase = 'seam' AND isempty(seams)",
			   ATP_ARGS(atp_text_arg(name)));
}

void
atp_history_again(const char *name, const char *endpoint, int64 seq, int64 missing)
{
	AtpCaller	caller = atp_as_table_owner("history");

	/* the cursors first, as a batch and set_cursor() do */
	atp_run("SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 ORDER BY shard FOR NO KEY UPDATE",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	atp_run("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason, closed_at, closed_how, events)"
			" SELECT $1, $2, $3, max(seq) + 1, 'archive', now(), 'read again from the archive', NULLIF($4, 0) FROM atproto.cursor"
			" WHERE subscription = $1 AND endpoint = $2 HAVING max(seq) > $3",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(seq), atp_int8_arg(missing)));
	atp_run("UPDATE atproto.history SET phase = 'plan', tip = NULL, passes = " OWED_AFTER("$3") "," SINCE ", settled = LEAST(settled, $3), seam_missing = seam_missing + $4,"
			" seams = seams * int8multirange(int8range(NULL, $3 + 1)),"
			" again_until = GREATEST(again_until, (SELECT max(seq) FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2)) WHERE subscription = $1",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(seq), atp_int8_arg(missing)));
	atp_run("UPDATE atproto.cursor SET seq = $3, last_row = NULL, left_at = NULL, read_from = $3, passed_at = NULL, updated_at = now() WHERE subscription = $1 AND endpoint = $2",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(seq)));
	atp_owner_end(caller);
}

/* Is $2 ahead in the same pass?  Then the pass goes on: after it come further groups of accounts, or the second pass. */
#define AHEAD \
	"phase IN ('rows', 'markers') AND $2 <= tip AND $2 >= (SELECT min(c.seq) FROM atproto.cursor c WHERE c.subscription = h.subscription AND c.endpoint = h.endpoint)"

void
atp_history_cursor_set(const char *name, AtpArg seq)
{
	/* the row may still be of a former server */
	atp_history_begin(name);
	change_row("UPDATE atproto.history h SET phase = CASE WHEN $2 IS NULL THEN 'live' WHEN " AHEAD " THEN phase ELSE 'plan' END,"
			   " tip = CASE WHEN " AHEAD " THEN tip END," " passes = CASE WHEN " AHEAD " THEN passes ELSE " OWED_AFTER("$2") " END," SINCE ","
			   " settled = COALESCE($2, 0), seams = '{}', anchor = NULL, anchor_row = NULL, error = NULL, next_try = NULL, finished_at = NULL, started_at = now(),"
			   " again_until = GREATEST(again_until, (SELECT max(c.seq) FROM atproto.cursor c WHERE c.subscription = h.subscription AND c.endpoint = h.endpoint))"
			   " WHERE subscription = $1", ATP_ARGS(atp_text_arg(name), seq));
}

void
atp_history_filtered(const char *name, const char *filters)
{
	change_row("UPDATE atproto.history SET filtered_here = string_to_array(NULLIF($2, ''), ',')"
			   " WHERE subscription = $1 AND filtered_here IS DISTINCT FROM string_to_array(NULLIF($2, ''), ',')",
			   ATP_ARGS(atp_text_arg(name), atp_text_arg(filters)));
}

static AtpArg
did_arg(const struct varlena *did)
{
	return (AtpArg) {PointerGetDatum(did), atp_type("did"), did == NULL};
}

bool
atp_history_next_pass(const char *name, const char *endpoint, int64 tip, AtpHistoryPhase phase, const struct varlena *did)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	at_tip;
	bool		begins;

	/* the cursors first, as a batch and set_cursor() do */
	atp_run("SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 ORDER BY shard FOR NO KEY UPDATE",
			ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	at_tip = atp_query("SELECT FROM atproto.history h WHERE subscription = $1 AND tip = $3 AND NOT EXISTS"
					   " (SELECT FROM atproto.cursor c WHERE c.subscription = $1 AND c.endpoint = $2 AND c.seq IS DISTINCT FROM $3)",
					   ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint), atp_int8_arg(tip)));
	begins = at_tip.n > 0;
	atp_result_free(at_tip);
	if (begins)
	{
		/* in phase markers, rows are read again */
		atp_run("UPDATE atproto.history SET phase = $2, markers_after = $3, again_until = CASE WHEN $2 = 'markers' THEN GREATEST(again_until, tip) ELSE again_until END"
				" WHERE subscription = $1",
				ATP_ARGS(atp_text_arg(name), atp_text_arg(phase_words[phase]), did_arg(did)));
		atp_run("UPDATE atproto.cursor c SET seq = h.began_after, last_row = NULL, left_at = NULL, read_from = h.began_after, passed_at = NULL, updated_at = now()"
				" FROM atproto.history h WHERE h.subscription = $1 AND c.subscription = $1 AND c.endpoint = $2",
				ATP_ARGS(atp_text_arg(name), atp_text_arg(endpoint)));
	}
	atp_owner_end(caller);
	return begins;
}

struct varlena *
atp_history_read_up_to(const char *name)
{
	MemoryContext cxt = CurrentMemoryContext;
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	found = atp_query("SELECT markers_after FROM atproto.history WHERE subscription = $1", ATP_ARGS(atp_text_arg(name)));
	struct varlena *did = NULL;

	if (found.n > 0)
	{
		AtpArg		after = atp_get_arg(atp_result_row(found, 0), "markers_after", atp_type("did"));
		MemoryContext old = MemoryContextSwitchTo(cxt);

		if (!after.isnull)
			did = (struct varlena *) PG_DETOAST_DATUM_COPY(after.value);
		MemoryContextSwitchTo(old);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return did;
}

int
atp_history_accounts(const char *target, const struct varlena *after, struct varlena **dids, int max)
{
	MemoryContext cxt = CurrentMemoryContext;
	AtpResult	found = atp_query(atp_expand_sql("SELECT did FROM #.repo WHERE $1 IS NULL OR did OPERATOR(@.>) $1 ORDER BY did USING OPERATOR(@.<) LIMIT $2", target),
								  ATP_ARGS(did_arg(after), atp_int4_arg(max)));
	int			n = (int) found.n;

	for (int i = 0; i < n; i++)
	{
		AtpArg		did = atp_get_arg(atp_result_row(found, i), "did", atp_type("did"));
		MemoryContext old = MemoryContextSwitchTo(cxt);

		dids[i] = (struct varlena *) PG_DETOAST_DATUM_COPY(did.value);
		MemoryContextSwitchTo(old);
	}
	atp_result_free(found);
	return n;
}
