/*
 * task_audit.c
 *		The fetcher's task that audits unproven repositories (V-27, V-45), each at most once an
 *		hour.  This task opens no connection.
 *
 * Table atproto.audit_state lists the targets with work (tables/base/audit_request.c).  The task
 * claims a target by postponing next_at before touching any table of the target: so code in an
 * owner's tables, whatever it does, cannot keep the remaining targets from their turns.  Then some
 * repositories are audited in a short transaction as the owner.  A repository that takes longer is
 * audited alone, with more time; before that, a committed audited_at records the try.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "fetch/repositories/task_audit.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "identity/identity.h"
#include "tables/audit/audit.h"
#include "tables/audit/audit_share.h"
#include "tables/base/audit_request.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#define LOOK_MS		5000		/* between two looks for work */
#define SHARE_MS	1000		/* time limit of a share: some repositories of a target */
#define LARGE_MS	10000		/* time limit of a single repository */
#define EVERY		USECS_PER_HOUR	/* V-45 */
#define LOOK_AGAIN	(5 * USECS_PER_MINUTE)	/* next look into a target where repositories wait for
											 * their hour */

static bool audits = true;
static AtpTime looked;
static bool more;				/* the last look found work */

/* A target whose last share exceeded the time limit, after so many repositories. */
static NameData slow;
static int	slow_at = -1;

typedef struct TargetShare
{
	NameData	target;
	bool		followed;		/* a subscription fills the target ... */
	Oid			owner;			/* ... with the rights of this role; InvalidOid: no subscription
								 * that may fill the target runs */
	int			limit;
	TimestampTz now;
	AtpAuditCounts counts;
	MemoryContext cxt;			/* for data that outlives a transaction */
	struct varlena *did;		/* the repository that is audited alone */
	bool		again;			/* the target is due again at once */
	bool		left;			/* some unproven repositories were audited less than an hour ago
								 * ... */
	TimestampTz oldest;			/* ... the earliest of them at this time */
} TargetShare;

/* Unproven repositories that can be judged now. */
#define UNPROVEN	" FROM #.repo WHERE " ATP_IS_AUDITED
#define NO_SCHEMA	"pg_catalog.to_regnamespace(pg_catalog.quote_ident(target)) IS NULL"

void
atp_audit_task_init(void)
{
	DefineCustomBoolVariable("atproto.audits",
							 "Whether repositories that are unproven are audited by themselves.",
							 NULL, &audits, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static AtpArg
target_arg(const TargetShare *share)
{
	return (AtpArg) {NameGetDatum(&share->target), NAMEOID, false};
}

static bool
audits_wanted(void)
{
	AtpResult	found;

	if (!audits)
		return false;
	found = atp_query("SELECT FROM atproto.audit_state WHERE next_at <= $1 OR " NO_SCHEMA " LIMIT 1",
					  ATP_ARGS(atp_time_arg(atp_time_of_day())));
	atp_result_free(found);
	return found.n > 0;
}

/*
 * Audits use the rights of the owner of a subscription that fills the target.  A subscription whose owner has lost
 * the right counts as a subscription that does not run, because nothing tells the fetcher when the right comes back.
 */
static void
find_owner(TargetShare *share)
{
	AtpResult	found = atp_query("SELECT owner::oid AS owner,"
								  " enabled AND stopped IS NULL AND atproto.role_may_fill(owner, target, target_owner) AS runs"
								  " FROM atproto.subscription WHERE target = $1 AND by_repo ORDER BY runs DESC, name LIMIT 1",
								  ATP_ARGS(target_arg(share)));
	bool		isnull;

	share->followed = found.n > 0;
	if (share->followed && atp_get_bool(atp_result_row(found, 0), "runs"))
		share->owner = DatumGetObjectId(atp_get(atp_result_row(found, 0), "owner", OIDOID, &isnull));
	atp_result_free(found);
}

/*
 * Claim the target that is due.  Until a report changes next_at, the target is postponed, longer
 * each time.  False: no target is due.
 */
static bool
claim_target(TargetShare *share)
{
	AtpResult	found;
	bool		claimed;

	atp_begin("looking for audits");
	if (atp_extension_lock() != ATP_EXTENSION_READY)
	{
		atp_commit();
		return false;
	}
	/* DROP SCHEMA leaves the row of a target that no subscription fills; a new schema of this name has no audits yet. */
	atp_run("DELETE FROM atproto.audit_state WHERE " NO_SCHEMA, ATP_NO_ARGS);
	/*
	 * FOR NO KEY UPDATE, since a consumer that requests audits holds a weaker lock, which does not
	 * conflict
	 */
	found = atp_query("UPDATE atproto.audit_state SET tries = LEAST(tries + 1, 1000),"
					  " next_at = $1 + LEAST(interval '10 min' * power(2, LEAST(tries, 10)), interval '1 day')"
					  " WHERE target = (SELECT target FROM atproto.audit_state WHERE next_at <= $1"
					  "  ORDER BY next_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) RETURNING target", ATP_ARGS(atp_time_arg(share->now)));
	claimed = found.n > 0;
	if (claimed)
	{
		namestrcpy(&share->target, atp_get_text(atp_result_row(found, 0), "target"));
		find_owner(share);
	}
	atp_result_free(found);
	atp_commit();
	return claimed;
}

/* ------------------------------------------------------------------------
 * As the owner
 * ------------------------------------------------------------------------
 */

static void
audit_some(void *arg)
{
	TargetShare *share = arg;
	struct varlena *last;

	(void) atp_audit_share(NameStr(share->target),
						   "SELECT " ATP_AUDIT_COLUMNS UNPROVEN " AND (audited_at IS NULL OR audited_at <= $1)"
						   " ORDER BY audited_at NULLS FIRST",
						   atp_time_arg(share->now - EVERY), share->limit, &share->counts, &last);
}

/*
 * audit_some() and audit_one() lock repositories, and then request fetches of those that differ: a session with a job
 * locked may want the tables (atp_queue_wait).
 */
static AtpRunResult
run_audits(TargetShare *share, const char *activity, int ms, void (*work) (void *), char **why)
{
	AtpRunResult result;

	atp_queue_wait.limited = true;
	result = atp_run_as_owner(share->owner, activity, ms, work, share, why);
	atp_queue_wait.limited = false;
	return result;
}

/* Note the try at the first repository that is due, before its audit. */
static void
mark_one(void *arg)
{
	TargetShare *share = arg;
	AtpResult	found = atp_query(atp_expand_sql("UPDATE #.repo SET audited_at = $2 WHERE did OPERATOR(@.=) (SELECT did" UNPROVEN
												 " AND (audited_at IS NULL OR audited_at <= $1) ORDER BY audited_at NULLS FIRST LIMIT 1)"
												 " RETURNING did", NameStr(share->target)),
								  ATP_ARGS(atp_time_arg(share->now - EVERY), atp_time_arg(share->now)));

	if (found.n > 0)
	{
		AtpArg		did = atp_get_arg(atp_result_row(found, 0), "did", atp_type("did"));
		MemoryContext old = MemoryContextSwitchTo(share->cxt);

		share->did = did.isnull ? NULL : (struct varlena *) PG_DETOAST_DATUM_COPY(did.value);
		MemoryContextSwitchTo(old);
	}
	atp_result_free(found);
}

static void
audit_one(void *arg)
{
	TargetShare *share = arg;
	struct varlena *last;

	(void) atp_audit_share(NameStr(share->target), "SELECT " ATP_AUDIT_COLUMNS UNPROVEN " AND did OPERATOR(@.=) $1",
						   atp_did_arg(share->did), 1, &share->counts, &last);
}

static void
look_ahead(void *arg)
{
	TargetShare *share = arg;
	AtpResult	found = atp_query(atp_expand_sql("SELECT COALESCE(audited_at, '-infinity') AS oldest" UNPROVEN
												 " ORDER BY audited_at NULLS FIRST LIMIT 1", NameStr(share->target)), ATP_NO_ARGS);
	bool		isnull;

	share->left = found.n > 0;
	if (share->left)
		share->oldest = DatumGetTimestampTz(atp_get(atp_result_row(found, 0), "oldest", TIMESTAMPTZOID, &isnull));
	atp_result_free(found);
}

/* ------------------------------------------------------------------------
 * Results
 * ------------------------------------------------------------------------
 */

static void
update_state(const TargetShare *share, const char *sql, const AtpArg *args, int nargs)
{
	atp_begin("noting audits");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		(void) atp_run(sql, args, nargs);
	atp_commit();
}

static void
report_failure(const TargetShare *share, const char *why)
{
	ereport(LOG,
			(errmsg("repositories in schema \"%s\" could not be audited: %s", NameStr(share->target), why)));
	update_state(share, "UPDATE atproto.audit_state SET error = left($2, 250) WHERE target = $1",
				 ATP_ARGS(target_arg(share), atp_text_arg(why)));
}

static void
report_audits(const TargetShare *share)
{
	update_state(share, "UPDATE atproto.audit_state SET next_at = $2, tries = 0, error = NULL, audited = audited + $3,"
				 " different = different + $4, different_at = CASE WHEN $4 > 0 THEN $2 ELSE different_at END,"
				 " rate = atproto_internal.rate_now(rate, audited_at) + $3 / 60.0, audited_at = now() WHERE target = $1",
				 ATP_ARGS(target_arg(share), atp_time_arg(share->now),
						  atp_int8_arg(share->counts.synchronized + share->counts.desynchronized),
						  atp_int8_arg(share->counts.desynchronized)));
}

/* No repository is due now: compute the next time. */
static void
report_next_time(const TargetShare *share)
{
	TimestampTz due = Max(share->oldest + EVERY, share->now);

	update_state(share, "UPDATE atproto.audit_state SET next_at = $2, tries = 0, error = NULL WHERE target = $1",
				 ATP_ARGS(target_arg(share), atp_time_arg(Min(due, share->now + LOOK_AGAIN))));
}

/*
 * Clear the request (next_at), unless a consumer has locked the request and has not committed its
 * unproven repository yet.
 */
static void
end_request(const TargetShare *share)
{
	update_state(share, "UPDATE atproto.audit_state SET next_at = NULL, tries = 0, error = NULL WHERE target ="
				 " (SELECT target FROM atproto.audit_state WHERE target = $1 FOR UPDATE SKIP LOCKED)", ATP_ARGS(target_arg(share)));
}

static bool
can_be_judged(TargetShare *share)
{
	bool		can;

	atp_begin("looking for audits");
	can = atp_extension_lock() == ATP_EXTENSION_READY;
	if (can)
	{
		find_owner(share);
		can = share->followed && !atp_audit_is_filtered(NameStr(share->target));
	}
	atp_commit();
	return can;
}

/* No subscription allows to judge what is unproven.  When one changes, a trigger requests anew (tables/base/audit_request.c). */
static void
give_up(TargetShare *share)
{
	end_request(share);
	/* A subscription may have changed before the request ended: its trigger found the request and wrote no new request. */
	if (can_be_judged(share))
		report_next_time(share);
}

static bool
anything_left(TargetShare *share, char **why)
{
	return atp_run_as_owner(share->owner, "auditing repositories", SHARE_MS, look_ahead, share, why) != ATP_RUN_DONE || share->left;
}

static void
put_off_share(TargetShare *share)
{
	char	   *why = NULL;

	if (!anything_left(share, &why))
	{
		end_request(share);
		/*
		 * a consumer may have seen the request before it was cleared, and so have made no new request
		 */
		if (!anything_left(share, &why))
			return;
	}
	if (why != NULL)
		report_failure(share, why);
	else
		report_next_time(share);
}

/* ------------------------------------------------------------------------
 * The target's turn
 * ------------------------------------------------------------------------
 */

/*
 * Audit the first repository that is due, alone.  False: the time limit passed, or an ERROR; the
 * target is postponed, and this repository for an hour.
 */
static bool
audit_alone(TargetShare *share, char **why)
{
	slow_at = -1;
	return atp_run_as_owner(share->owner, "auditing repositories", SHARE_MS, mark_one, share, why) == ATP_RUN_DONE &&
		(share->did == NULL ||
		 run_audits(share, "auditing a large repository", LARGE_MS, audit_one, why) == ATP_RUN_DONE);
}

/* Audit a share of the target.  False: the target is postponed. */
static bool
audit_share(TargetShare *share, char **why)
{
	bool		is_slow = slow_at >= 0 && strcmp(NameStr(slow), NameStr(share->target)) == 0;
	AtpRunResult result;

	if (is_slow && slow_at == 0)
		return audit_alone(share, why);
	share->limit = is_slow ? slow_at : ATP_AUDIT_SHARE;
	result = run_audits(share, "auditing repositories", SHARE_MS, audit_some, why);
	slow_at = -1;
	if (result == ATP_RUN_DONE ? is_slow : result == ATP_RUN_LATE && !is_slow)
	{
		/* the repository after these took so long */
		slow = share->target;
		slow_at = result == ATP_RUN_DONE ? 0 : share->counts.repos;
		share->again = true;
	}
	if (result != ATP_RUN_DONE)
		memset(&share->counts, 0, sizeof(share->counts));
	return result == ATP_RUN_DONE || share->again;
}

static void
audit_target(TargetShare *share)
{
	char	   *why = "";

	if (!share->followed)
		give_up(share);
	else if (!OidIsValid(share->owner))
	{
		share->oldest = share->now;
		report_next_time(share);
	}
	else if (!audit_share(share, &why))
		report_failure(share, why);
	else if (share->again || share->counts.synchronized + share->counts.desynchronized > 0)
		report_audits(share);
	else if (share->counts.repos == 0)
		put_off_share(share);
	else if (share->counts.filtered > 0)
		/* an audit cannot judge a filtered repository */
		give_up(share);
	else
		report_failure(share, "what they find is not kept");
}

static long
step_audits(AtpTime now)
{
	TargetShare share = {.now = atp_time_of_day(), .cxt = CurrentMemoryContext};
	long		left = more ? 0 : atp_remaining(now, looked, LOOK_MS);

	if (!audits)
		return -1;
	if (left > 0)
		return left;
	looked = now;
	more = claim_target(&share);
	if (more)
		audit_target(&share);
	return more ? 0 : LOOK_MS;
}

const AtpTask atp_audit_task = {.name = "audit", .wanted = audits_wanted, .step = step_audits};
