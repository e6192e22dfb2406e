/*
 * src/fetch: views of the fetcher's progress and problems (R-65).
 */

CREATE TABLE atproto.repo_total (
    subscription text PRIMARY KEY
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    repositories bigint NOT NULL,
    records bigint NOT NULL,
    bytes bigint NOT NULL,
    rate double precision NOT NULL,
    fetched_at timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.repo_total IS 'exports written into the tables, by subscription; counted by the fetcher, in no dump';
COMMENT ON COLUMN atproto.repo_total.repositories IS 'exports written; a repository that was fetched twice counts twice';
COMMENT ON COLUMN atproto.repo_total.records IS 'records of the exports within the filters of the subscription';
COMMENT ON COLUMN atproto.repo_total.bytes IS 'bytes of the exports, decoded';
COMMENT ON COLUMN atproto.repo_total.rate IS 'repositories a second, averaged over about a minute before fetched_at';
COMMENT ON COLUMN atproto.repo_total.subscription IS 'subscription of the jobs';
COMMENT ON COLUMN atproto.repo_total.fetched_at IS 'when the last export was written';
ALTER TABLE atproto.repo_total ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.repo_total
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

-- An exponential average: each event adds 1/60, and in a minute without an event the rate falls to 1/e.
CREATE FUNCTION atproto_internal.rate_now(rate double precision, since timestamptz) RETURNS double precision
    LANGUAGE sql STABLE
    RETURN rate * exp(-LEAST(GREATEST(EXTRACT(epoch FROM now() - since), 0), 3600)::double precision / 60);
COMMENT ON FUNCTION atproto_internal.rate_now(double precision, timestamptz) IS 'what a rate (events a second, averaged over about a minute) has decayed to since a time';

CREATE FUNCTION atproto_internal.repo_states(subscription text) RETURNS jsonb
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_repo_states';
COMMENT ON FUNCTION atproto_internal.repo_states(text) IS 'how many repositories of a subscription''s target are in which state (repo.sync): reads the whole table repo, with the rights of the subscription''s owner; only for the owner and members of pg_monitor; NULL: the owner cannot read the table, or a session has locked the table';

CREATE VIEW atproto.repo_progress WITH (security_barrier) AS
    SELECT s.name AS subscription,
        s.target,
        s.backfill,
        -- a function in the SELECT list: runs only for a query that uses the column
        atproto_internal.repo_states(s.name) AS repositories,
        l.lists,
        l.lists_ended,
        l.enumerated,
        COALESCE(j.queued, 0) AS queued,
        COALESCE(j.running, 0) AS running,
        COALESCE(j.failed, 0) AS failed,
        COALESCE(j.throttled, 0) AS throttled,
        COALESCE(j.suspended, 0) AS suspended,
        j.oldest,
        r.reasons,
        h.hosts,
        COALESCE(f.repositories, 0) AS done,
        COALESCE(f.records, 0) AS records,
        COALESCE(f.bytes, 0) AS bytes,
        pg_catalog.round(COALESCE(f.rate, 0)::numeric, 2) AS rate,
        CASE WHEN f.rate > 0.001 AND j.queued + j.running > 0
            THEN now() + (j.queued + j.running) / f.rate * interval '1 s' END AS ends_at,
        CASE WHEN LEAST(l.next_try, j.next_try) > now() THEN LEAST(l.next_try, j.next_try) END AS next_try
    FROM atproto.subscription s
        LEFT JOIN (SELECT subscription, repositories, records, bytes, atproto_internal.rate_now(rate, fetched_at) AS rate
            FROM atproto.repo_total) f ON f.subscription = s.name
        CROSS JOIN LATERAL (SELECT count(*) AS lists, count(e.finished_at) AS lists_ended,
                COALESCE(sum(e.seen), 0)::bigint AS enumerated,
                min(COALESCE(e.next_try, 'epoch')) FILTER (WHERE e.finished_at IS NULL) AS next_try
            FROM atproto.wanted_list w LEFT JOIN atproto.enumeration e USING (subscription, source)
            WHERE w.subscription = s.name) l
        -- of all subscriptions in one scan, since there may be many subscriptions, and millions of jobs; a query that does
        -- not use the columns has no scan
        LEFT JOIN (SELECT subscription, count(*) FILTER (WHERE state = 'queued' AND tries = 0) AS queued,
                count(*) FILTER (WHERE state = 'running') AS running,
                count(*) FILTER (WHERE state = 'queued' AND tries > 0) AS failed,
                count(*) FILTER (WHERE state = 'throttled') AS throttled,
                count(*) FILTER (WHERE state = 'suspended') AS suspended,
                min(queued_at) FILTER (WHERE state IN ('queued', 'running')) AS oldest,
                min(next_try) FILTER (WHERE state IN ('queued', 'running', 'throttled')) AS next_try
            FROM atproto.repo_job GROUP BY subscription) j ON j.subscription = s.name
        LEFT JOIN (SELECT subscription, pg_catalog.jsonb_object_agg(reason, n) AS reasons
            FROM (SELECT subscription, reason, count(*) AS n FROM atproto.repo_job GROUP BY subscription, reason) x
            GROUP BY subscription) r ON r.subscription = s.name
        LEFT JOIN (SELECT subscription, pg_catalog.jsonb_object_agg(host, n) AS hosts
            FROM (SELECT subscription, host, count(*) AS n,
                    pg_catalog.row_number() OVER (PARTITION BY subscription ORDER BY count(*) DESC, host) AS place
                FROM atproto.repo_job WHERE host IS NOT NULL GROUP BY subscription, host) x
            WHERE place <= 10 GROUP BY subscription) h ON h.subscription = s.name
    -- the same condition as in atproto.stat_subscription
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.repo_progress IS 'a row for each subscription: lists that are read, jobs by state, reason and host (the ten hosts with most jobs), exports written, and when the backfill will be done';
COMMENT ON COLUMN atproto.repo_progress.subscription IS 'name of the subscription';
COMMENT ON COLUMN atproto.repo_progress.target IS 'schema of the subscription''s tables';
COMMENT ON COLUMN atproto.repo_progress.backfill IS 'which repositories the subscription fetches';
COMMENT ON COLUMN atproto.repo_progress.repositories IS 'repositories of the target by state (repo.sync); NULL: the owner cannot read the table, or a session has locked the table';
COMMENT ON COLUMN atproto.repo_progress.lists IS 'lists of repositories that the subscription reads';
COMMENT ON COLUMN atproto.repo_progress.lists_ended IS 'lists that were read to their end';
COMMENT ON COLUMN atproto.repo_progress.enumerated IS 'entries of the lists, so far';
COMMENT ON COLUMN atproto.repo_progress.queued IS 'repositories that wait to be fetched';
COMMENT ON COLUMN atproto.repo_progress.running IS 'repositories that are being fetched';
COMMENT ON COLUMN atproto.repo_progress.failed IS 'repositories whose last fetch failed; the fetcher will try again';
COMMENT ON COLUMN atproto.repo_progress.throttled IS 'repositories that were fetched too often lately';
COMMENT ON COLUMN atproto.repo_progress.suspended IS 'repositories of accounts that are not active';
COMMENT ON COLUMN atproto.repo_progress.oldest IS 'since when the oldest job waits that is queued, running or failed';
COMMENT ON COLUMN atproto.repo_progress.reasons IS 'number of jobs by reason';
COMMENT ON COLUMN atproto.repo_progress.hosts IS 'number of jobs by host: the ten hosts with most jobs';
COMMENT ON COLUMN atproto.repo_progress.done IS 'exports written into the tables';
COMMENT ON COLUMN atproto.repo_progress.records IS 'records of the exports';
COMMENT ON COLUMN atproto.repo_progress.bytes IS 'bytes of the exports, decoded';
COMMENT ON COLUMN atproto.repo_progress.rate IS 'repositories a second, averaged over about a minute';
COMMENT ON COLUMN atproto.repo_progress.ends_at IS 'when all queued repositories will be fetched, at this rate; NULL: not known';
COMMENT ON COLUMN atproto.repo_progress.next_try IS 'the fetcher asks for no list and no repository of the subscription before this time; NULL: something is due, or there is nothing to fetch';

CREATE VIEW atproto.repo_problem WITH (security_barrier) AS
    SELECT j.subscription, j.target, j.did,
        CASE WHEN j.state IN ('throttled', 'suspended') THEN j.state WHEN j.tries > 0 THEN 'failed' ELSE 'waits' END AS problem,
        j.host, j.tries, j.next_try,
        COALESCE(j.error, CASE j.state WHEN 'throttled' THEN 'the repository was fetched too often lately' WHEN 'suspended' THEN 'the account is not active' END) AS error
    FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription
    WHERE (j.error IS NOT NULL OR j.state IN ('throttled', 'suspended'))
        AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE'))
    UNION ALL
    SELECT e.subscription, s.target, NULL, 'list', NULL, e.tries, e.next_try, e.source || ': ' || e.error
    FROM atproto.enumeration e JOIN atproto.subscription s ON s.name = e.subscription
    WHERE e.error IS NOT NULL
        AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE'))
    UNION ALL
    SELECT p.subscription, p.target, p.did, 'proof', p.host, p.tries, p.next_try, p.error
    FROM atproto.proof_result p JOIN atproto.subscription s ON s.name = p.subscription
    WHERE p.state <> 'done' AND p.error IS NOT NULL
        AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE'))
    UNION ALL
    SELECT NULL, NULL, NULL, 'backoff', host, backoffs, backoff_until, backoff_reason
    FROM atproto.host
    WHERE backoff_until > now()
    UNION ALL
    SELECT NULL, NULL, NULL, 'storm', NULLIF(host, ''), NULL, until, 'too many repositories of role "' || owner || '" came out of step at once'
    FROM atproto.repo_storm
    WHERE until > now() AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(owner, 'USAGE'))
    UNION ALL
    SELECT NULL, NULL, did, state, pds, tries, next_try, error
    FROM atproto.identity
    WHERE error IS NOT NULL AND state IN ('gone', 'invalid', 'no_key', 'no_pds', 'unreachable');
COMMENT ON VIEW atproto.repo_problem IS 'repositories that are not fetched (failed, throttled, suspended, or waits, for example for a host), lists that are not read, hosts in backoff, storms, in which only requested repositories are fetched, and accounts whose identity does not function (gone, invalid, no_key, no_pds, unreachable), with the reason';
COMMENT ON COLUMN atproto.repo_problem.subscription IS 'subscription of the job or list; NULL: the problem concerns all subscriptions';
COMMENT ON COLUMN atproto.repo_problem.target IS 'schema of the subscription''s tables';
COMMENT ON COLUMN atproto.repo_problem.did IS 'the account; NULL: the problem concerns more than one account';
COMMENT ON COLUMN atproto.repo_problem.problem IS 'failed, throttled, suspended, waits: a repository; proof: an account that could not be compared (prove()); list: a list; backoff: a host in backoff; storm: too many broken repositories at once; gone, invalid, no_key, no_pds, unreachable: an identity';
COMMENT ON COLUMN atproto.repo_problem.host IS 'host of the request';
COMMENT ON COLUMN atproto.repo_problem.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.repo_problem.next_try IS 'the fetcher does not try before this time';
COMMENT ON COLUMN atproto.repo_problem.error IS 'the reason';

CREATE VIEW atproto.audit_progress WITH (security_barrier) AS
    SELECT a.target,
        -- a function in the SELECT list: runs only for a query that uses the column
        (atproto_internal.repo_states((SELECT name FROM atproto.subscription s
            WHERE s.target = a.target AND atproto.role_may_fill(s.owner, s.target, s.target_owner)
            ORDER BY pg_catalog.pg_has_role(s.owner, 'USAGE') DESC, enabled DESC, name LIMIT 1)) ->> 'unproven')::bigint AS unproven,
        a.audited,
        a.different,
        pg_catalog.round(atproto_internal.rate_now(a.rate, a.audited_at)::numeric, 2) AS rate,
        a.next_at,
        a.error
    FROM atproto.audit_state a
    -- the same condition as in the policy of atproto.audit_state
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE')
        OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = a.target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'));
COMMENT ON VIEW atproto.audit_progress IS 'a row for each target that had unproven repositories: how many are left, how many were audited by the fetcher, how many a second, and when the next audit is due';
COMMENT ON COLUMN atproto.audit_progress.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.audit_progress.unproven IS 'unproven repositories; NULL: not known, or a session has locked the table repo';
COMMENT ON COLUMN atproto.audit_progress.audited IS 'repositories that the fetcher has audited, so far';
COMMENT ON COLUMN atproto.audit_progress.different IS 'audited repositories whose records differed from what the account signed';
COMMENT ON COLUMN atproto.audit_progress.rate IS 'repositories a second, averaged over about a minute';
COMMENT ON COLUMN atproto.audit_progress.next_at IS 'when the next audit is due; NULL: no audit is needed';
COMMENT ON COLUMN atproto.audit_progress.error IS 'error of the last audits; NULL: no error';

GRANT SELECT ON atproto.repo_progress, atproto.repo_problem, atproto.audit_progress TO pg_monitor;

CREATE PROCEDURE atproto.await_backfill(name text, timeout interval DEFAULT NULL)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_await_backfill';
COMMENT ON PROCEDURE atproto.await_backfill(text, interval) IS 'wait until a subscription''s lists are read, and the repositories queued by then are fetched or have failed; prints the progress; an ERROR after this time';
REVOKE ALL ON PROCEDURE atproto.await_backfill(text, interval) FROM PUBLIC;
