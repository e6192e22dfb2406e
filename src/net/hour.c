/*
 * hour.c
 *		Requests and bytes of a database within an hour: see hour.h.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/shared.h"
#include "miscadmin.h"
#include "net/hour.h"
#include "storage/shmem.h"
#include "utils/guc.h"

#define MINUTES			60
#define DATABASES		64		/* with counts of their own; further databases share the counts of the last entry */
#define KEPT_SHARE		10		/* a tenth of a bound, and at least one request, is kept for look-ups */
#define MB				(INT64CONST(1024) * 1024)

static int	requests_max;
static int	download_max_mb;

/* The counts of a minute. */
typedef struct Minute
{
	int64		number;			/* minutes of the monotonic clock */
	int64		requests;
	int64		bytes;
} Minute;

/* The counts of a database: a minute is replaced by the minute an hour later. */
typedef struct Hour
{
	Oid			database;		/* InvalidOid: free */
	Minute		minutes[MINUTES];
} Hour;

static Hour *hours = NULL;		/* shared; NULL when not preloaded */
static Hour own_hour;			/* in place of shared memory */
static int64 unwritten = 0;		/* bytes */
static char fault[200];

static Size
hours_size(void)
{
	return mul_size(DATABASES, sizeof(Hour));
}

void
atp_hour_init(void)
{
	DefineCustomIntVariable("atproto.max_requests_hour",
							"Number of requests that a database sends to other hosts within an hour at most.",
							"Of the fetcher, and of consumers that read archives. Zero: no limit. Experimental.", &requests_max, 0, 0, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.max_download_hour",
							"Bytes of answers to these requests within an hour, after which no further request begins.",
							"Zero: no limit. Experimental.", &download_max_mb, 0, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	atp_shared_part(hours_size, (void **) &hours);
}

static int64
this_minute(void)
{
	return atp_now() / (60 * INT64CONST(1000000));
}

static bool
is_of_this_hour(const Minute *minute, int64 now)
{
	return minute->number > now - MINUTES;
}

/* Nothing was counted within an hour, so the entry may serve another database. */
static bool
is_unused(const Hour *hour, int64 now)
{
	for (int i = 0; i < MINUTES; i++)
		if (is_of_this_hour(&hour->minutes[i], now) && (hour->minutes[i].requests > 0 || hour->minutes[i].bytes > 0))
			return false;
	return true;
}

/* The entry of the current database, made if missing.  The caller holds the lock. */
static Hour *
find_hour(int64 now)
{
	Hour	   *other = NULL;

	if (hours == NULL)
		return &own_hour;
	for (int i = 0; i < DATABASES; i++)
	{
		if (hours[i].database == MyDatabaseId)
			return &hours[i];
		if (other == NULL && (!OidIsValid(hours[i].database) || is_unused(&hours[i], now)))
			other = &hours[i];
	}
	if (other == NULL)
		return &hours[DATABASES - 1];
	memset(other, 0, sizeof(Hour));
	other->database = MyDatabaseId;
	return other;
}

static void
add_counts(int64 requests, int64 bytes)
{
	int64		now = this_minute();
	Minute	   *minute;

	atp_shared_lock(LW_EXCLUSIVE);
	minute = &find_hour(now)->minutes[now % MINUTES];
	if (minute->number != now)
		*minute = (Minute) {.number = now};
	minute->requests += requests;
	minute->bytes += bytes;
	atp_shared_unlock();
}

void
atp_hour_request(void)
{
	add_counts(1, 0);
}

void
atp_hour_bytes(int64 n)
{
	unwritten += n;
}

void
atp_hour_write(void)
{
	if (unwritten > 0)
		add_counts(0, unwritten);
	unwritten = 0;
}

AtpHourUse
atp_hour_use(void)
{
	AtpHourUse	use = {.requests_max = requests_max, .bytes_max = download_max_mb * MB};
	int64		now = this_minute();
	const Hour *hour;

	atp_shared_lock(LW_EXCLUSIVE);
	hour = find_hour(now);
	for (int i = 0; i < MINUTES; i++)
		if (is_of_this_hour(&hour->minutes[i], now))
		{
			use.requests += hour->minutes[i].requests;
			use.bytes += hour->minutes[i].bytes;
		}
	atp_shared_unlock();
	return use;
}

/*
 * What a request of this kind may find used.  A bound of a single request has no part to keep: otherwise no export would ever
 * begin.
 */
static int64
part_of(int64 bound, bool bulk)
{
	return bulk && bound > 1 ? bound - Max(bound / KEPT_SHARE, 1) : bound;
}

const char *
atp_hour_fault(bool bulk)
{
	AtpHourUse	use;

	if (requests_max == 0 && download_max_mb == 0)
		return NULL;
	use = atp_hour_use();
	if (use.requests_max > 0 && use.requests >= part_of(use.requests_max, bulk))
	{
		snprintf(fault, sizeof(fault), INT64_FORMAT " requests were sent within an hour: \"%s\" allows %d", use.requests,
				 "atproto.max_requests_hour", requests_max);
		return fault;
	}
	if (use.bytes_max > 0 && use.bytes >= part_of(use.bytes_max, bulk))
	{
		snprintf(fault, sizeof(fault), INT64_FORMAT " MB have come within an hour: \"%s\" allows %d MB", use.bytes / MB,
				 "atproto.max_download_hour", download_max_mb);
		return fault;
	}
	return NULL;
}
