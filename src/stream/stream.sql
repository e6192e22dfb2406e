
/*
 * src/stream: the consumer.  Everything here lives in the fixed schema
 * atproto.  Nothing is granted to PUBLIC: subscribing makes the server open a
 * network connection.
 */

-- Checks, defaults, policies and views are parsed here.  Only pg_catalog is
-- searched for what they use: in the schema of the extension somebody could have
-- put an operator that fits better.
SET LOCAL search_path = pg_catalog, pg_temp;

CREATE TABLE atproto.subscription (
    name text PRIMARY KEY
        CHECK (octet_length(name) BETWEEN 1 AND 63),
    url text NOT NULL
        CHECK (octet_length(url) <= 8192),
    endpoint text NOT NULL,
    owner regrole NOT NULL DEFAULT to_regrole(quote_ident(current_user)),
    enabled boolean NOT NULL DEFAULT true,
    target name NOT NULL DEFAULT 'atproto',
    collections text[],
    dids @extschema@.did[],
    actions text[]
        CHECK (actions <@ ARRAY['create', 'update', 'delete']),
    keep_records boolean NOT NULL DEFAULT true,
    events text NOT NULL DEFAULT 'none'
        CHECK (events IN ('none', 'keep', 'hand')),
    keep_raw boolean NOT NULL DEFAULT false,
    max_dead_letters integer NOT NULL DEFAULT 10000
        CHECK (max_dead_letters >= 0),
    max_dead_letter_bytes bigint NOT NULL DEFAULT 268435456
        CHECK (max_dead_letter_bytes >= 0),
    allow_insecure boolean NOT NULL DEFAULT false,
    ca_file text,
    proxy text,
    workers integer NOT NULL DEFAULT 1
        CHECK (workers BETWEEN 1 AND 32),
    stopped text,
    stopped_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE atproto.subscription IS 'event streams that this database follows; maintained by atproto.subscribe() and its siblings';
COMMENT ON COLUMN atproto.subscription.url IS 'wss://host/xrpc/NSID; a new URL begins with a cursor of its own';
COMMENT ON COLUMN atproto.subscription.endpoint IS 'scheme, host, port and path of url, filled by a trigger: what a cursor belongs to';
COMMENT ON COLUMN atproto.subscription.owner IS 'role that the consumer runs as; it cannot be dropped';
COMMENT ON COLUMN atproto.subscription.enabled IS 'false after atproto.pause()';
COMMENT ON COLUMN atproto.subscription.target IS 'schema of the tables that are filled';
COMMENT ON COLUMN atproto.subscription.collections IS 'only records of these collections: NSIDs, or patterns like app.bsky.*; NULL: all';
COMMENT ON COLUMN atproto.subscription.dids IS 'only these repositories; NULL: all';
COMMENT ON COLUMN atproto.subscription.actions IS 'only these actions on records: create, update, delete; NULL: all';
COMMENT ON COLUMN atproto.subscription.keep_records IS 'whether the table record is kept in step';
COMMENT ON COLUMN atproto.subscription.events IS 'table record_event: none; keep every operation; or hand it to that table''s triggers and remove it in the same transaction';
COMMENT ON COLUMN atproto.subscription.keep_raw IS 'whether the DAG-CBOR is kept beside jsonb';
COMMENT ON COLUMN atproto.subscription.max_dead_letters IS 'with so many dead letters the subscription stops before the next one; a repository may have a twentieth of them';
COMMENT ON COLUMN atproto.subscription.max_dead_letter_bytes IS 'likewise, of the bytes of their messages';
COMMENT ON COLUMN atproto.subscription.allow_insecure IS 'plain ws:// allowed to other hosts than this one';
COMMENT ON COLUMN atproto.subscription.ca_file IS 'file on the server with the certificate authorities to trust, instead of the system''s; for members of pg_read_server_files';
COMMENT ON COLUMN atproto.subscription.proxy IS 'URL of a proxy; NULL: as the server''s environment says; empty: none';
COMMENT ON COLUMN atproto.subscription.workers IS 'more than 1: so many processes share the repositories of the stream, beside the one that receives it';
COMMENT ON COLUMN atproto.subscription.stopped IS 'why the consumer gave up until atproto.resume(); NULL when it did not';

-- Apart from the subscriptions, so that who may read those sees no secret.
CREATE TABLE atproto.request_header (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    name text NOT NULL
        CHECK (name ~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]{1,64}$'
            AND lower(name) NOT IN ('host', 'upgrade', 'connection', 'content-length', 'transfer-encoding')
            AND lower(name) NOT LIKE 'sec-websocket-%'),
    value text NOT NULL
        CHECK (value ~ '^[\x20-\x7e]*$' AND octet_length(value) <= 4096),
    PRIMARY KEY (subscription, name)
);
COMMENT ON TABLE atproto.request_header IS 'HTTP headers sent with the upgrade request, such as Authorization';

CREATE TABLE atproto.cursor (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    shard integer NOT NULL DEFAULT 0
        CHECK (shard BETWEEN 0 AND 31),
    layout integer NOT NULL DEFAULT 0,
    seq bigint CHECK (seq BETWEEN 0 AND 9007199254740991),
    event_time timestamptz CHECK (isfinite(event_time)),
    events bigint NOT NULL DEFAULT 0
        CHECK (events BETWEEN 0 AND 9007199254740991),
    record_ops bigint NOT NULL DEFAULT 0
        CHECK (record_ops BETWEEN 0 AND 9007199254740991),
    settings_after bigint,
    settings bytea,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (subscription, endpoint, shard)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.cursor IS 'last event processed of each subscription and endpoint, committed together with its rows';
COMMENT ON COLUMN atproto.cursor.shard IS 'worker whose position this is; one row, 0, unless the subscription has several workers: then everything up to the lowest seq is processed';
COMMENT ON COLUMN atproto.cursor.layout IS 'changes with the number of workers: a worker moves only the shards that it was started for';
COMMENT ON COLUMN atproto.cursor.seq IS 'last sequence number processed; NULL: begin with the next live event; 0: with the oldest';
COMMENT ON COLUMN atproto.cursor.event_time IS 'time that the last event carries';
COMMENT ON COLUMN atproto.cursor.events IS 'events processed since the subscription was made';
COMMENT ON COLUMN atproto.cursor.record_ops IS 'rows applied since the subscription was made: operations on records, labels, messages';
COMMENT ON COLUMN atproto.cursor.settings IS 'SHA-256 of these settings: what settings_after is about';
COMMENT ON COLUMN atproto.cursor.settings_after IS 'the present filters and storage settings hold for events after this one';

CREATE TABLE atproto.dead_frame (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    digest bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (subscription, digest)
);
COMMENT ON TABLE atproto.dead_frame IS 'messages that dead letters are about, each once; one goes with its last letter';
COMMENT ON COLUMN atproto.dead_frame.digest IS 'SHA-256 of bytes';
COMMENT ON COLUMN atproto.dead_frame.bytes IS 'the whole WebSocket message';

CREATE TABLE atproto.dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    seq bigint,
    stage text NOT NULL CHECK (stage IN ('frame', 'message', 'commit', 'record', 'apply', 'beyond')),
    sqlstate text NOT NULL,
    message text NOT NULL,
    did @extschema@.did,
    path text NOT NULL DEFAULT '',
    digest bytea CHECK (digest IS NOT NULL OR stage = 'beyond'),
    attempts bigint NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (subscription, digest, path),
    FOREIGN KEY (subscription, digest) REFERENCES atproto.dead_frame ON UPDATE CASCADE ON DELETE CASCADE
);
-- did alone: with the path, an index entry could become too long
CREATE INDEX dead_letter_did ON atproto.dead_letter (did);
CREATE UNIQUE INDEX dead_letter_beyond ON atproto.dead_letter (subscription, did) WHERE stage = 'beyond';
COMMENT ON TABLE atproto.dead_letter IS 'what could not be processed, with the reason; its bytes are in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.seq IS 'sequence number of the event; for stage frame: of the last event before it';
COMMENT ON COLUMN atproto.dead_letter.stage IS 'frame: not an event-stream frame (the connection is dropped); message: a known message with wrong fields; commit: its blocks do not check; record: one record is invalid; apply: the database refused it; beyond: the repository has its share of letters, what else of it was refused is not kept';
COMMENT ON COLUMN atproto.dead_letter.did IS 'the repository, where that is known';
COMMENT ON COLUMN atproto.dead_letter.path IS 'the record within the commit; #identity or #account for such an event; empty for any other whole event';
COMMENT ON COLUMN atproto.dead_letter.digest IS 'of its message in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.attempts IS 'how often it was tried; for stage beyond: how many there were';

CREATE TABLE atproto.gap (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    after_seq bigint NOT NULL,
    before_seq bigint,
    reason text NOT NULL,
    detected_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE atproto.gap IS 'stretches of a stream that were missed';
COMMENT ON COLUMN atproto.gap.after_seq IS 'last event processed before the gap';
COMMENT ON COLUMN atproto.gap.before_seq IS 'first event that was, or would be, received after it; NULL: unknown';
COMMENT ON COLUMN atproto.gap.reason IS 'OutdatedCursor: the server no longer had what follows after_seq; set_cursor: the operator jumped ahead';

SELECT pg_catalog.pg_extension_config_dump('atproto.subscription', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.cursor', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.request_header', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_frame', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap_id_seq', '');

-- Who may use the tables without being superuser still sees only subscriptions
-- of roles that he is a member of, and what belongs to them.
ALTER TABLE atproto.subscription ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.subscription
    USING (pg_catalog.pg_has_role(owner, 'USAGE'));
ALTER TABLE atproto.request_header ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.request_header
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.cursor ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.cursor
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.dead_frame ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_frame
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.dead_letter ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_letter
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.gap ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.gap
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

-- Functions that run SQL do so with a search_path of their own, wherever the caller
-- looks for operators.  (retry() and refill() set it after they have settled what
-- the caller's transaction still has to do.)

-- Checks the row, and tells the processes that run it, when the change commits.
CREATE FUNCTION atproto.subscription_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_check';
COMMENT ON FUNCTION atproto.subscription_check() IS 'trigger: validates a subscription';
CREATE FUNCTION atproto.subscription_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_changed';
COMMENT ON FUNCTION atproto.subscription_changed() IS 'trigger: wakes the consumer''s processes at commit';
CREATE TRIGGER subscription_check BEFORE INSERT OR UPDATE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_check();
-- also for what comes by logical replication
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check;
CREATE TRIGGER subscription_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.subscription_changed();
CREATE FUNCTION atproto.subscription_owned() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_owned';
COMMENT ON FUNCTION atproto.subscription_owned() IS 'trigger: sees to it that the owner of a subscription cannot be dropped';
CREATE TRIGGER subscription_owned AFTER INSERT OR UPDATE OF owner OR DELETE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_owned();
CREATE TRIGGER subscription_none AFTER TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.subscription_owned();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_owned;
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_none;

-- The bytes go with the last letter about them.
CREATE FUNCTION atproto.dead_letter_removed() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_dead_letter_removed';
COMMENT ON FUNCTION atproto.dead_letter_removed() IS 'trigger: removes messages that no dead letter is about any more';
CREATE TRIGGER dead_letter_removed AFTER DELETE ON atproto.dead_letter
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atproto.dead_letter_removed();
CREATE TRIGGER dead_letter_truncated AFTER TRUNCATE ON atproto.dead_letter
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.dead_letter_removed();

CREATE FUNCTION atproto.create_tables(target name) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_create_tables_sql';
COMMENT ON FUNCTION atproto.create_tables(name) IS 'make the tables that subscriptions fill, those that the schema does not have yet; subscribe() does it by itself';
CREATE FUNCTION atproto.subscribe(
    name text,
    url text,
    cursor bigint DEFAULT NULL,
    target name DEFAULT 'atproto',
    collections text[] DEFAULT NULL,
    dids @extschema@.did[] DEFAULT NULL,
    actions text[] DEFAULT NULL,
    keep_records boolean DEFAULT true,
    events text DEFAULT 'none',
    keep_raw boolean DEFAULT false,
    allow_insecure boolean DEFAULT false,
    ca_file text DEFAULT NULL,
    proxy text DEFAULT NULL,
    headers jsonb DEFAULT NULL,
    workers integer DEFAULT 1
) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscribe';
COMMENT ON FUNCTION atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer) IS 'follow an event stream; cursor NULL: from now on, 0: from the oldest event that the server has, n: from the event after n; the rest as the columns of atproto.subscription';
CREATE FUNCTION atproto.unsubscribe(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unsubscribe';
COMMENT ON FUNCTION atproto.unsubscribe(text) IS 'forget a subscription, its cursor, gaps and dead letters; records stay';
CREATE FUNCTION atproto.pause(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_pause';
COMMENT ON FUNCTION atproto.pause(text) IS 'disconnect; the cursor stays';
CREATE FUNCTION atproto.resume(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_resume';
COMMENT ON FUNCTION atproto.resume(text) IS 'connect again after atproto.pause(), or after the consumer stopped by itself';
CREATE FUNCTION atproto.set_cursor(name text, seq bigint) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_set_cursor';
COMMENT ON FUNCTION atproto.set_cursor(text, bigint) IS 'continue after event seq of the present URL; NULL: from now on, 0: from the oldest event';
CREATE FUNCTION atproto.refill(name text, dids @extschema@.did[] DEFAULT NULL, seq bigint DEFAULT 0) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_refill';
COMMENT ON FUNCTION atproto.refill(text, @extschema@.did[], bigint) IS 'read the events after seq again, of these repositories or of all: what the tables lack is filled in; returns how many repositories';
CREATE FUNCTION atproto.retry(id bigint) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_retry';
COMMENT ON FUNCTION atproto.retry(bigint) IS 'process a dead letter again, as the subscription''s owner: "applied" or "obsolete" remove it, anything else is why it stays';
CREATE FUNCTION atproto.stream_status(
    OUT name text, OUT pid integer, OUT state text, OUT connected_at timestamptz,
    OUT received bigint, OUT bytes bigint, OUT batches bigint, OUT reconnects bigint,
    OUT drops jsonb, OUT skips jsonb, OUT last_error text, OUT last_error_at timestamptz
) RETURNS SETOF record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_stream_status';
COMMENT ON FUNCTION atproto.stream_status() IS 'live state of this database''s consumers since the server started; of others'' only for members of pg_monitor';

REVOKE ALL ON FUNCTION
    atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer),
    atproto.create_tables(name), atproto.retry(bigint), atproto.unsubscribe(text),
    atproto.pause(text), atproto.resume(text), atproto.set_cursor(text, bigint),
    atproto.refill(text, @extschema@.did[], bigint),
    atproto.stream_status(), atproto.subscription_check(), atproto.subscription_changed(),
    atproto.subscription_owned(), atproto.dead_letter_removed()
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION atproto.stream_status() TO pg_monitor;

CREATE FUNCTION atproto.consumer_pid(name text) RETURNS integer
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_consumer_pid';
COMMENT ON FUNCTION atproto.consumer_pid(text) IS 'process that consumes a subscription of this database; NULL: none';
REVOKE ALL ON FUNCTION atproto.consumer_pid(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION atproto.consumer_pid(text) TO pg_monitor;

-- What a reader's functions are given is only what he may see; and nothing that an
-- owner writes into his rows keeps others from reading theirs.
CREATE VIEW atproto.stat_subscription WITH (security_barrier) AS
    SELECT s.name,
        COALESCE(p.pid, h.pid) AS pid,
        CASE
            WHEN s.stopped IS NOT NULL THEN 'stopped'
            WHEN NOT s.enabled THEN 'paused'
            WHEN p.state IS NOT NULL THEN p.state
            -- not preloaded: that it runs is all that can be seen
            WHEN h.pid IS NOT NULL THEN 'running'
            ELSE 'not running'
        END AS state,
        c.seq,
        c.event_time,
        EXTRACT(epoch FROM now() - c.event_time) AS lag_seconds,
        c.events,
        c.record_ops,
        p.connected_at,
        p.received,
        p.bytes,
        p.batches,
        p.reconnects,
        p.drops,
        p.skips,
        left(COALESCE(s.stopped, p.last_error), 2000) AS last_error,
        COALESCE(s.stopped_at, p.last_error_at) AS last_error_at
    FROM atproto.subscription s
        LEFT JOIN atproto.stream_status() p ON p.name = s.name
        CROSS JOIN LATERAL (SELECT atproto.consumer_pid(s.name) AS pid) h
        CROSS JOIN LATERAL (SELECT min(seq) AS seq, min(event_time) AS event_time, sum(events)::bigint AS events,
                sum(record_ops)::bigint AS record_ops
            FROM atproto.cursor WHERE subscription = s.name AND endpoint = s.endpoint) c
    -- the view reads the tables as their owner, so it does what row security would
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.stat_subscription IS 'one row for each subscription: what its consumer does and how far it is';
GRANT SELECT ON atproto.stat_subscription TO pg_monitor;

-- A manager that waits for the extension is woken when it is there.
CREATE FUNCTION atproto.wake() RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_wake';
COMMENT ON FUNCTION atproto.wake() IS 'at commit, make this database''s consumer processes look at the subscriptions';
REVOKE ALL ON FUNCTION atproto.wake() FROM PUBLIC;
SELECT atproto.wake();

-- as CREATE EXTENSION had it
SET LOCAL search_path = @extschema@, pg_temp;
