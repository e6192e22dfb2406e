/*
 * src/fetch: the hosts that the fetcher sends requests to, and their backoff.
 */

CREATE TABLE atproto.host (
    host text PRIMARY KEY
        CHECK (octet_length(host) <= 260),
    requests bigint NOT NULL DEFAULT 0
        CHECK (requests >= 0),
    bytes bigint NOT NULL DEFAULT 0
        CHECK (bytes >= 0),
    refused bigint NOT NULL DEFAULT 0
        CHECK (refused >= 0),
    failures integer NOT NULL DEFAULT 0
        CHECK (failures >= 0),
    backoffs integer NOT NULL DEFAULT 0
        CHECK (backoffs >= 0),
    backoff_until timestamptz,
    backoff_reason text
        CHECK (octet_length(backoff_reason) <= 1000),
    limit_total bigint,
    limit_remaining bigint,
    answered_at timestamptz,
    whole_until timestamptz,
    whole_reason text
        CHECK (octet_length(whole_reason) <= 1000),
    updated_at timestamptz NOT NULL DEFAULT now(),
    reset_backoff boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX host_backoff ON atproto.host (backoff_until) WHERE backoff_until IS NOT NULL;
CREATE INDEX host_reset_backoff ON atproto.host (host) WHERE reset_backoff;
COMMENT ON TABLE atproto.host IS 'hosts that the fetcher has asked lately, with their state and backoff, so that a host that refused requests is left alone after a restart, too; in no dump';
COMMENT ON COLUMN atproto.host.host IS 'name of the host, with :port unless the port is that of the scheme';
COMMENT ON COLUMN atproto.host.requests IS 'ended requests';
COMMENT ON COLUMN atproto.host.bytes IS 'bytes received';
COMMENT ON COLUMN atproto.host.refused IS 'answers with status 429 or 503';
COMMENT ON COLUMN atproto.host.failures IS 'failures in a row; after five the host is in backoff, and then one request at a time tries it';
COMMENT ON COLUMN atproto.host.backoffs IS 'how many times in a row a backoff of the host began for failures';
COMMENT ON COLUMN atproto.host.backoff_until IS 'the fetcher sends the host no request before this time; see atproto.reset_backoff()';
COMMENT ON COLUMN atproto.host.backoff_reason IS 'why the last backoff of the host began';
COMMENT ON COLUMN atproto.host.limit_total IS 'requests that the host allows, by the rate-limit headers of its last answer';
COMMENT ON COLUMN atproto.host.limit_remaining IS 'requests left of limit_total, by the rate-limit headers of the host''s last answer';
COMMENT ON COLUMN atproto.host.answered_at IS 'time of the last answer that was neither a refusal nor an error of the server';
COMMENT ON COLUMN atproto.host.whole_until IS 'the fetcher asks the host for whole repositories only before this time, because the host has refused parts of one; see atproto.reset_backoff()';
COMMENT ON COLUMN atproto.host.whole_reason IS 'how the host refused parts of a repository';
COMMENT ON COLUMN atproto.host.updated_at IS 'when the fetcher wrote the row last; at most once a second';
COMMENT ON COLUMN atproto.host.reset_backoff IS 'atproto.reset_backoff() was called, and the fetcher has not seen the call yet';

-- no row belongs to a role, so the policy lets every role pass; a role that reads the table or ends a backoff still needs a grant
ALTER TABLE atproto.host ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.host USING (true);

CREATE VIEW atproto.stat_host AS
    SELECT host,
        CASE
            WHEN backoff_until > pg_catalog.now() THEN 'backoff'
            WHEN failures >= 5 THEN 'trial'
            WHEN failures > 0 THEN 'failing'
            ELSE 'good'
        END AS state,
        requests,
        bytes,
        refused,
        failures,
        CASE WHEN backoff_until > pg_catalog.now() THEN backoff_until END AS backoff_until,
        CASE WHEN backoff_until > pg_catalog.now() OR failures > 0 THEN backoff_reason END AS reason,
        limit_total,
        limit_remaining,
        answered_at,
        CASE WHEN whole_until > pg_catalog.now() THEN whole_until END AS whole_until,
        CASE WHEN whole_until > pg_catalog.now() THEN whole_reason END AS whole_reason
    FROM atproto.host;
COMMENT ON VIEW atproto.stat_host IS 'one row for each host that the fetcher has asked lately';
COMMENT ON COLUMN atproto.stat_host.host IS 'name of the host, with :port unless the port is that of the scheme';
COMMENT ON COLUMN atproto.stat_host.state IS 'good: the last request succeeded; failing: the last requests failed; backoff: the fetcher leaves the host alone; trial: one request at a time tests a host that had failed too often';
COMMENT ON COLUMN atproto.stat_host.reason IS 'why the host is in backoff, or failing';
GRANT SELECT ON atproto.stat_host TO pg_monitor;

CREATE FUNCTION atproto.reset_backoff(host text) RETURNS boolean
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_reset_backoff';
COMMENT ON FUNCTION atproto.reset_backoff(text) IS 'end the backoff of a host, so that the fetcher asks the host again at once, for parts of repositories, too; false: the host is not in atproto.host';
REVOKE ALL ON FUNCTION atproto.reset_backoff(text) FROM PUBLIC;

CREATE TABLE atproto.fetch_settings (
    one boolean PRIMARY KEY DEFAULT true
        CHECK (one),
    digest bytea NOT NULL
        CHECK (octet_length(digest) = 32),
    since timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE atproto.fetch_settings IS 'one row: the settings under which the fetcher works; after a change of atproto.fetch_allow, fetch_any_port, fetch_ca_file, fetch_proxy, name_servers or plc_url, what failed is due at once; in no dump';
COMMENT ON COLUMN atproto.fetch_settings.one IS 'true: there is one row';
COMMENT ON COLUMN atproto.fetch_settings.digest IS 'SHA-256 of these settings, and of size and time of the file atproto.fetch_ca_file';
COMMENT ON COLUMN atproto.fetch_settings.since IS 'when the fetcher noticed these settings';
-- without a policy: the row concerns no role but the table's owner
ALTER TABLE atproto.fetch_settings ENABLE ROW LEVEL SECURITY;
