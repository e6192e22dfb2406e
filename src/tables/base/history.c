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

static const char *const phase_words[] = {"plan", "rows", "markers", "seam", "live", NULL};

/* Run a statement on the row of the subscription. */
static void
change_row(const char *sql, const AtpArg *args, int nargs)
{
	AtpCaller	caller = atp_as_table_owner("history");

	atp_run(sql, args, nargs);
	atp_owner_end(caller);
}

void
atp_history_begin(const char *name)
{
	change_row("INSERT INTO atproto.history AS h (subscription, endpoint)"
			   " SELECT name, endpoint FROM atproto.subscription WHERE name = $1 AND history = 'archive'"
			   " ON CONFLICT (subscription) DO UPDATE SET endpoint = EXCLUDED.endpoint, phase = 'plan', tip = NULL, passes = NULL,"
			   "  floor = NULL, planned_blocks = NULL, blocks = 0, planned_bytes = NULL, bytes = 0, error = NULL, next_try = NULL,"
			   "  started_at = now(), finished_at = NULL WHERE h.endpoint <> EXCLUDED.endpoint", ATP_ARGS(atp_text_arg(name)));
}

bool
atp_history_get(const char *name, AtpHistory *history)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	found = atp_query("SELECT phase, COALESCE(tip, 0) AS tip, cycles FROM atproto.history WHERE subscription = $1",
								  ATP_ARGS(atp_text_arg(name)));

	if (found.n > 0)
	{
		AtpTuple	row = atp_result_row(found, 0);

		history->phase = (AtpHistoryPhase) Max(atp_word_number(phase_words, atp_get_text(row, "phase")), 0);
		history->tip = atp_get_int8(row, "tip");
		history->cycles = atp_get_int4(row, "cycles");
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return found.n > 0;
}

void
atp_history_planned(const char *name, int64 tip)
{
	change_row("UPDATE atproto.history SET phase = 'rows', tip = $2, passes = 1, planned_blocks = NULL, blocks = 0, planned_bytes = NULL, bytes = 0,"
			   " error = NULL, next_try = NULL WHERE subscription = $1", ATP_ARGS(atp_text_arg(name), atp_int8_arg(tip)));
}

void
atp_history_note(const char *name, const AtpHistoryCounts *counts, const char *error, TimestampTz next_try)
{
	AtpArg		due = atp_time_arg(next_try);

	due.isnull = error == NULL;
	change_row("UPDATE atproto.history SET planned_blocks = CASE WHEN $2 > 0 THEN COALESCE(planned_blocks, 0) + $2 ELSE planned_blocks END,"
			   " blocks = blocks + $3, bytes = bytes + $4, rows = rows + $5, error = left($6, 2000), next_try = $7,"
			   " planned_bytes = CASE WHEN blocks + $3 > 0 THEN (bytes + $4) * GREATEST(planned_blocks + $2, blocks + $3) / (blocks + $3) END"
			   " WHERE subscription = $1",
			   ATP_ARGS(atp_text_arg(name), atp_int8_arg(counts->planned_blocks), atp_int8_arg(counts->blocks), atp_int8_arg(counts->bytes),
						atp_int8_arg(counts->rows), atp_text_arg(error), due));
}

void
atp_history_end_cycle(const char *name)
{
	change_row("UPDATE atproto.history SET phase = 'live', tip = NULL, passes = NULL, cycles = cycles + 1, error = NULL, next_try = NULL,"
			   " finished_at = now() WHERE subscription = $1", ATP_ARGS(atp_text_arg(name)));
}
