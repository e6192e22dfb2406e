/*
 * src/process: what an operator says to the consumers, and what they say of themselves.
 */

-- Functions that run SQL do so with a search_path of their own, wherever the caller
-- looks for operators.
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
    workers integer DEFAULT 1,
    verify text DEFAULT NULL,
    backfill text DEFAULT 'none',
    list_source text DEFAULT NULL,
    handles text DEFAULT 'none',
    host_is_pds boolean DEFAULT false,
    repo_source text DEFAULT NULL,
    list_hosts boolean DEFAULT false,
    count_collections boolean DEFAULT false,
    links text DEFAULT 'none',
    slice text DEFAULT NULL,
    validate text DEFAULT 'none',
    format text DEFAULT NULL
) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscribe';
COMMENT ON FUNCTION atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer, text, text, text, text, boolean, text, boolean, boolean, text, text, text, text) IS 'follow an event stream; cursor NULL: from now on, 0: from the oldest event that the server has, n: from the event after n; verify NULL: chain, but hash where the stream allows nothing else; the rest as the columns of atproto.subscription';
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
CREATE FUNCTION atproto.close_gap(id bigint, how text DEFAULT NULL) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_close_gap';
COMMENT ON FUNCTION atproto.close_gap(bigint, text) IS 'say that what a gap left out is there now, and how it came; the row stays, with the time';
CREATE FUNCTION atproto.stream_status(
    OUT name text, OUT pid integer, OUT state text, OUT connected_at timestamptz,
    OUT received bigint, OUT bytes bigint, OUT batches bigint, OUT reconnects bigint,
    OUT drops jsonb, OUT skips jsonb, OUT last_error text, OUT last_error_at timestamptz,
    OUT filtered_by_server text[], OUT compressed boolean, OUT follows boolean,
    OUT rate double precision, OUT caught_up_at timestamptz
) RETURNS SETOF record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_stream_status';
COMMENT ON FUNCTION atproto.stream_status() IS 'live state of this database''s consumers since the server started; of others'' only for members of pg_monitor';

REVOKE ALL ON FUNCTION
    atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer, text, text, text, text, boolean, text, boolean, boolean, text, text, text, text),
    atproto.unsubscribe(text), atproto.pause(text), atproto.resume(text), atproto.set_cursor(text, bigint),
    atproto.close_gap(bigint, text), atproto.stream_status()
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
        -- no source is ahead of this machine's clock
        CASE WHEN o.best IS NOT NULL AND c.event_time IS NOT NULL
            THEN GREATEST(EXTRACT(epoch FROM o.best - LEAST(c.event_time, now())), 0)
        END AS behind,
        c.events,
        c.record_ops,
        p.connected_at,
        p.received,
        p.bytes,
        p.batches,
        p.reconnects,
        p.drops,
        k.skips,
        COALESCE((k.skips ->> 'verified')::bigint, 0) AS verified,
        COALESCE((k.skips ->> 'bad_signature')::bigint, 0) AS bad_signatures,
        COALESCE((k.skips ->> 'break')::bigint, 0) AS breaks,
        COALESCE((k.skips ->> 'incomplete')::bigint, 0) AS incomplete,
        COALESCE((k.skips ->> 'mismatch')::bigint, 0) AS mismatches,
        COALESCE((k.skips ->> 'forked')::bigint, 0) AS forked,
        COALESCE((k.skips ->> 'old')::bigint, 0) AS old,
        COALESCE((k.skips ->> 'skipped_revs')::bigint, 0) AS skipped_revs,
        e.held_events,
        e.held_bytes,
        e.held_since,
        left(COALESCE(s.stopped, p.last_error), 2000) AS last_error,
        COALESCE(s.stopped_at, p.last_error_at) AS last_error_at,
        CASE
            WHEN s.stopped IS NOT NULL THEN false
            WHEN p.last_error_at IS NOT NULL THEN NOT s.enabled OR COALESCE(p.connected_at > p.last_error_at, false)
        END AS last_error_is_past,
        s.slice,
        p.filtered_by_server,
        CASE WHEN p.filtered_by_server IS NOT NULL THEN
            ARRAY(SELECT f.name FROM (VALUES ('collections', s.collections IS NULL), ('dids', s.dids IS NULL),
                    ('actions', s.actions IS NULL), ('slice', s.slice IS NULL)) f (name, is_all)
                WHERE NOT f.is_all AND f.name <> ALL (p.filtered_by_server))
        END AS filtered_here,
        p.compressed,
        p.follows,
        round(p.rate::numeric, 2) AS rate,
        p.caught_up_at
    FROM atproto.subscription s
        LEFT JOIN atproto.stream_status() p ON p.name = s.name
        CROSS JOIN LATERAL (SELECT atproto.consumer_pid(s.name) AS pid) h
        CROSS JOIN LATERAL (SELECT min(seq) AS seq, min(event_time) AS event_time, sum(events)::bigint AS events,
                sum(record_ops)::bigint AS record_ops
            FROM atproto.cursor WHERE subscription = s.name AND endpoint = s.endpoint) c
        -- of all endpoints that it has had
        CROSS JOIN LATERAL (SELECT COALESCE(jsonb_object_agg(a.key, a.n), '{}') AS skips
            FROM (SELECT e.key, sum(e.value::numeric) AS n FROM atproto.cursor u, jsonb_each_text(u.skips) e
                WHERE u.subscription = s.name GROUP BY e.key) a) k
        CROSS JOIN LATERAL (SELECT count(*) AS held_events, COALESCE(sum(octet_length(bytes)), 0)::bigint AS held_bytes,
                min(held_at) AS held_since
            FROM atproto.held_event WHERE subscription = s.name) e
        -- how far the best of the others is that fill the same tables
        CROSS JOIN LATERAL (SELECT max(LEAST(t.event_time, now())) AS best
            FROM (SELECT min(event_time) AS event_time
                FROM atproto.subscription b JOIN atproto.cursor k ON k.subscription = b.name AND k.endpoint = b.endpoint
                WHERE b.target = s.target AND b.name <> s.name AND b.enabled AND b.stopped IS NULL
                    -- relays and Jetstreams bring the same
                    AND regexp_replace(b.endpoint, '^.*/(com\.atproto\.sync\.subscribeRepos$|network\.bsky\.jetstream\.subscribeEvents$|subscribe$)?', '')
                        = regexp_replace(s.endpoint, '^.*/(com\.atproto\.sync\.subscribeRepos$|network\.bsky\.jetstream\.subscribeEvents$|subscribe$)?', '')
                GROUP BY b.name) t) o
    -- the view reads the tables as their owner, so it does what row security would
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.stat_subscription IS 'one row for each subscription: what its consumer does and how far it is';
COMMENT ON COLUMN atproto.stat_subscription.name IS 'the subscription';
COMMENT ON COLUMN atproto.stat_subscription.pid IS 'its process; NULL: none runs';
COMMENT ON COLUMN atproto.stat_subscription.state IS 'starting: its process has begun; connecting: it opens a connection; streaming: events come, or would; waiting: it has no connection, and tries again by itself, see last_error; stopped: it has given up until atproto.resume(), see last_error; paused: by atproto.pause(); running: it has a process, of which nothing else is known, since the library is not preloaded; not running: it has no process, see last_error';
COMMENT ON COLUMN atproto.stat_subscription.seq IS 'last event that was committed';
COMMENT ON COLUMN atproto.stat_subscription.event_time IS 'time that this event carries';
COMMENT ON COLUMN atproto.stat_subscription.lag_seconds IS 'now minus event_time: it grows while nothing happens, too';
COMMENT ON COLUMN atproto.stat_subscription.behind IS 'seconds that event_time is behind that of the best other source of the same target; 0: this is the best; NULL: there is no other';
COMMENT ON COLUMN atproto.stat_subscription.events IS 'events committed since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.record_ops IS 'operations on records, labels, messages, since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.connected_at IS 'since when it has its connection; NULL: it has none';
COMMENT ON COLUMN atproto.stat_subscription.received IS 'WebSocket messages since the server started';
COMMENT ON COLUMN atproto.stat_subscription.bytes IS 'bytes of these, after TLS';
COMMENT ON COLUMN atproto.stat_subscription.batches IS 'transactions since the server started';
COMMENT ON COLUMN atproto.stat_subscription.reconnects IS 'connections that ended since the server started';
COMMENT ON COLUMN atproto.stat_subscription.drops IS 'why they ended, by kind';
COMMENT ON COLUMN atproto.stat_subscription.skips IS 'events that were passed over, and what was noticed, by kind, since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.verified IS 'commits whose signature was right (skips)';
COMMENT ON COLUMN atproto.stat_subscription.bad_signatures IS 'commits and labels whose signature was wrong (skips)';
COMMENT ON COLUMN atproto.stat_subscription.breaks IS 'commits before which others were missed (skips)';
COMMENT ON COLUMN atproto.stat_subscription.incomplete IS 'commits that cannot be proven (skips)';
COMMENT ON COLUMN atproto.stat_subscription.mismatches IS 'commits that leave out or invent operations (skips)';
COMMENT ON COLUMN atproto.stat_subscription.forked IS 'commits of a revision of which there are two (skips)';
COMMENT ON COLUMN atproto.stat_subscription.old IS 'events that were not newer than the repository (skips)';
COMMENT ON COLUMN atproto.stat_subscription.skipped_revs IS 'commits before which others were missed that came to nothing (skips)';
COMMENT ON COLUMN atproto.stat_subscription.held_events IS 'events that wait until they can be judged (atproto.held_event)';
COMMENT ON COLUMN atproto.stat_subscription.held_bytes IS 'bytes of these';
COMMENT ON COLUMN atproto.stat_subscription.held_since IS 'since when the oldest of these waits';
COMMENT ON COLUMN atproto.stat_subscription.last_error IS 'of the last connection or process that ended with one, or why the subscription stopped';
COMMENT ON COLUMN atproto.stat_subscription.last_error_at IS 'when that was';
COMMENT ON COLUMN atproto.stat_subscription.last_error_is_past IS 'whether that is over: it has connected again since, or it is paused; false: that is why it does not stream; NULL: there was no error';
COMMENT ON COLUMN atproto.stat_subscription.slice IS 'part of all repositories that it follows; NULL: all';
COMMENT ON COLUMN atproto.stat_subscription.filtered_by_server IS 'filters that the server of the present connection applies';
COMMENT ON COLUMN atproto.stat_subscription.filtered_here IS 'filters that the consumer applies';
COMMENT ON COLUMN atproto.stat_subscription.compressed IS 'whether the server was asked to compress what it sends';
COMMENT ON COLUMN atproto.stat_subscription.follows IS 'whether it waits a moment, since another source of the target mostly has what it brings before it';
COMMENT ON COLUMN atproto.stat_subscription.rate IS 'events a second that came lately; NULL: it has no connection, or nobody knows yet';
COMMENT ON COLUMN atproto.stat_subscription.caught_up_at IS 'when it will have caught up, as fast as it goes now; NULL: it has, nobody knows, or never';
GRANT SELECT ON atproto.stat_subscription TO pg_monitor;

-- History of this server: it is not dumped.
CREATE TABLE atproto.subscription_event (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    number bigint NOT NULL,
    at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    times bigint NOT NULL,
    event text NOT NULL,
    seq bigint,
    detail text,
    PRIMARY KEY (subscription, number)
) WITH (fillfactor = 70);
COMMENT ON TABLE atproto.subscription_event IS 'what happened to each subscription, the newest 1,000 of each; written by its consumer, read through atproto.subscription_log';
COMMENT ON COLUMN atproto.subscription_event.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.subscription_event.number IS 'in the order in which its consumer noticed them';
COMMENT ON COLUMN atproto.subscription_event.at IS 'when it happened';
COMMENT ON COLUMN atproto.subscription_event.last_at IS 'when it happened the last time';
COMMENT ON COLUMN atproto.subscription_event.times IS 'how often, from at to last_at: what happens again within a minute, or by the same failure of one process after the other, has no row of its own, nor what happens too often';
COMMENT ON COLUMN atproto.subscription_event.event IS 'failed: its process ended with an error, or the server crashed; started; connected; caught up; settings changed; dropped: the connection ended; paused; stopped: until atproto.resume(); node behind: a node of Citus has come back with older rows; ended: its process did, for another reason';
COMMENT ON COLUMN atproto.subscription_event.seq IS 'last event processed by then; NULL: none';
COMMENT ON COLUMN atproto.subscription_event.detail IS 'why, or with whom; of the last time';
ALTER TABLE atproto.subscription_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.subscription_event
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE VIEW atproto.subscription_log WITH (security_barrier) AS
    SELECT l.subscription, l.at, l.last_at, l.times, l.event, l.seq, l.detail
    FROM (SELECT subscription, at, last_at, times, event, seq, detail
            FROM atproto.subscription_event
            UNION ALL
            SELECT subscription, detected_at, detected_at, 1, 'gap', after_seq,
                reason || COALESCE(', up to ' || before_seq, '')
            FROM atproto.gap
            UNION ALL
            SELECT subscription, closed_at, closed_at, 1, 'gap closed', after_seq, closed_how
            FROM atproto.gap WHERE closed_at IS NOT NULL) l
        JOIN atproto.subscription s ON s.name = l.subscription
    -- as atproto.stat_subscription
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.subscription_log IS 'what happened to each subscription: atproto.subscription_event, and the gaps of its stream';
COMMENT ON COLUMN atproto.subscription_log.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.subscription_log.at IS 'when it happened';
COMMENT ON COLUMN atproto.subscription_log.last_at IS 'when it happened the last time';
COMMENT ON COLUMN atproto.subscription_log.times IS 'how often, from at to last_at';
COMMENT ON COLUMN atproto.subscription_log.event IS 'as in atproto.subscription_event; gap: events were missed; gap closed: they are there';
COMMENT ON COLUMN atproto.subscription_log.seq IS 'last event processed by then; NULL: none';
COMMENT ON COLUMN atproto.subscription_log.detail IS 'why, or with whom; of the last time';
GRANT SELECT ON atproto.subscription_log TO pg_monitor;

CREATE FUNCTION atproto.fetcher_status(
    OUT pid integer, OUT state text, OUT since timestamptz, OUT transfers integer, OUT requests bigint, OUT bytes bigint,
    OUT refused bigint, OUT errors jsonb, OUT last_error text, OUT last_error_at timestamptz
) RETURNS record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_fetcher_status';
COMMENT ON FUNCTION atproto.fetcher_status() IS 'live state of this database''s fetcher, and what it has done since it began';
REVOKE ALL ON FUNCTION atproto.fetcher_status() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION atproto.fetcher_status() TO pg_monitor;
CREATE VIEW atproto.stat_fetcher AS
    SELECT pid, state, since, transfers, requests, bytes, refused, errors, last_error, last_error_at
    FROM atproto.fetcher_status();
COMMENT ON VIEW atproto.stat_fetcher IS 'the process that asks other hosts: one row; state waiting: there is work for it, but it does not run';
COMMENT ON COLUMN atproto.stat_fetcher.pid IS 'its process; NULL: it does not run';
COMMENT ON COLUMN atproto.stat_fetcher.state IS 'running: it asks; waiting: there is work for it, but it does not run, see last_error; not running: there is nothing to ask';
COMMENT ON COLUMN atproto.stat_fetcher.since IS 'when it began, or ended';
COMMENT ON COLUMN atproto.stat_fetcher.transfers IS 'requests that are under way';
COMMENT ON COLUMN atproto.stat_fetcher.requests IS 'requests that it has made since it began';
COMMENT ON COLUMN atproto.stat_fetcher.bytes IS 'that it has received since';
COMMENT ON COLUMN atproto.stat_fetcher.refused IS 'answers 429 and 503 since';
COMMENT ON COLUMN atproto.stat_fetcher.errors IS 'failures since, by kind';
COMMENT ON COLUMN atproto.stat_fetcher.last_error IS 'what the last process ended with';
COMMENT ON COLUMN atproto.stat_fetcher.last_error_at IS 'when that was';
GRANT SELECT ON atproto.stat_fetcher TO pg_monitor;

-- Tells the processes of a change, when it commits.
CREATE FUNCTION atproto.subscription_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_changed';
COMMENT ON FUNCTION atproto.subscription_changed() IS 'trigger: wakes the consumer''s processes at commit';
CREATE TRIGGER subscription_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.subscription_changed();
REVOKE ALL ON FUNCTION atproto.subscription_changed() FROM PUBLIC;

-- A target is known by its schema's name: ALTER SCHEMA … RENAME takes along what belongs to it.
CREATE FUNCTION atproto.target_renamed() RETURNS event_trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_target_renamed';
COMMENT ON FUNCTION atproto.target_renamed() IS 'event trigger: a schema that subscriptions fill has another name, and so has the target of all that belongs to it';
REVOKE ALL ON FUNCTION atproto.target_renamed() FROM PUBLIC;
CREATE EVENT TRIGGER atproto_target_renamed ON ddl_command_end WHEN TAG IN ('ALTER SCHEMA')
    EXECUTE FUNCTION atproto.target_renamed();
COMMENT ON EVENT TRIGGER atproto_target_renamed IS 'ALTER SCHEMA … RENAME takes subscriptions, held events, jobs, wishes and audits of the schema along';

-- A manager that waits for the extension is woken when it is there.
CREATE FUNCTION atproto.wake() RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_wake';
COMMENT ON FUNCTION atproto.wake() IS 'at commit, make this database''s consumer processes look at the subscriptions';
REVOKE ALL ON FUNCTION atproto.wake() FROM PUBLIC;
SELECT atproto.wake();

-- as CREATE EXTENSION had it
SET LOCAL search_path = @extschema@, pg_temp;
