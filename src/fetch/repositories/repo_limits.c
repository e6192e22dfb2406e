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
/* Of one host, so many repositories count for a storm of all hosts: a single host must not be able to begin it. */
#define STORM_JOBS_OF_HOST	100
#define STORM_WITHIN	"interval '60 s'"
#define STORM_PAUSE_MIN	5

/* Upper bound of the rows that are counted: a storm of an owner may have any number of rows. */
#define STORM_COUNTED	"100000"

void
atp_repo_storms(void)
{
	/* jobs queued before the last storm ended that stopped them do not count again */
	AtpResult	begun = atp_query(atp_identity_sql("WITH broken AS (SELECT s.owner, " ATP_REPO_HOST " AS host, j.queued_at"
								  "   FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription"
								  "    LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) j.did"
								  "   WHERE j.priority = 1 AND j.queued_at > now() - " STORM_WITHIN " LIMIT " STORM_COUNTED "),"
								  "  of_host AS (SELECT b.owner, b.host, count(*) AS n FROM broken b"
								  "   WHERE NOT EXISTS (SELECT FROM atproto.repo_storm o WHERE o.owner::oid = b.owner::oid"
								  "    AND (o.host = '' OR o.host = b.host) AND o.until >= b.queued_at) GROUP BY b.owner, b.host)"
								  " INSERT INTO atproto.repo_storm AS r (owner, host, until)"
								  " SELECT owner, host, now() + make_interval(mins => $1) FROM of_host WHERE host IS NOT NULL AND n > $2"
								  " UNION ALL SELECT owner, '', now() + make_interval(mins => $1) FROM of_host"
								  "  GROUP BY owner HAVING sum(CASE WHEN host IS NULL THEN n ELSE LEAST(n, $3) END) > $2"
								  " ON CONFLICT (owner, host) DO UPDATE SET until = excluded.until"
								  "  WHERE r.until <= now() OR r.until > now() + make_interval(mins => $1)"
								  " RETURNING owner::text AS owner, NULLIF(host, '') AS host"),
								  ATP_ARGS(atp_int4_arg(STORM_PAUSE_MIN), atp_int8_arg(STORM_JOBS), atp_int8_arg(STORM_JOBS_OF_HOST)));

	for (uint64 i = 0; i < begun.n; i++)
	{
		char	   *owner = atp_get_text(atp_result_row(begun, i), "owner");
		char	   *host = atp_get_text_or_null(atp_result_row(begun, i), "host");

		ereport(LOG,
				(errmsg("more than %d repositories have come out of step within a minute", STORM_JOBS),
				 host == NULL
				 ? errdetail("They are of subscriptions of role \"%s\". For %d minutes none is fetched for these but those that somebody asks for.",
							 owner, STORM_PAUSE_MIN)
				 : errdetail("They are of subscriptions of role \"%s\", and of host \"%s\". For %d minutes none of this host is fetched for these but those that somebody asks for.",
							 owner, host, STORM_PAUSE_MIN),
				 errhint("See the gaps and last errors of the subscriptions.")));
	}
	atp_result_free(begun);
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
			ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did)));
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
			ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did)));
}

void
atp_repos_forget_fetched(void)
{
	atp_run("DELETE FROM atproto.repo_fetched WHERE at[1] <= now() - interval '1 day'", ATP_NO_ARGS);
	/* strangers name the hosts */
	atp_run("DELETE FROM atproto.repo_storm WHERE until <= now() - interval '1 day'", ATP_NO_ARGS);
}
