/*
 * sweep.c
 *		Whether a sweep runs for a target, and which time its streams have passed: see sweep.h.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "config/watch.h"
#include "core/syntax/tid.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "commands/trigger.h"
#include "storage/lmgr.h"
#include "tables/base/sweep.h"
#include "types/foreign_time.h"
#include "utils/inval.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_history_changed);

/* The number of targets whose answers are kept; a fetcher fills many targets, and replaces the oldest answer. */
#define TARGETS_MAX	8

/* atp_sweep_is_passed() reads the time again after so long. */
#define PASSED_MS	1000

typedef struct Answer
{
	char		target[NAMEDATALEN];
	uint32		changes;		/* when the answer was read; 0: no answer */
	AtpSweep	sweep;
} Answer;

static Answer answers[TARGETS_MAX];
static int	next;

/* A number that differs after each change of atproto.subscription, or of a phase (atp_history_changed()). */
static uint32 changes = 1;
static Oid	subscription_relid = InvalidOid;
static Oid	history_relid = InvalidOid;

static void
forget_answers(Oid relid)
{
	if (!OidIsValid(relid) || relid == subscription_relid || relid == history_relid)
		changes++;
}

/* Rows of atproto.history that stand for a running sweep, as h, with their subscriptions, as s. */
#define RUNNING	"atproto.history h JOIN atproto.subscription s ON s.name = h.subscription" \
	" WHERE s.history = 'archive' AND h.phase <> 'live' AND s.target = $1::name"

AtpSweep
atp_sweep_read(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	rows = atp_query("SELECT EXISTS (SELECT FROM " RUNNING ") AS runs,"
								 " (SELECT count(*) FROM atproto.subscription WHERE target = $1::name AND by_repo) > 1 AS shared",
								 ATP_ARGS(atp_text_arg(target)));
	AtpTuple	row = atp_result_row(rows, 0);
	AtpSweep	sweep = !atp_get_bool(row, "runs") ? ATP_SWEEP_NONE : atp_get_bool(row, "shared") ? ATP_SWEEP_SHARED : ATP_SWEEP_ALONE;

	atp_result_free(rows);
	atp_owner_end(caller);
	return sweep;
}

bool
atp_sweep_is_shared(const char *target)
{
	Oid			repo = atp_target_relid(target, "repo");

	if (OidIsValid(repo))
		LockRelationOid(repo, RowExclusiveLock);
	return atp_sweep_read(target) == ATP_SWEEP_SHARED;
}

static Answer *
find_answer(const char *target)
{
	for (int i = 0; i < TARGETS_MAX; i++)
		if (answers[i].changes != 0 && strcmp(answers[i].target, target) == 0)
			return &answers[i];
	return NULL;
}

AtpSweep
atp_sweep_of(const char *target)
{
	Answer	   *answer = find_answer(target);
	uint32		before;

	if (answer != NULL && answer->changes == changes)
		return answer->sweep;
	atp_watch_relations(forget_answers);
	subscription_relid = atp_relation("subscription");
	history_relid = atp_relation("history");
	/* a change during the query makes the answer old */
	before = changes;
	if (answer == NULL)
	{
		answer = &answers[next];
		next = (next + 1) % TARGETS_MAX;
	}
	answer->changes = 0;
	answer->sweep = atp_sweep_read(target);
	strlcpy(answer->target, target, NAMEDATALEN);
	answer->changes = before;
	return answer->sweep;
}

AtpSweep
atp_sweep_known(const char *target)
{
	const Answer *answer = find_answer(target);

	return answer == NULL ? ATP_SWEEP_NONE : answer->sweep;
}

bool
atp_sweep_is_of(const char *subscription)
{
	static char last[NAMEDATALEN];
	static uint32 answered = 0;
	static bool answer;
	uint32		before = changes;
	AtpCaller	caller;

	if (answered == changes && strcmp(last, subscription) == 0)
		return answer;
	answered = 0;
	caller = atp_as_table_owner("history");
	answer = atp_run("SELECT FROM atproto.history h JOIN atproto.subscription s ON s.name = h.subscription"
					 " WHERE h.subscription = $1 AND s.history = 'archive' AND h.phase <> 'live'", ATP_ARGS(atp_text_arg(subscription))) > 0;
	atp_owner_end(caller);
	strlcpy(last, subscription, NAMEDATALEN);
	answered = before;
	return answer;
}

/* ------------------------------------------------------------------------
 * The time that all streams have passed
 * ------------------------------------------------------------------------
 */

/*
 * A stream passes a time when the events of most accounts are later, or the stream is silent (consumer_passed.c).  Held events come later, whatever
 * the stream has passed.  Archives that are still read are older than any time.
 */
TimestampTz
atp_sweep_passed_at(const char *target, const char *subscription, bool held, char **behind)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	rows = atp_query(atp_identity_sql("SELECT s.name, CASE WHEN h.phase NOT IN ('seam', 'live') AND s.history = 'archive' THEN '-infinity'"
												  "  ELSE (SELECT min(COALESCE(c.passed_at, '-infinity')) FROM atproto.cursor c"
												  "   WHERE c.subscription = s.name AND c.endpoint = s.endpoint) END AS passed_at"
												  " FROM atproto.subscription s LEFT JOIN atproto.history h ON h.subscription = s.name"
												  " WHERE s.target = $1::name AND s.by_repo AND s.name <> $2"
												  " UNION ALL SELECT e.subscription, @.tid_timestamp(e.rev) FROM (SELECT DISTINCT ON (subscription) subscription, rev"
												  "  FROM atproto.held_event WHERE $3 AND target = $1::name AND kind = 'repo' ORDER BY subscription, rev) e"
												  " ORDER BY passed_at NULLS FIRST LIMIT 1"),
								 ATP_ARGS(atp_text_arg(target), atp_text_arg(subscription), atp_bool_arg(held)));
	TimestampTz passed = DT_NOEND;

	*behind = NULL;
	if (rows.n > 0)
	{
		AtpTuple	row = atp_result_row(rows, 0);
		bool		isnull;
		Datum		value = atp_get(row, "passed_at", TIMESTAMPTZOID, &isnull);

		passed = isnull ? DT_NOBEGIN : DatumGetTimestampTz(value);
		*behind = atp_get_text(row, "name");
	}
	atp_result_free(rows);
	atp_owner_end(caller);
	return passed;
}

bool
atp_sweep_is_passed(const char *target, const char *subscription, uint64 rev)
{
	static char last[NAMEDATALEN];
	static TimestampTz passed = DT_NOBEGIN;
	static AtpTime read_at;
	AtpTime		now = atp_now();
	char	   *behind;

	if (strcmp(last, target) != 0 || atp_remaining(now, read_at, PASSED_MS) == 0)
	{
		/* without held events: one account with an event that waits, whose revision the account has chosen, would have all deletions kept */
		passed = atp_sweep_passed_at(target, subscription, false, &behind);
		strlcpy(last, target, NAMEDATALEN);
		read_at = now;
	}
	return passed == DT_NOEND || (passed != DT_NOBEGIN && atp_foreign_time(atp_tid_micros(rev)) + ATP_SWEEP_LATE_US < passed);
}

/* ------------------------------------------------------------------------
 * Begin
 * ------------------------------------------------------------------------
 */

void
atp_sweep_await_writers(Oid relid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	WaitForLockers(tag, ShareLock, false);
}

/*
 * Each writer locks the table repo until the end of the transaction, and asks behind the lock whether a sweep runs.  Writers of
 * atproto.history: a session that has committed the row there may not have sent the invalidations yet, but holds the lock
 * until these are sent.
 */
void
atp_sweep_begins(const AtpSubscription *sub)
{
	Oid			repo;

	atp_begin("waiting for writers that began before the sweep");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		atp_sweep_await_writers(atp_relation("history"));
		repo = atp_target_relid(sub->target, "repo");
		if (OidIsValid(repo))
			atp_sweep_await_writers(repo);
	}
	atp_commit();
}

/* SQL: atproto_internal.history_changed(), AFTER anything: the answers of all processes are old at commit. */
Datum
atp_history_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the statement", "history_changed")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
