/*
 * history_sql.c
 *		SQL: CALL atproto.await_history(), which waits until an archive is read, and atproto.history_again(), which has
 *		an archive read again.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/compat.h"
#include "common/quotable.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "executor/spi.h"
#include "fetch/engine/waiting.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "process/manager/control.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_await_history);
PG_FUNCTION_INFO_V1(atp_history_again_sql);

#define NOTICE_MS	5000		/* between two notices */
#define PAUSE_MS	200

typedef struct Reading
{
	bool		known;
	char	   *phase;			/* NULL: no archive is read */
	int64		position;
	int64		tip;
	char	   *hindrance;		/* why nothing is read now; NULL: nothing hinders */
	bool		ended;			/* ... and nothing will be, before somebody acts */
} Reading;

/* As await_backfill(): only subscriptions whose owner's rights the caller has. */
static Reading
read_state(const char *name, Oid role)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	found = atp_query("SELECT h.phase, COALESCE((SELECT min(c.seq) FROM atproto.cursor c WHERE c.subscription = s.name AND c.endpoint = s.endpoint), 0) AS position,"
								  " COALESCE(h.tip, 0) AS tip, s.stopped IS NOT NULL OR NOT s.enabled AS ended,"
								  " COALESCE(s.stopped, CASE WHEN NOT s.enabled THEN 'the subscription is paused' END, h.error) AS hindrance"
								  " FROM atproto.subscription s LEFT JOIN atproto.history h ON h.subscription = s.name AND s.history = 'archive'"
								  " WHERE s.name = $1 AND pg_has_role($2, s.owner::oid, 'USAGE')",
								  ATP_ARGS(atp_text_arg(name), (AtpArg) {ObjectIdGetDatum(role), OIDOID, false}));
	Reading		r = {.known = found.n > 0};

	if (r.known)
	{
		AtpTuple	row = atp_result_row(found, 0);

		r.phase = atp_get_text_or_null(row, "phase");
		r.position = atp_get_int8(row, "position");
		r.tip = atp_get_int8(row, "tip");
		r.ended = atp_get_bool(row, "ended");
		r.hindrance = atp_get_text_or_null(row, "hindrance");
	}
	atp_owner_end(caller);
	return r;
}

static void
tell_reading(const char *name, const Reading *r)
{
	ereport(NOTICE,
			(errmsg("subscription \"%s\" has read the archive up to " INT64_FORMAT "%s", name, r->position,
					r->tip > 0 ? psprintf(" of " INT64_FORMAT, r->tip) : ""),
			 r->hindrance != NULL ? errdetail("It waits: %s.", r->hindrance) : 0));
}

/* SQL: CALL atproto.await_history(name, timeout) */
Datum
atp_await_history(PG_FUNCTION_ARGS)
{
	AtpTime		begin = atp_now();
	AtpTime		told = begin;
	int			timeout_ms = PG_ARGISNULL(1) ? -1 : atp_interval_ms(PG_GETARG_INTERVAL_P(1));
	Oid			role = GetUserId();
	const char *name;
	MemoryContext cxt;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("name");
	atp_waiting_begin(fcinfo, "atproto.await_history", "It ends transactions, so that it sees what others do.");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto await history", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		Reading		r;

		MemoryContextReset(cxt);
		MemoryContextSwitchTo(cxt);
		r = read_state(name, role);
		if (!r.known || r.phase == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("subscription \"%s\" does not exist, or reads no archive", atp_quotable(name)),
					 errhint("The view \"%s\" has those that do.", "atproto.history_progress")));
		if (strcmp(r.phase, "seam") == 0 || strcmp(r.phase, "live") == 0)
			break;
		if (r.ended || (timeout_ms >= 0 && atp_remaining(atp_now(), begin, timeout_ms) == 0))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the archive of subscription \"%s\" is not read to its end", name),
					 r.hindrance != NULL ? errdetail("It waits: %s.", r.hindrance) : errdetail("It is at " INT64_FORMAT ".", r.position),
					 errhint("The view \"%s\" shows how far it is.", "atproto.history_progress")));
		if (atp_remaining(atp_now(), told, NOTICE_MS) == 0)
		{
			tell_reading(name, &r);
			told = atp_now();
		}
		atp_waiting_pause(PAUSE_MS);
	}
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.history_again(name, after): H-42 */
Datum
atp_history_again_sql(PG_FUNCTION_ARGS)
{
	AtpSubscription *sub;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("name");
	if (PG_ARGISNULL(1))
		atp_argument_is_null("after");
	SPI_connect();
	sub = atp_subscription_get(text_to_cstring(PG_GETARG_TEXT_PP(0)), CurrentMemoryContext);
	if (sub != NULL && !sub->has_archive)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" reads no archive", sub->name),
				 errhint("UPDATE atproto.subscription SET history = 'archive' WHERE name = %s.", quote_literal_cstr(sub->name))));
	SPI_finish();
	return atp_set_cursor(fcinfo);
}
