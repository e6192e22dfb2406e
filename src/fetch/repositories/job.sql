/*
 * src/fetch: repositories that are to be fetched, and the lists that they come from.
 */

CREATE TABLE atproto.repo_job (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    kind text NOT NULL DEFAULT 'repo'
        CHECK (kind IN ('repo', 'status', 'audit')),
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
    next_try timestamptz NOT NULL DEFAULT '-infinity',
    error text
        CHECK (octet_length(error) <= 1000),
    doubted text
        CHECK (octet_length(doubted) <= 400),
    doubted_at timestamptz,
    force boolean NOT NULL DEFAULT false,
    queued_at timestamptz NOT NULL DEFAULT now(),
    listed_by text
        CHECK (octet_length(listed_by) <= 400),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX repo_job_due ON atproto.repo_job (priority, next_try) WHERE state = 'queued';
CREATE INDEX repo_job_new ON atproto.repo_job (priority, next_try) WHERE state = 'queued' AND host IS NULL;
CREATE INDEX repo_job_running ON atproto.repo_job (target, did) WHERE state = 'running';
CREATE INDEX repo_job_throttled ON atproto.repo_job (next_try) WHERE state = 'throttled';
CREATE INDEX repo_job_breaks ON atproto.repo_job (queued_at) WHERE priority = 1;
CREATE INDEX repo_job_subscription ON atproto.repo_job (subscription);
CREATE INDEX repo_job_listed ON atproto.repo_job (subscription, listed_by) WHERE listed_by IS NOT NULL;
CREATE INDEX repo_job_problem ON atproto.repo_job (subscription) WHERE error IS NOT NULL OR state IN ('throttled', 'suspended');
COMMENT ON TABLE atproto.repo_job IS 'repositories that are to be fetched: one row each, as long as it is outstanding';
COMMENT ON COLUMN atproto.repo_job.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.repo_job.subscription IS 'whose settings and owner count';
COMMENT ON COLUMN atproto.repo_job.kind IS 'repo: its export; status: only whether it is active; audit: only a comparison';
COMMENT ON COLUMN atproto.repo_job.priority IS '0: somebody asked; 1: it is followed, and not in step; 2: something of it came; 3: a list has it';
COMMENT ON COLUMN atproto.repo_job.reason IS 'why, in a word';
COMMENT ON COLUMN atproto.repo_job.state IS 'throttled: it was fetched too often lately; suspended: its account is not active';
COMMENT ON COLUMN atproto.repo_job.host IS 'server that is asked, or was asked last; NULL: nobody has looked who is to be';
COMMENT ON COLUMN atproto.repo_job.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.repo_job.next_try IS 'not before';
COMMENT ON COLUMN atproto.repo_job.error IS 'what it failed with last';
COMMENT ON COLUMN atproto.repo_job.doubted IS 'server and key with which it failed, until the account''s document has been read again: if that has others, they are tried at once';
COMMENT ON COLUMN atproto.repo_job.doubted_at IS 'since when that is waited for';
COMMENT ON COLUMN atproto.repo_job.force IS 'also an export that is older than what is stored';
COMMENT ON COLUMN atproto.repo_job.listed_by IS 'source of the list of a host, in atproto.enumeration, that named it first';
COMMENT ON COLUMN atproto.repo_job.did IS 'the account whose repository it is';
COMMENT ON COLUMN atproto.repo_job.queued_at IS 'since when it is outstanding';

-- also for what comes by logical replication
CREATE FUNCTION atproto.subscription_jobs() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_jobs';
COMMENT ON FUNCTION atproto.subscription_jobs() IS 'trigger: gives the jobs of a subscription that goes, or fetches nothing more into its target, to another one that does';
CREATE TRIGGER subscription_jobs BEFORE UPDATE OF target, backfill OR DELETE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_jobs();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_jobs;
REVOKE ALL ON FUNCTION atproto.subscription_jobs() FROM PUBLIC;

CREATE TABLE atproto.repo_fetched (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    at timestamptz[] NOT NULL
        CHECK (cardinality(at) BETWEEN 1 AND 20),
    PRIMARY KEY (target, did)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.repo_fetched IS 'repositories that were not in step and were fetched by themselves within the last day; in no dump';
COMMENT ON COLUMN atproto.repo_fetched.at IS 'when, the last time first, 20 times at most';
COMMENT ON COLUMN atproto.repo_fetched.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.repo_fetched.did IS 'the account';

CREATE TABLE atproto.repo_storm (
    owner regrole PRIMARY KEY,
    until timestamptz NOT NULL
);
COMMENT ON TABLE atproto.repo_storm IS 'too many repositories of one role''s subscriptions came out of step at once; in no dump';
COMMENT ON COLUMN atproto.repo_storm.owner IS 'the owner of these subscriptions: other roles'' repositories are fetched as before';
COMMENT ON COLUMN atproto.repo_storm.until IS 'only those that somebody asks for are fetched until then';

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
    next_try timestamptz NOT NULL DEFAULT '-infinity',
    error text
        CHECK (octet_length(error) <= 1000),
    named_at timestamptz,
    PRIMARY KEY (subscription, source)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.enumeration IS 'lists of repositories that are read, page by page, and again each atproto.enumerate_interval';
COMMENT ON COLUMN atproto.enumeration.source IS 'listRepos, listReposByCollection and a collection, or dids: those of the subscription; listHosts, and listRepos and scheme and host for each host that it names; recheck: listRepos, once, for what is stored and newer there';
COMMENT ON COLUMN atproto.enumeration.cursor IS 'where the next page begins; it moves with what the page brought';
COMMENT ON COLUMN atproto.enumeration.started_at IS 'when the first page was asked for';
COMMENT ON COLUMN atproto.enumeration.finished_at IS 'when there was no next one; NULL: it is being read';
COMMENT ON COLUMN atproto.enumeration.seen IS 'entries so far, since started_at, as are the others';
COMMENT ON COLUMN atproto.enumeration.queued IS 'of which so many are new in atproto.repo_job; of hosts, in this table';
COMMENT ON COLUMN atproto.enumeration.skipped IS 'entries without a valid DID, or host';
COMMENT ON COLUMN atproto.enumeration.empty IS 'pages in a row without an entry';
COMMENT ON COLUMN atproto.enumeration.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.enumeration.next_try IS 'the next page is not asked for before';
COMMENT ON COLUMN atproto.enumeration.error IS 'what the last page failed with, or why the list was given up';
COMMENT ON COLUMN atproto.enumeration.named_at IS 'of a host''s list: started_at of listHosts when that named the host last';
COMMENT ON COLUMN atproto.enumeration.subscription IS 'whose backfill wants the list';
COMMENT ON COLUMN atproto.enumeration.pages IS 'that were read since started_at';

SELECT pg_catalog.pg_extension_config_dump('atproto.repo_job', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.enumeration', '');

-- As the subscriptions that they belong to.
ALTER TABLE atproto.repo_job ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.repo_job
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
-- nothing here is any role's own; who reads it needs a grant all the same
ALTER TABLE atproto.repo_fetched ENABLE ROW LEVEL SECURITY;
ALTER TABLE atproto.repo_storm ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON atproto.repo_fetched FOR SELECT USING (true);
CREATE POLICY readers ON atproto.repo_storm FOR SELECT USING (true);
ALTER TABLE atproto.enumeration ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.enumeration
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

-- Which lists the subscriptions want, each once.  With dids, nothing of others is looked at.  There may be thousands of hosts.
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
COMMENT ON VIEW atproto.wanted_list IS 'lists that are to be read, by subscriptions'' backfill; for the fetcher';
COMMENT ON COLUMN atproto.wanted_list.subscription IS 'that wants it';
COMMENT ON COLUMN atproto.wanted_list.server IS 'who is asked for it';
COMMENT ON COLUMN atproto.wanted_list.runs IS 'whether the subscription runs: only then it is read';
