/*
 * dictionary.c
 *		The fetcher's task that fetches zstd dictionaries of streams' servers into table
 *		zstd_dictionary, a single dictionary at a time.  Until the dictionary is stored, the stream
 *		runs without compression, so there is no hurry.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "net/unzstd.h"
#include "types/types.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define LOOK_MS			10000
#define REDIRECTS_MAX	3

/* only for subscriptions that run: a stopped subscription needs no dictionary */
#define LACKING \
	" FROM atproto.zstd_dictionary d WHERE dictionary IS NULL AND url IS NOT NULL" \
	" AND EXISTS (SELECT FROM atproto.subscription s WHERE s.name = d.subscription AND s.endpoint = d.endpoint AND s.enabled AND s.stopped IS NULL)"

static AtpHttp *running;
static char *running_url;
static char *running_for;		/* name of the subscription */
static AtpTime looked;
static const char owner;		/* its address identifies our requests */

static bool
dictionaries_wanted(void)
{
	return atp_run("SELECT" LACKING " AND due_at <= $1 LIMIT 1", ATP_ARGS(atp_time_arg(atp_time_of_day()))) > 0;
}

static void
free_request(void)
{
	running = NULL;
	pfree(running_url);
	pfree(running_for);
}

/*
 * Start the request for a dictionary that is due.  Returns milliseconds until the next look; -1: a
 * request was started, or no dictionary is due.
 */
static long
start_request(void)
{
	AtpResult	due;
	long		wait_ms = -1;

	atp_begin("looking for dictionaries");
	due = atp_query("SELECT url, subscription" LACKING " AND due_at <= $1 ORDER BY due_at LIMIT 1", ATP_ARGS(atp_time_arg(atp_time_of_day())));
	if (due.n > 0)
	{
		running_url = MemoryContextStrdup(TopMemoryContext, atp_get_text(atp_result_row(due, 0), "url"));
		running_for = MemoryContextStrdup(TopMemoryContext, atp_get_text(atp_result_row(due, 0), "subscription"));
		running = atp_fetch_start(&(AtpHttpRequest) {
								  .owner = &owner, .url = running_url, .redirects = REDIRECTS_MAX, .body_max = ATP_ZSTD_DICTIONARY_MAX
								  }, NULL, &wait_ms);
		if (running == NULL)
		{
			free_request();
			wait_ms = wait_ms < 0 ? LOOK_MS : Min(wait_ms, LOOK_MS);
		}
	}
	atp_result_free(due);
	atp_commit();
	return wait_ms;
}

static void
write_answer(const AtpHttpAnswer *answer)
{
	const char *error = answer->error;
	AtpArg		bytes = {.type = BYTEAOID, .isnull = true};

	if (error == NULL && !atp_zstd_is_dictionary((const uint8_t *) answer->body, answer->body_len))
		error = psprintf("%s: no zstd dictionary", running_url);
	if (error == NULL)
		bytes = (AtpArg) {PointerGetDatum(atp_varlena((const uint8_t *) answer->body, answer->body_len)), BYTEAOID, false};
	atp_run("UPDATE atproto.zstd_dictionary SET dictionary = $2, error = left($3, 250), changed_at = $4,"
			" failures = CASE WHEN $2 IS NULL THEN least(failures + 1, 20) ELSE failures END,"
			" due_at = $4 + least(interval '1 minute' * 2 ^ failures, interval '1 day')"
			" WHERE subscription = $1 AND url = $5 AND dictionary IS NULL",
			ATP_ARGS(atp_text_arg(running_for), bytes, atp_text_arg(error), atp_time_arg(atp_time_of_day()), atp_text_arg(running_url)));
	if (error != NULL)
		return;
	/* consumers read their subscription again after an invalidation, and so see the dictionary */
	CacheInvalidateRelcacheByRelid(atp_relation("subscription"));
	atp_wake_at_commit();
}

static void
write_ended(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&owner)) != NULL)
	{
		atp_begin("writing a dictionary");
		if (atp_extension_lock() == ATP_EXTENSION_READY)
			write_answer(atp_http_answer(http));
		atp_commit();
		atp_fetch_free(http);
		free_request();
	}
}

static long
step_dictionaries(AtpTime now)
{
	long		left;

	write_ended();
	if (running != NULL)
		return -1;
	left = looked == 0 ? 0 : atp_remaining(now, looked, LOOK_MS);
	if (left > 0)
		return left;
	looked = now;
	left = start_request();
	return running != NULL || left >= 0 ? left : LOOK_MS;
}

const AtpTask atp_dictionary_task = {"dictionary", dictionaries_wanted, NULL, step_dictionaries, .kinds = 1};
