/*
 * sweep_passed.c
 *		The time that a stream has passed: see sweep_passed.h.
 *
 * A sweep ends when the other streams of the target have passed the time at which the archive was read (H-43).  The time in a commit is
 * chosen by the account's server, and a single forged time must not end a sweep.  So the time is the median of the last commits of
 * many accounts.  It is never later than this machine's time of day, and what is written never goes back.
 */
#include "postgres.h"

#include "common/clock.h"
#include "tables/apply/sweep_passed.h"
#include "types/foreign_time.h"
#include "utils/timestamp.h"

/* The number of accounts with a time ... */
#define ACCOUNTS	31

/* ... unless the stream has had fewer accounts for so long. */
#define FEW_MS		(60 * 60 * 1000)

typedef struct Last
{
	uint32		key;			/* of the account's events */
	int64		time;
} Last;

static Last lasts[ACCOUNTS];
static int	nlasts;
static int	oldest;				/* index of the account that is replaced next */
static bool begun;
static AtpTime began;
static TimestampTz written = DT_NOBEGIN;

static void
note_time(uint32 key, int64 time)
{
	for (int i = 0; i < nlasts; i++)
		if (lasts[i].key == key)
		{
			lasts[i].time = time;
			return;
		}
	if (nlasts < ACCOUNTS)
		lasts[nlasts++] = (Last) {key, time};
	else
	{
		lasts[oldest] = (Last) {key, time};
		oldest = (oldest + 1) % ACCOUNTS;
	}
}

static int
compare_times(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

static int64
find_median(void)
{
	int64		times[ACCOUNTS];

	for (int i = 0; i < nlasts; i++)
		times[i] = lasts[i].time;
	qsort(times, nlasts, sizeof(int64), compare_times);
	return times[(nlasts - 1) / 2];
}

bool
atp_sweep_passed(const AtpApply *a, TimestampTz *passed_at)
{
	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (!event->ignored && !event->archived && event->held == NULL && event->kind == ATP_REPOS_COMMIT && event->time > 0)
			note_time(event->key, event->time);
	}
	if (!begun && nlasts > 0)
	{
		begun = true;
		began = atp_now();
	}
	if (nlasts == 0 || (nlasts < ACCOUNTS && atp_remaining(atp_now(), began, FEW_MS) > 0))
		return false;
	*passed_at = Min(atp_foreign_time(find_median()), atp_time_of_day());
	if (written != DT_NOBEGIN && *passed_at < written + USECS_PER_SEC)
		return false;
	written = *passed_at;
	return true;
}
