/*
 * sweep_end.c
 *		How a sweep ends, and how many deletions are kept until then: see sweep_end.h.
 *
 * If deletions are dropped before the end, atproto.history.incomplete says why, and since when, records that a relay has deleted may
 * have come back.
 */
#include "postgres.h"

#include <limits.h>

#include "common/clock.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "identity/identity.h"
#include "storage/lmgr.h"
#include "tables/apply/sweep_end.h"
#include "tables/base/sweep.h"
#include "tables/records/sweep_deletion.h"
#include "tables/repos/repo.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* How often a process counts the kept deletions. */
#define BOUND_MS	(5 * 60 * 1000)

/* Beyond the limit, an account may have the limit divided by this. */
#define SHARE		20

/* How long the end waits for events in atproto.held_event, after the streams have passed. */
#define HELD_MS		(60 * 60 * 1000)

/* The end that this process waits for. */
static struct
{
	char		id[64];			/* of the subscription; empty: none */
	TimestampTz since;			/* the time that all streams of the target have to pass */
	bool		passed;			/* the streams have passed that time */
	AtpTime		passed_at;		/* when this process saw that the streams had passed the time */
}			awaited;

static int	sweep_max_deletions;
static int	sweep_max_age_s;

void
atp_sweep_init(void)
{
	DefineCustomIntVariable("atproto.sweep_max_deletions",
							"Number of deletions that are kept in a target while an archive is read.",
							"Above it those of accounts with more than a twentieth are dropped, then all, and \"atproto.history.incomplete\" says so. Experimental.",
							&sweep_max_deletions, 10000000, 0, INT_MAX, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.sweep_max_age",
							"How long deletions are kept while an archive is read, and how long the end waits for other subscriptions.",
							"Experimental.", &sweep_max_age_s, 14 * 24 * 3600, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/* Note in the rows of all sweeps of the target (name NULL), or of one subscription, that the tables may lack deletions; the first reason stays. */
static void
note_incomplete(const char *target, const char *name, const char *why)
{
	AtpCaller	caller = atp_as_table_owner("history");

	if (atp_run("UPDATE atproto.history h SET incomplete = $3, incomplete_at = now() FROM atproto.subscription s"
				" WHERE s.name = h.subscription AND s.target = $1::name AND h.phase <> 'live' AND ($2 IS NULL OR s.name = $2)"
				" AND h.incomplete IS NULL", ATP_ARGS(atp_text_arg(target), atp_text_arg(name), atp_text_arg(why))) > 0)
		ereport(LOG,
				(errmsg("atproto: kept deletions of schema \"%s\" were dropped: %s", target, why),
				 errdetail("Records that another subscription of the schema has deleted may come back."),
				 errhint("SELECT atproto.resync_all() compares the repositories with their servers.")));
	atp_owner_end(caller);
}

/* When the sweep of the subscription began. */
static TimestampTz
began_at(const AtpSubscription *sub)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	rows = atp_query("SELECT sweep_since FROM atproto.history WHERE subscription = $1", ATP_ARGS(atp_text_arg(sub->name)));
	bool		isnull;
	TimestampTz began = rows.n == 0 ? DT_NOEND : DatumGetTimestampTz(atp_get(atp_result_row(rows, 0), "sweep_since", TIMESTAMPTZOID, &isnull));

	atp_result_free(rows);
	atp_owner_end(caller);
	return began;
}

/* Have the streams passed the awaited time; held: and is no event of that time in atproto.held_event? */
static bool
is_passed(const AtpSubscription *sub, bool held, char **behind)
{
	TimestampTz passed = atp_sweep_passed_at(sub->target, sub->name, held, behind);

	return passed == DT_NOEND || (passed != DT_NOBEGIN && passed > awaited.since + ATP_SWEEP_LATE_US);
}

/* An event that waits may bring a record that the archive has deleted: mark the repositories of such events. */
static void
mark_waiting(const AtpSubscription *sub, AtpStatements *set)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};
	AtpCaller	caller = atp_as_table_owner("held_event");
	AtpResult	found = atp_query(atp_identity_sql("SELECT DISTINCT did FROM atproto.held_event WHERE target = $1::name AND kind = 'repo' AND @.tid_timestamp(rev) <= $2 ORDER BY did"),
								  ATP_ARGS(atp_text_arg(sub->target), atp_time_arg(awaited.since + ATP_SWEEP_LATE_US)));
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));
	int			n = (int) found.n;

	for (int i = 0; i < n; i++)
		dids[i] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
	atp_result_free(found);
	atp_owner_end(caller);
	atp_repo_mark_all(&a, dids, n);
	ereport(LOG,
			(errmsg("atproto: a sweep of schema \"%s\" ends, although events of %d accounts wait", sub->target, n),
			 errdetail("These repositories are marked as desynchronized, since the events may bring records that the archive has deleted.")));
}

static bool
has_ended(const AtpSubscription *sub, AtpStatements *set, char **behind)
{
	if (!is_passed(sub, false, behind))
		return false;
	if (!awaited.passed)
		awaited.passed_at = atp_now();
	awaited.passed = true;
	if (is_passed(sub, true, behind))
		return true;
	if (atp_remaining(atp_now(), awaited.passed_at, HELD_MS) > 0)
		return false;
	mark_waiting(sub, set);
	return true;
}

bool
atp_sweep_may_end(const AtpSubscription *sub, AtpStatements *set, char **waits_for)
{
	MemoryContext cxt = CurrentMemoryContext;
	char	   *behind = NULL;
	bool		ends = false;

	*waits_for = NULL;
	atp_begin("looking for the end of a sweep");
	if (strcmp(awaited.id, sub->id) != 0)
	{
		strlcpy(awaited.id, sub->id, sizeof(awaited.id));
		awaited.since = atp_time_of_day();
		awaited.passed = false;
	}
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		ends = has_ended(sub, set, &behind);
		if (!ends && atp_time_of_day() - (int64) sweep_max_age_s * USECS_PER_SEC > began_at(sub))
		{
			note_incomplete(sub->target, sub->name, "behind");
			ends = true;
		}
		if (!ends && behind != NULL)
			*waits_for = MemoryContextStrdup(cxt, behind);
	}
	atp_commit();
	if (ends)
		awaited.id[0] = '\0';
	return ends;
}

/*
 * A transaction that has seen the sweep may be about to keep a deletion, which no process would ever remove: wait until all
 * transactions of writers have ended.  Later transactions see that the sweep has ended.
 */
void
atp_sweep_tidy(const AtpSubscription *sub, AtpStatements *set)
{
	bool		there = false;

	atp_begin("looking for kept deletions");
	if (atp_extension_lock() == ATP_EXTENSION_READY && OidIsValid(atp_target_table(set, "sweep_deletion")))
		there = atp_sweep_read(sub->target) == ATP_SWEEP_NONE && atp_sweep_count(set, 1) > 0;
	atp_commit();
	if (!there)
		return;
	atp_begin("emptying the kept deletions");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		/* an open transaction of a user may last, and the lock alone would stop the streams meanwhile */
		atp_sweep_await_writers(atp_target_table(set, "repo"));
		LockRelationOid(atp_target_table(set, "repo"), ShareLock);
		/* a sweep that has begun meanwhile needs its kept deletions */
		if (atp_sweep_read(sub->target) == ATP_SWEEP_NONE)
			(void) atp_sweep_empty(set, DT_NOEND);
	}
	atp_commit();
}

/*
 * Drop the kept deletions of the accounts that have more than their share, and mark the repositories: otherwise one account, which
 * may delete records that never were, would have the kept deletions of all accounts dropped.
 */
static void
drop_large(const AtpSubscription *sub, AtpStatements *set)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};
	struct varlena *dids[SHARE];
	uint64		dropped = 0;
	int			n = atp_sweep_large(set, Max(sweep_max_deletions / SHARE, 1), dids, SHARE);

	atp_repo_mark_all(&a, dids, n);
	for (int i = 0; i < n; i++)
		dropped += atp_sweep_drop(set, dids[i]);
	if (n > 0)
		ereport(LOG,
				(errmsg("atproto: kept deletions of accounts of schema \"%s\" were dropped: " UINT64_FORMAT ", of %d accounts", sub->target, dropped, n),
				 errdetail("These repositories are marked as desynchronized, since deleted records may come back.")));
}

void
atp_sweep_bound(const AtpSubscription *sub, AtpStatements *set)
{
	static bool counted = false;
	static AtpTime last;

	if (counted && atp_remaining(atp_now(), last, BOUND_MS) > 0)
		return;
	counted = true;
	last = atp_now();
	atp_begin("counting the kept deletions");
	if (atp_extension_lock() == ATP_EXTENSION_READY && OidIsValid(atp_target_table(set, "sweep_deletion")))
	{
		if (atp_sweep_empty(set, GetCurrentTransactionStartTimestamp() - (int64) sweep_max_age_s * USECS_PER_SEC) > 0)
			note_incomplete(sub->target, NULL, "age");
		if (atp_sweep_count(set, (int64) sweep_max_deletions + 1) > sweep_max_deletions)
			drop_large(sub, set);
		if (atp_sweep_count(set, (int64) sweep_max_deletions + 1) > sweep_max_deletions)
		{
			(void) atp_sweep_empty(set, DT_NOEND);
			note_incomplete(sub->target, NULL, "number");
		}
	}
	atp_commit();
}
