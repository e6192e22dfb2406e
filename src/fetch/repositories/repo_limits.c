/*
 * repo_limits.c
 *		Limits of fetches that no user asked for.
 *
 * The limits' counters are in tables, so that a crash of the fetcher does not lift the limits.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fetch/repositories/repo_limits.h"
#include "identity/identity.h"

/*
 * More than STORM_JOBS broken repositories within STORM_WITHIN are a storm, which lasts
 * STORM_PAUSE_MIN minutes.
 */
#define STORM_JOBS		1000
#define STORM_WITHIN	"interval '60 s'"
#define STORM_PAUSE_MIN	5

/* Upper bound of the rows that are counted: a storm of an owner may have any number of rows. */
#define STORM_COUNTED	"100000"

void
atp_repo_storms(void)
{
	/* jobs queued before the owner's last storm ended do not count again */
	AtpResult	begun = atp_query("INSERT INTO atproto.repo_storm AS r (owner, until)"
								  " SELECT b.owner, now() + make_interval(mins => $1) FROM"
								  "  (SELECT s.owner FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription"
								  "    LEFT JOIN atproto.repo_storm o ON o.owner::oid = s.owner::oid"
								  "   WHERE j.priority = 1 AND j.queued_at > now() - " STORM_WITHIN " AND j.queued_at > COALESCE(o.until, '-infinity')"
								  "   LIMIT " STORM_COUNTED ") b GROUP BY b.owner HAVING count(*) > $2"
								  " ON CONFLICT (owner) DO UPDATE SET until = excluded.until"
								  "  WHERE r.until <= now() OR r.until > now() + make_interval(mins => $1)"
								  " RETURNING owner::text AS owner", ATP_ARGS(atp_int4_arg(STORM_PAUSE_MIN), atp_int8_arg(STORM_JOBS)));

	for (uint64 i = 0; i < begun.n; i++)
		ereport(LOG,
				(errmsg("more than %d repositories have come out of step within a minute", STORM_JOBS),
				 errdetail("They are of subscriptions of role \"%s\". For %d minutes none is fetched for these but those that somebody asks for.",
						   atp_get_text(atp_result_row(begun, i), "owner"), STORM_PAUSE_MIN),
				 errhint("See the gaps and last errors of the subscriptions.")));
	atp_result_free(begun);
}

static AtpArg
did_arg(const AtpRepoJob *job)
{
	return (AtpArg) {PointerGetDatum(job->did), atp_type("did"), false};
}

void
atp_repo_throttle(const AtpRepoJob *job)
{
	/* priority 0 means that a session has asked for the repository meanwhile */
	atp_run(atp_identity_sql("UPDATE atproto.repo_job j SET state = 'throttled', next_try = " ATP_REPO_MAY_BE_FETCHED ","
							 " error = 'it was fetched 5 times within an hour, or 20 times within a day'"
							 " FROM atproto.repo_fetched f WHERE f.target = j.target AND f.did OPERATOR(@.=) j.did"
							 " AND j.ctid = (SELECT ctid FROM atproto.repo_job WHERE target = $1::name AND did OPERATOR(@.=) $2"
							 "  AND state = 'queued' AND priority > 0 FOR UPDATE SKIP LOCKED)"),
			ATP_ARGS(atp_text_arg(job->target), did_arg(job)));
}

void
atp_repos_unthrottle(void)
{
	/* SKIP LOCKED, since consumers lock rows of jobs in a different order */
	atp_run("UPDATE atproto.repo_job SET state = 'queued', error = NULL WHERE ctid = ANY (ARRAY"
			" (SELECT ctid FROM atproto.repo_job WHERE state = 'throttled' AND next_try <= now() LIMIT 1000 FOR UPDATE SKIP LOCKED))",
			ATP_NO_ARGS);
}

void
atp_repo_fetched(const AtpRepoJob *job)
{
	atp_run("INSERT INTO atproto.repo_fetched AS f (target, did, at) VALUES ($1::name, $2, ARRAY[now()])"
			" ON CONFLICT (target, did) DO UPDATE SET at = (array_prepend(now(), f.at))[1:20]",
			ATP_ARGS(atp_text_arg(job->target), did_arg(job)));
}

void
atp_repos_forget_fetched(void)
{
	atp_run("DELETE FROM atproto.repo_fetched WHERE at[1] <= now() - interval '1 day'", ATP_NO_ARGS);
}
