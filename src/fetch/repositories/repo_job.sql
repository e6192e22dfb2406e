/*
 * src/fetch: jobs (repositories to fetch), limits of fetches, and the lists of repositories that are read.
 */

CREATE TABLE atproto.repo_job (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    kind text NOT NULL DEFAULT 'repo'
        CHECK (kind = 'repo'),
    priority smallint NOT NULL
        CHECK (priority BETWEEN 0 AND 3),
    reason text NOT NULL
        CHECK (octet_length(reason) <= 100),
    state text NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'running', 'throttled', 'suspended')),
    host text
        CHECK (octet_length(host) <= 300),
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    error text
        CHECK (octet_length(error) <= 1000),
    doubted text
        CHECK (octet_length(doubted) <= 400),
    doubted_at timestamptz,
    force boolean NOT NULL DEFAULT false,
    queued_at timestamptz NOT NULL DEFAULT now(),
    listed_by text
        CHECK (octet_length(listed_by) <= 400),
    whole boolean NOT NULL DEFAULT false,
    put_off integer NOT NULL DEFAULT 0
        CHECK (put_off >= 0),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- by subscription: the fetcher takes the jobs in turn from the owners of the subscriptions, whoever has more jobs
CREATE INDEX repo_job_due ON atproto.repo_job (subscription, priority, next_try) WHERE state = 'queued';
CREATE INDEX repo_job_new ON atproto.repo_job (subscription, priority, next_try) WHERE state = 'queued' AND host IS NULL;
CREATE INDEX repo_job_running ON atproto.repo_job (target, did) WHERE state = 'running';
CREATE INDEX repo_job_throttled ON atproto.repo_job (next_try) WHERE state = 'throttled';
CREATE INDEX repo_job_breaks ON atproto.repo_job (queued_at) WHERE priority = 1;
CREATE INDEX repo_job_subscription ON atproto.repo_job (subscription);
CREATE INDEX repo_job_listed ON atproto.repo_job (subscription, listed_by) WHERE listed_by IS NOT NULL;
CREATE INDEX repo_job_problem ON atproto.repo_job (subscription) WHERE error IS NOT NULL OR state IN ('throttled', 'suspended');
-- The key has no owner.  A repository of a target has one state and one fetch at a time, so a second row would have to wait for the
-- first.  Only subscriptions whose owner may write the target's tables get there, and such a role can do more to another role's
-- repository by an UPDATE of the table repo than by a job.  resync() of a session gives the job to the session's own subscription.
COMMENT ON TABLE atproto.repo_job IS 'repositories that are to be fetched: a row stays until the repository was fetched; one for all subscriptions that may fill the target';
COMMENT ON COLUMN atproto.repo_job.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.repo_job.subscription IS 'subscription whose settings and owner count for the fetch';
COMMENT ON COLUMN atproto.repo_job.kind IS 'repo, the only kind: fetch the repository';
COMMENT ON COLUMN atproto.repo_job.priority IS '0: a session asked for the repository; 1: the repository is followed, and not in step; 2: an event of the repository came; 3: a list names the repository';
COMMENT ON COLUMN atproto.repo_job.reason IS 'why the repository is fetched, in a word';
COMMENT ON COLUMN atproto.repo_job.state IS 'throttled: the repository was fetched too often lately; suspended: the account is not active';
COMMENT ON COLUMN atproto.repo_job.host IS 'host that is asked, or was asked last; NULL: not determined yet';
COMMENT ON COLUMN atproto.repo_job.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.repo_job.next_try IS 'the fetcher does not try before this time';
COMMENT ON COLUMN atproto.repo_job.error IS 'error of the last try';
COMMENT ON COLUMN atproto.repo_job.doubted IS 'server and key with which the fetch failed, while the account''s document is read again: if the document has a different server or key, the fetcher tries again at once';
COMMENT ON COLUMN atproto.repo_job.doubted_at IS 'since when the job waits for the account''s document';
COMMENT ON COLUMN atproto.repo_job.force IS 'write the export even if it is older than the stored repository';
COMMENT ON COLUMN atproto.repo_job.listed_by IS 'source, in atproto.enumeration, of the host''s list that named the repository first';
COMMENT ON COLUMN atproto.repo_job.whole IS 'fetching only the subscription''s collections has failed: the whole repository is fetched';
COMMENT ON COLUMN atproto.repo_job.put_off IS 'how often in a row the job was put off without a failure: each time for longer';
COMMENT ON COLUMN atproto.repo_job.did IS 'account of the repository';
COMMENT ON COLUMN atproto.repo_job.queued_at IS 'since when the job is outstanding';

-- ALWAYS, so that the trigger also fires for changes that come by logical replication
CREATE FUNCTION atproto_internal.subscription_jobs() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_jobs';
COMMENT ON FUNCTION atproto_internal.subscription_jobs() IS 'trigger: when a subscription is removed, or no longer fetches into its target, its jobs go to a different subscription that does';
CREATE TRIGGER subscription_jobs BEFORE UPDATE OF target, backfill OR DELETE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_jobs();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_jobs;
REVOKE ALL ON FUNCTION atproto_internal.subscription_jobs() FROM PUBLIC;

CREATE TABLE atproto.repo_fetched (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    at timestamptz[] NOT NULL
        CHECK (cardinality(at) BETWEEN 1 AND 20),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.repo_fetched IS 'broken repositories that were fetched within the last day without a session''s request; in no dump';
COMMENT ON COLUMN atproto.repo_fetched.at IS 'times of the fetches, latest first, at most 20';
COMMENT ON COLUMN atproto.repo_fetched.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.repo_fetched.did IS 'the account';

CREATE TABLE atproto.repo_storm (
    owner regrole NOT NULL,
    until timestamptz NOT NULL,
    host text NOT NULL DEFAULT '',
    PRIMARY KEY (owner, host)
);
COMMENT ON TABLE atproto.repo_storm IS 'roles with too many broken repositories at once, and hosts; in no dump';
COMMENT ON COLUMN atproto.repo_storm.owner IS 'owner of the subscriptions; repositories of all remaining roles are fetched as before';
COMMENT ON COLUMN atproto.repo_storm.host IS 'only repositories of this host broke, and only these wait; empty: repositories of all hosts';
COMMENT ON COLUMN atproto.repo_storm.until IS 'until this time only repositories that a session asks for are fetched';

CREATE TABLE atproto.enumeration (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    source text NOT NULL
        CHECK (octet_length(source) <= 400),
    cursor text
        CHECK (octet_length(cursor) <= 4096),
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    pages bigint NOT NULL DEFAULT 0
        CHECK (pages >= 0),
    seen bigint NOT NULL DEFAULT 0
        CHECK (seen >= 0),
    queued bigint NOT NULL DEFAULT 0
        CHECK (queued >= 0),
    skipped bigint NOT NULL DEFAULT 0
        CHECK (skipped >= 0),
    empty integer NOT NULL DEFAULT 0
        CHECK (empty >= 0),
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    error text
        CHECK (octet_length(error) <= 1000),
    named_at timestamptz,
    PRIMARY KEY (subscription, source)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.enumeration IS 'lists of repositories that are read, page by page, again after each atproto.enumerate_interval';
COMMENT ON COLUMN atproto.enumeration.source IS 'the list: listRepos; listReposByCollection and a collection; dids: the accounts of the subscription; listHosts; listRepos and scheme and host: the list of a host that listHosts named; recheck: listRepos, read once to find stored repositories that have a newer revision on the server';
COMMENT ON COLUMN atproto.enumeration.cursor IS 'where the next page begins; written in the same transaction as the page''s jobs';
COMMENT ON COLUMN atproto.enumeration.started_at IS 'when the first page was requested';
COMMENT ON COLUMN atproto.enumeration.finished_at IS 'when the last page was written; NULL: the list is being read';
COMMENT ON COLUMN atproto.enumeration.seen IS 'entries since started_at';
COMMENT ON COLUMN atproto.enumeration.queued IS 'entries since started_at that became new rows of atproto.repo_job; for listHosts, new rows of this table';
COMMENT ON COLUMN atproto.enumeration.skipped IS 'entries since started_at without a valid DID, or host';
COMMENT ON COLUMN atproto.enumeration.empty IS 'pages in a row without an entry';
COMMENT ON COLUMN atproto.enumeration.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.enumeration.next_try IS 'the next page is not requested before this time';
COMMENT ON COLUMN atproto.enumeration.error IS 'error of the last page, or why the list was given up';
COMMENT ON COLUMN atproto.enumeration.named_at IS 'for the list of a host: started_at of the listHosts that named the host last';
COMMENT ON COLUMN atproto.enumeration.subscription IS 'subscription whose backfill needs the list';
COMMENT ON COLUMN atproto.enumeration.pages IS 'pages read since started_at';

SELECT pg_catalog.pg_extension_config_dump('atproto.repo_job', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.enumeration', '');

-- a role sees the jobs and lists of the subscriptions that the role sees
ALTER TABLE atproto.repo_job ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.repo_job
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription))
    -- a row for the target of another role would stand in the place of that role's job
    WITH CHECK (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = repo_job.subscription AND s.target = repo_job.target));
-- no row belongs to a role, so the policy lets every role read; a role that reads the tables still needs a grant
ALTER TABLE atproto.repo_fetched ENABLE ROW LEVEL SECURITY;
ALTER TABLE atproto.repo_storm ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON atproto.repo_fetched FOR SELECT USING (true);
CREATE POLICY readers ON atproto.repo_storm FOR SELECT USING (true);
ALTER TABLE atproto.enumeration ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.enumeration
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

-- The lists that subscriptions need, each once.  A subscription with dids reads no list of a server.  There may be thousands of hosts, so the view must stay fast.
CREATE VIEW atproto.wanted_list AS
    SELECT s.name AS subscription,
        l.source,
        CASE WHEN l.source LIKE 'listRepos %' THEN pg_catalog.substr(l.source, 11)
            ELSE COALESCE(s.list_source, pg_catalog.regexp_replace(s.endpoint, '^ws(s?://[^/]+)/.*$', 'http\1')) END AS server,
        s.enabled AND s.stopped IS NULL AS runs
    FROM atproto.subscription s
        CROSS JOIN LATERAL (
            SELECT 'dids' WHERE s.dids IS NOT NULL
            UNION ALL
            SELECT CASE WHEN s.list_hosts THEN 'listHosts' ELSE 'listRepos' END WHERE s.dids IS NULL AND s.backfill = 'network'
            UNION ALL
            SELECT DISTINCT 'listReposByCollection ' || c FROM pg_catalog.unnest(s.collections) c
            WHERE s.dids IS NULL AND s.backfill = 'collections' AND c IS NOT NULL
            UNION ALL
            SELECT e.source FROM atproto.enumeration e
            WHERE e.subscription = s.name AND (e.source = 'recheck'
                OR (e.source LIKE 'listRepos %' AND s.list_hosts AND s.dids IS NULL AND s.backfill = 'network'))
        ) l (source)
    WHERE s.backfill <> 'none';
COMMENT ON VIEW atproto.wanted_list IS 'lists that the subscriptions'' backfill needs; used by the fetcher';
COMMENT ON COLUMN atproto.wanted_list.subscription IS 'subscription that needs the list';
COMMENT ON COLUMN atproto.wanted_list.server IS 'server that has the list';
COMMENT ON COLUMN atproto.wanted_list.runs IS 'whether the subscription runs; the list of a subscription that does not run is not read';
