/*
 * repo_limits.c
 *		How often repositories are fetched without anybody asking for it.
 *
 * What these limits go by is in tables, so that a crash does not lift them.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fetch/repo_limits.h"
#include "identity/identity.h"

/* More of them within so long are a storm, and so long it is waited out. */
#define STORM_JOBS		1000
#define STORM_WITHIN	"interval '60 s'"
#define STORM_REST_MIN	5

bool
atp_repo_storm(void)
{
	/* what came before the last one was over is not counted again */
	AtpResult	found = atp_query("SELECT s.until > now() AND s.until <= now() + make_interval(mins => $1) AS rests,"
								  " EXISTS (SELECT FROM atproto.repo_job WHERE priority = 1"
								  "  AND queued_at > greatest(now() - " STORM_WITHIN ", s.until) OFFSET $2 LIMIT 1) AS storm"
								  " FROM (SELECT COALESCE((SELECT until FROM atproto.repo_storm), '-infinity') AS until) s",
								  ATP_ARGS(atp_int4_arg(STORM_REST_MIN), atp_int8_arg(STORM_JOBS)));
	bool		rests = atp_get_bool(atp_result_row(found, 0), "rests");
	bool		storm = !rests && atp_get_bool(atp_result_row(found, 0), "storm");

	atp_result_free(found);
	if (!storm)
		return rests;
	atp_run("INSERT INTO atproto.repo_storm (until) VALUES (now() + make_interval(mins => $1))"
			" ON CONFLICT (one) DO UPDATE SET until = excluded.until", ATP_ARGS(atp_int4_arg(STORM_REST_MIN)));
	ereport(LOG,
			(errmsg("more than %d repositories have come out of step within a minute", STORM_JOBS),
			 errdetail("For %d minutes none is fetched but those that somebody asks for.", STORM_REST_MIN),
			 errhint("See the gaps and last errors of the subscriptions.")));
	return true;
}

static AtpArg
did_arg(const AtpRepoJob *job)
{
	return (AtpArg) {PointerGetDatum(job->did), atp_type("did"), false};
}

void
atp_repo_throttle(const AtpRepoJob *job)
{
	/* unless somebody has asked for it now */
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
	/* consumers have rows of jobs in another order */
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
