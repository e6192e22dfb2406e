/*
 * retry.c
 *		After a connection has ended: whether to reconnect, and how long to wait before.
 */
#include "postgres.h"

#include <curl/curl.h>
#include <time.h>

#include "common/clock.h"
#include "common/pg_prng.h"
#include "net/retry.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define RETRY_AFTER_MAX_S	(24 * 3600) /* upper limit of a server's Retry-After */
#define REFUSED_DELAY_MS	(10 * 60 * 1000)	/* after a status that will hardly change soon, such as 404 */

int			atp_reconnect_delay_ms;
int			atp_reconnect_max_delay_ms;

void
atp_retry_init(void)
{
	DefineCustomIntVariable("atproto.reconnect_delay",
							"Upper limit of the first random delay before a reconnection; doubled with each failure.",
							NULL, &atp_reconnect_delay_ms, 1000, 1, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.reconnect_max_delay",
							"Upper limit of the delay before a reconnection.",
							NULL, &atp_reconnect_max_delay_ms, 64000, 1, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

int
atp_retry_delay(int failures)
{
	double		limit = atp_reconnect_delay_ms;

	for (int i = 0; i < failures && limit < atp_reconnect_max_delay_ms; i++)
		limit *= 2;
	return (int) (pg_prng_double(&pg_global_prng_state) * Min(limit, atp_reconnect_max_delay_ms));
}

/* Seconds until an HTTP date in Retry-After; 0 when the date is past or invalid. */
static uint32
seconds_until(AtpSpan date)
{
	char	   *text = pnstrdup(date.ptr, date.len);
	time_t		then = curl_getdate(text, NULL);
	time_t		now = timestamptz_to_time_t(atp_time_of_day());

	return then > now ? (uint32) Min(then - now, RETRY_AFTER_MAX_S) : 0;
}

int
atp_http_delay(const AtpHttpHead *answer)
{
	AtpSpan		retry_after = atp_http_header(answer, "retry-after");
	uint32		seconds = 0;

	switch (answer->status)
	{
		case 405:
		case 426:
		case 501:
			return -1;
		case 429:
		case 500:
		case 502:
		case 503:
		case 504:
			if (retry_after.ptr != NULL && !atp_retry_after_seconds(retry_after, &seconds))
				seconds = seconds_until(retry_after);
			return Min(seconds, RETRY_AFTER_MAX_S) * 1000;
		default:
			return REFUSED_DELAY_MS;
	}
}
