/*
 * src/fetch: the hosts that are asked.
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
    rests integer NOT NULL DEFAULT 0
        CHECK (rests >= 0),
    parked_until timestamptz,
    park_reason text
        CHECK (octet_length(park_reason) <= 1000),
    limit_total bigint,
    limit_remaining bigint,
    answered_at timestamptz,
    updated_at timestamptz NOT NULL DEFAULT now(),
    unpark boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX host_parked ON atproto.host (parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX host_unpark ON atproto.host (host) WHERE unpark;
COMMENT ON TABLE atproto.host IS 'hosts that the fetcher has asked lately, so that it leaves alone who wants to be left alone, after a restart, too; in no dump';
COMMENT ON COLUMN atproto.host.host IS 'name, and :port where it is not that of the scheme';
COMMENT ON COLUMN atproto.host.requests IS 'requests that have ended';
COMMENT ON COLUMN atproto.host.bytes IS 'received';
COMMENT ON COLUMN atproto.host.refused IS 'answers 429 and 503';
COMMENT ON COLUMN atproto.host.failures IS 'failures in a row; after five the host rests, and then one request at a time tries it';
COMMENT ON COLUMN atproto.host.rests IS 'how often in a row it has had to rest for failures';
COMMENT ON COLUMN atproto.host.parked_until IS 'not asked before; see atproto.unpark()';
COMMENT ON COLUMN atproto.host.park_reason IS 'what it was parked for last';
COMMENT ON COLUMN atproto.host.limit_total IS 'requests that it grants, as it said last';
COMMENT ON COLUMN atproto.host.limit_remaining IS 'requests that were left of these';
COMMENT ON COLUMN atproto.host.answered_at IS 'its last answer that was neither a refusal nor an error of its own';
COMMENT ON COLUMN atproto.host.updated_at IS 'written last; at most once a second';
COMMENT ON COLUMN atproto.host.unpark IS 'somebody wants it to be asked again: the fetcher has not seen that yet';

-- nothing here is any role's own; who reads or unparks needs a grant all the same
ALTER TABLE atproto.host ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.host USING (true);

CREATE VIEW atproto.stat_host AS
    SELECT host,
        CASE
            WHEN parked_until > pg_catalog.now() THEN 'parked'
            WHEN failures >= 5 THEN 'trial'
            WHEN failures > 0 THEN 'failing'
            ELSE 'good'
        END AS state,
        requests,
        bytes,
        refused,
        failures,
        CASE WHEN parked_until > pg_catalog.now() THEN parked_until END AS parked_until,
        CASE WHEN parked_until > pg_catalog.now() OR failures > 0 THEN park_reason END AS reason,
        limit_total,
        limit_remaining,
        answered_at
    FROM atproto.host;
COMMENT ON VIEW atproto.stat_host IS 'one row for each host that the fetcher has asked lately';
COMMENT ON COLUMN atproto.stat_host.host IS 'name, and :port where it is not that of the scheme';
COMMENT ON COLUMN atproto.stat_host.state IS 'good: its last answer was one; failing: the last ones were none; parked: it is left alone; trial: one request at a time tries it';
COMMENT ON COLUMN atproto.stat_host.reason IS 'why it is parked, or failing';
GRANT SELECT ON atproto.stat_host TO pg_monitor;

CREATE FUNCTION atproto.unpark(host text) RETURNS boolean
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unpark';
COMMENT ON FUNCTION atproto.unpark(text) IS 'end a host''s rest: it is asked again at once; false: nothing is known of this host';
REVOKE ALL ON FUNCTION atproto.unpark(text) FROM PUBLIC;
