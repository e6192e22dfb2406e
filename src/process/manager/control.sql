/*
 * src/process: functions by which an operator controls the consumers, and views of their state.
 */

-- A function that runs SQL sets a search_path, because the caller's search_path could lead to
-- other operators.
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
    format text DEFAULT NULL,
    history text DEFAULT 'none',
    archive_source text DEFAULT NULL,
    archive_token text DEFAULT NULL,
    fetch_as text DEFAULT 'auto',
    identities boolean DEFAULT false
) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscribe';
COMMENT ON FUNCTION atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer, text, text, text, text, boolean, text, boolean, boolean, text, text, text, text, text, text, text, text, boolean) IS 'follow an event stream; cursor NULL: from now on, 0: from the oldest event the server has, n: from the event after n; verify NULL: chain, but hash where the stream allows no more; archive_token becomes a row of atproto.request_header; for the other parameters see the columns of atproto.subscription. Experimental: history, archive_source, archive_token, fetch_as, identities.';
CREATE FUNCTION atproto.unsubscribe(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unsubscribe';
COMMENT ON FUNCTION atproto.unsubscribe(text) IS 'remove a subscription, its cursor, gaps and dead letters; the repositories of the dead letters become desynchronized; records stay, and so do gaps about held events or dead letters that were dropped';
CREATE FUNCTION atproto.pause(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_pause';
COMMENT ON FUNCTION atproto.pause(text) IS 'disconnect; the cursor stays';
CREATE FUNCTION atproto.resume(name text) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_resume';
COMMENT ON FUNCTION atproto.resume(text) IS 'connect again after atproto.pause(), or after the consumer stopped by itself';
CREATE FUNCTION atproto.set_cursor(name text, seq bigint) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_set_cursor';
COMMENT ON FUNCTION atproto.set_cursor(text, bigint) IS 'continue after event seq of the present URL; NULL: from now on, 0: from the oldest event';
CREATE FUNCTION atproto.history_again(name text, after bigint DEFAULT 0) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_history_again_sql';
COMMENT ON FUNCTION atproto.history_again(text, bigint) IS 'read the archive again, from the row after this sequence number on, and then the stream; with a number ahead of the position, the rows between are skipped, and become a gap. Experimental.';
CREATE PROCEDURE atproto.await_history(name text, timeout interval DEFAULT NULL)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_await_history';
COMMENT ON PROCEDURE atproto.await_history(text, interval) IS 'wait until a subscription has read the archive up to its end, with a notice every five seconds; an error after the timeout, or when the subscription is paused or has stopped. Experimental.';
CREATE FUNCTION atproto.close_gap(id bigint, how text DEFAULT NULL) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_close_gap';
COMMENT ON FUNCTION atproto.close_gap(bigint, text) IS 'note that the missing events of a gap are in the tables now, and how they got there; the row stays, with the time';
CREATE FUNCTION atproto_internal.stream_status(
    OUT name text, OUT pid integer, OUT state text, OUT connected_at timestamptz,
    OUT received bigint, OUT bytes bigint, OUT batches bigint, OUT reconnects bigint,
    OUT drops jsonb, OUT skips jsonb, OUT last_error text, OUT last_error_at timestamptz,
    OUT filtered_by_server text[], OUT compressed boolean, OUT follows boolean,
    OUT rate double precision, OUT caught_up_at timestamptz, OUT id uuid, OUT current_at timestamptz
) RETURNS SETOF record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_stream_status';
COMMENT ON FUNCTION atproto_internal.stream_status() IS 'live state of this database''s consumers since the server started; only members of pg_monitor see subscriptions of other roles';

REVOKE ALL ON FUNCTION
    atproto.subscribe(text, text, bigint, name, text[], @extschema@.did[], text[], boolean, text, boolean, boolean, text, text, jsonb, integer, text, text, text, text, boolean, text, boolean, boolean, text, text, text, text, text, text, text, text, boolean),
    atproto.unsubscribe(text), atproto.pause(text), atproto.resume(text), atproto.set_cursor(text, bigint),
    atproto.close_gap(bigint, text), atproto.history_again(text, bigint)
    FROM PUBLIC;
REVOKE ALL ON PROCEDURE atproto.await_history(text, interval) FROM PUBLIC;

CREATE FUNCTION atproto_internal.consumer_pid(name text) RETURNS integer
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_consumer_pid';
COMMENT ON FUNCTION atproto_internal.consumer_pid(text) IS 'pid of the process that consumes a subscription of this database; NULL: no process, or the subscription of a role of which the caller is no member, which only members of pg_monitor see';

CREATE FUNCTION atproto.why_not_served() RETURNS text
    LANGUAGE c STABLE STRICT AS 'MODULE_PATHNAME', 'atp_why_not_served_sql';
COMMENT ON FUNCTION atproto.why_not_served() IS 'why no process of the extension can run in this database, and what to do; NULL: a manager serves the database';

-- The view is a security barrier: functions in a reader's query get only rows that the reader may
-- see. And data that an owner writes into a row must not raise errors for other readers.
CREATE VIEW atproto.stat_subscription WITH (security_barrier) AS
    SELECT s.name,
        COALESCE(p.pid, h.pid) AS pid,
        d.state,
        c.seq,
        c.event_time,
        EXTRACT(epoch FROM now() - c.event_time) AS lag_seconds,
        -- a time in the future is cut to now: no source can be ahead of the clock
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
        COALESCE(e.held_events, 0) AS held_events,
        COALESCE(e.held_bytes, 0) AS held_bytes,
        e.held_since,
        left(COALESCE(s.stopped, d.why, p.last_error), 2000) AS last_error,
        CASE WHEN s.stopped IS NOT NULL THEN s.stopped_at WHEN d.why IS NULL THEN p.last_error_at END AS last_error_at,
        CASE
            WHEN s.stopped IS NOT NULL OR d.why IS NOT NULL THEN false
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
        LEFT JOIN atproto_internal.stream_status() p ON p.id = s.id
        CROSS JOIN LATERAL (SELECT atproto_internal.consumer_pid(s.name) AS pid) h
        -- OFFSET 0: state and reason come from the same call
        CROSS JOIN LATERAL (SELECT atproto.why_not_served() AS why OFFSET 0) w
        CROSS JOIN LATERAL (SELECT x.state, CASE WHEN x.state = 'not running' AND p.state IS DISTINCT FROM 'not running' THEN w.why END AS why
            FROM (SELECT CASE
                    WHEN s.stopped IS NOT NULL THEN 'stopped'
                    WHEN NOT s.enabled THEN 'paused'
                    WHEN p.pid IS NOT NULL THEN p.state
                    -- all we know is that a process holds the claim: the library is not preloaded, or has no room for the status
                    WHEN h.pid IS NOT NULL THEN 'running'
                    -- an error ended the last process, or none could be started
                    WHEN p.state = 'not running' OR w.why IS NOT NULL THEN 'not running'
                    ELSE 'starting'
                END AS state) x) d
        CROSS JOIN LATERAL (SELECT min(seq) AS seq, min(event_time) AS event_time, sum(events)::bigint AS events,
                sum(record_ops)::bigint AS record_ops
            FROM atproto.cursor WHERE subscription = s.name AND endpoint = s.endpoint) c
        -- summed over all endpoints the subscription has had; the owner may have written any numbers
        CROSS JOIN LATERAL (SELECT COALESCE(jsonb_object_agg(a.key, a.n), '{}') AS skips
            FROM (SELECT e.key, LEAST(sum(trunc(GREATEST(LEAST(e.value::numeric, 9007199254740991), 0))), 9007199254740991) AS n
                FROM atproto.cursor u, jsonb_each_text(u.skips) e
                WHERE u.subscription = s.name AND octet_length(e.key) <= 63 GROUP BY e.key ORDER BY e.key LIMIT 100) a) k
        -- of all subscriptions in a single scan
        LEFT JOIN (SELECT subscription, count(*) AS held_events, sum(octet_length(bytes))::bigint AS held_bytes, min(held_at) AS held_since
            FROM atproto.held_event GROUP BY subscription) e ON e.subscription = s.name
        -- the newest event time among the target's other sources
        CROSS JOIN LATERAL (SELECT max(LEAST(t.event_time, now())) AS best
            FROM (SELECT min(event_time) AS event_time
                FROM atproto.subscription b JOIN atproto.cursor k ON k.subscription = b.name AND k.endpoint = b.endpoint
                WHERE b.target = s.target AND b.name <> s.name AND b.enabled AND b.stopped IS NULL
                    AND atproto.role_may_fill(b.owner, b.target, b.target_owner)
                    -- relays and Jetstreams carry the same events: their paths count as equal
                    AND regexp_replace(b.endpoint, '^.*/(com\.atproto\.sync\.subscribeRepos$|network\.bsky\.jetstream\.subscribeEvents$|subscribe$)?', '')
                        = regexp_replace(s.endpoint, '^.*/(com\.atproto\.sync\.subscribeRepos$|network\.bsky\.jetstream\.subscribeEvents$|subscribe$)?', '')
                GROUP BY b.name) t
            -- LEAST() leaves out a NULL: a source without an event would count as one that has just had an event
            WHERE t.event_time IS NOT NULL) o
    -- the view runs with the rights of the view's owner, so the view repeats the condition of row security
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.stat_subscription IS 'one row for each subscription: the state and position of its consumer';
COMMENT ON COLUMN atproto.stat_subscription.name IS 'the subscription';
COMMENT ON COLUMN atproto.stat_subscription.pid IS 'pid of the consumer; NULL: no process is running';
COMMENT ON COLUMN atproto.stat_subscription.state IS 'starting: the process has begun, or is about to begin; connecting: a connection is being opened; streaming: connected, events are received as they come; history: the server''s archive is read before the stream, see atproto.history; waiting: no connection, and the consumer will try again by itself, see last_error; stopped: the consumer has given up until atproto.resume(), see last_error; paused: by atproto.pause(); running: a process exists, but no details are known since the library is not preloaded, or atproto.max_subscriptions is too small; not running: no process, see last_error';
COMMENT ON COLUMN atproto.stat_subscription.seq IS 'last event committed';
COMMENT ON COLUMN atproto.stat_subscription.event_time IS 'time in the last event committed';
COMMENT ON COLUMN atproto.stat_subscription.lag_seconds IS 'now minus event_time; grows also while no events happen';
COMMENT ON COLUMN atproto.stat_subscription.behind IS 'seconds by which event_time is behind the best other source of the same target; 0: no source is better; NULL: no other source';
COMMENT ON COLUMN atproto.stat_subscription.events IS 'events committed since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.record_ops IS 'operations on records, labels, messages, since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.connected_at IS 'since when the connection exists; NULL: no connection';
COMMENT ON COLUMN atproto.stat_subscription.received IS 'WebSocket messages since the server started';
COMMENT ON COLUMN atproto.stat_subscription.bytes IS 'bytes of received messages, after TLS';
COMMENT ON COLUMN atproto.stat_subscription.batches IS 'transactions since the server started';
COMMENT ON COLUMN atproto.stat_subscription.reconnects IS 'connections ended since the server started';
COMMENT ON COLUMN atproto.stat_subscription.drops IS 'reasons for ended connections, with counts';
COMMENT ON COLUMN atproto.stat_subscription.skips IS 'kinds of events passed over and of findings, with counts, since the subscription was made';
COMMENT ON COLUMN atproto.stat_subscription.verified IS 'commits with a valid signature (skips)';
COMMENT ON COLUMN atproto.stat_subscription.bad_signatures IS 'commits and labels with a wrong signature (skips)';
COMMENT ON COLUMN atproto.stat_subscription.breaks IS 'commits before which commits were missed (skips)';
COMMENT ON COLUMN atproto.stat_subscription.incomplete IS 'commits too incomplete for a proof of their operations (skips)';
COMMENT ON COLUMN atproto.stat_subscription.mismatches IS 'commits that omit or invent operations (skips)';
COMMENT ON COLUMN atproto.stat_subscription.forked IS 'second commits of a revision that already has a commit (skips)';
COMMENT ON COLUMN atproto.stat_subscription.old IS 'events not newer than the repository (skips)';
COMMENT ON COLUMN atproto.stat_subscription.skipped_revs IS 'commits before which commits without any effect were missed (skips)';
COMMENT ON COLUMN atproto.stat_subscription.held_events IS 'events held until they can be judged (atproto.held_event)';
COMMENT ON COLUMN atproto.stat_subscription.held_bytes IS 'bytes of the held events';
COMMENT ON COLUMN atproto.stat_subscription.held_since IS 'since when the oldest held event is held';
COMMENT ON COLUMN atproto.stat_subscription.last_error IS 'error of the last connection or process that ended with an error, or the reason why the subscription stopped, or why no process can run (atproto.why_not_served)';
COMMENT ON COLUMN atproto.stat_subscription.last_error_at IS 'when the last error happened; NULL: no error, or a reason that lasts (atproto.why_not_served)';
COMMENT ON COLUMN atproto.stat_subscription.last_error_is_past IS 'true: the error is past, since the subscription has connected again or is paused; false: the error is why the subscription does not stream; NULL: no error';
COMMENT ON COLUMN atproto.stat_subscription.slice IS 'the part of all repositories that is followed; NULL: all';
COMMENT ON COLUMN atproto.stat_subscription.filtered_by_server IS 'filters applied by the server of the present connection';
COMMENT ON COLUMN atproto.stat_subscription.filtered_here IS 'filters applied by the consumer';
COMMENT ON COLUMN atproto.stat_subscription.compressed IS 'whether the server was asked to compress messages';
COMMENT ON COLUMN atproto.stat_subscription.follows IS 'whether the consumer waits a moment before processing, because another source of the target mostly brings the same events earlier';
COMMENT ON COLUMN atproto.stat_subscription.rate IS 'recent number of events a second; NULL: no connection, or not known yet';
COMMENT ON COLUMN atproto.stat_subscription.caught_up_at IS 'estimated time at which the consumer will have caught up; NULL: caught up already, unknown, or never at the present rate';
GRANT SELECT ON atproto.stat_subscription TO pg_monitor;

-- The consumers and the fetcher read this view to find the logs that answer look-ups (M-31).
CREATE VIEW atproto.stat_directory WITH (security_barrier) AS
    SELECT s.name, s.target,
        s.dids IS NULL AND s.slice IS NULL AS whole,
        atproto.log_is_believed(s.owner, s.target) AS believed,
        -- the tables have all that the directory had at the greater of two times: of the last operation, and when the consumer last waited
        -- for the stream with nothing left to store.  seq 0: the log is read from its beginning.  Several workers follow no identities
        s.enabled AND s.stopped IS NULL AND COALESCE(p.state = 'streaming' AND c.seq > 0 AND c.shards = 1
            AND clock_timestamp() - GREATEST(p.current_at, LEAST(c.event_time, c.updated_at)) <= GREATEST(l.lag, interval '3 s'), false) AS fresh,
        -- an entry with a dead letter may be an operation of any account
        NOT EXISTS (SELECT FROM atproto.gap g WHERE s.dids IS NULL AND g.subscription = s.name AND g.endpoint = s.endpoint AND g.closed_at IS NULL)
            AND NOT EXISTS (SELECT FROM atproto.dead_letter d WHERE d.subscription = s.name) AS complete
    FROM atproto.subscription s
        LEFT JOIN atproto_internal.stream_status() p ON p.id = s.id
        CROSS JOIN LATERAL (SELECT min(k.seq) AS seq, min(k.event_time) AS event_time, min(k.updated_at) AS updated_at, count(*) AS shards
            FROM atproto.cursor k WHERE k.subscription = s.name AND k.endpoint = s.endpoint) c
        CROSS JOIN (SELECT current_setting('atproto.plc_lag', true)::interval AS lag) l
    WHERE s.identities AND (pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE'));
COMMENT ON VIEW atproto.stat_directory IS 'one row for each subscription to a did:plc directory with identities: whether the log answers look-ups, that is, is believed, fresh and complete. Experimental.';
COMMENT ON COLUMN atproto.stat_directory.name IS 'the subscription';
COMMENT ON COLUMN atproto.stat_directory.target IS 'schema of the log';
COMMENT ON COLUMN atproto.stat_directory.whole IS 'the log has all accounts: neither dids nor slice restricts it';
COMMENT ON COLUMN atproto.stat_directory.believed IS 'the owner, and all roles that may write the log''s tables, have the rights of the owner of atproto.identity';
COMMENT ON COLUMN atproto.stat_directory.fresh IS 'the stream is connected and has brought an operation, and the log lags behind the directory by less than atproto.plc_lag, or 3 s';
COMMENT ON COLUMN atproto.stat_directory.complete IS 'the subscription has no dead letter, and, without dids, its present stream has no open gap';
GRANT SELECT ON atproto.stat_directory TO pg_monitor;

-- The history of this server; not dumped.
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
COMMENT ON TABLE atproto.subscription_event IS 'the newest 1,000 events in the life of each subscription; written by its consumer, read through atproto.subscription_log';
COMMENT ON COLUMN atproto.subscription_event.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.subscription_event.number IS 'number in the order in which the consumer noticed the events';
COMMENT ON COLUMN atproto.subscription_event.at IS 'when the event happened first';
COMMENT ON COLUMN atproto.subscription_event.last_at IS 'when the event happened last';
COMMENT ON COLUMN atproto.subscription_event.times IS 'how often the event happened from at to last_at; repetitions have no rows of their own within a minute, when a process fails again in the same way, or when events come too fast';
COMMENT ON COLUMN atproto.subscription_event.event IS 'failed: the process ended with an error, or the server crashed; started; connected; caught up; settings changed; dropped: the connection ended; paused; stopped: until atproto.resume(); node behind: a node of Citus has come back with older rows; unknown name: first message with an unknown member, or of an unknown kind; ended: the process ended for another reason';
COMMENT ON COLUMN atproto.subscription_event.seq IS 'last event processed by then; NULL: no event';
COMMENT ON COLUMN atproto.subscription_event.detail IS 'reason or server, of the last time';
ALTER TABLE atproto.subscription_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.subscription_event
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));

CREATE VIEW atproto.subscription_log WITH (security_barrier) AS
    SELECT l.subscription, l.at, l.last_at, l.times, l.event, l.seq, l.detail
    FROM (SELECT subscription, at, last_at, times, event, seq, detail
            FROM atproto.subscription_event
            UNION ALL
            SELECT subscription, detected_at, detected_at, 1, 'gap', after_seq,
                left(reason, 2000) || COALESCE(', up to ' || before_seq, '')
            FROM atproto.gap
            UNION ALL
            SELECT subscription, closed_at, closed_at, 1, 'gap closed', after_seq, left(closed_how, 2000)
            FROM atproto.gap WHERE closed_at IS NOT NULL) l
        JOIN atproto.subscription s ON s.name = l.subscription
    -- the same condition as in atproto.stat_subscription
    WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE');
COMMENT ON VIEW atproto.subscription_log IS 'events in the life of each subscription: atproto.subscription_event, and the gaps of its stream';
COMMENT ON COLUMN atproto.subscription_log.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.subscription_log.at IS 'when the event happened first';
COMMENT ON COLUMN atproto.subscription_log.last_at IS 'when the event happened last';
COMMENT ON COLUMN atproto.subscription_log.times IS 'how often, from at to last_at';
COMMENT ON COLUMN atproto.subscription_log.event IS 'as in atproto.subscription_event; also gap: events were missed; gap closed: the missed events are in the tables';
COMMENT ON COLUMN atproto.subscription_log.seq IS 'last event processed by then; NULL: no event';
COMMENT ON COLUMN atproto.subscription_log.detail IS 'reason or server, of the last time';
GRANT SELECT ON atproto.subscription_log TO pg_monitor;

CREATE FUNCTION atproto_internal.fetcher_status(
    OUT pid integer, OUT state text, OUT since timestamptz, OUT transfers integer, OUT requests bigint, OUT bytes bigint,
    OUT refused bigint, OUT errors jsonb, OUT last_error text, OUT last_error_at timestamptz
) RETURNS record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_fetcher_status';
COMMENT ON FUNCTION atproto_internal.fetcher_status() IS 'live state of this database''s fetcher, and its counts since its start';
CREATE VIEW atproto.stat_fetcher AS
    SELECT f.pid, f.state, f.since, f.transfers, f.requests, f.bytes, f.refused, f.errors,
        COALESCE(w.why, f.last_error) AS last_error,
        CASE WHEN w.why IS NULL THEN f.last_error_at END AS last_error_at
    FROM atproto_internal.fetcher_status() f
        CROSS JOIN LATERAL (SELECT CASE WHEN f.pid IS NULL THEN atproto.why_not_served() END AS why OFFSET 0) w;
COMMENT ON VIEW atproto.stat_fetcher IS 'one row: the fetcher, the process for HTTP requests to other hosts';
COMMENT ON COLUMN atproto.stat_fetcher.pid IS 'pid of the fetcher; NULL: not running';
COMMENT ON COLUMN atproto.stat_fetcher.state IS 'running; waiting: there is work, but no process, or a process that waits after a crash of the server or for a limit of the database, see last_error; not running: no process, and no work, or nothing that could start a process (last_error)';
COMMENT ON COLUMN atproto.stat_fetcher.since IS 'when the fetcher began';
COMMENT ON COLUMN atproto.stat_fetcher.transfers IS 'requests in progress';
COMMENT ON COLUMN atproto.stat_fetcher.requests IS 'requests since the fetcher began';
COMMENT ON COLUMN atproto.stat_fetcher.bytes IS 'bytes received since the fetcher began';
COMMENT ON COLUMN atproto.stat_fetcher.refused IS 'answers 429 and 503 since the fetcher began';
COMMENT ON COLUMN atproto.stat_fetcher.errors IS 'failures since the fetcher began, by kind';
COMMENT ON COLUMN atproto.stat_fetcher.last_error IS 'error that ended the last process, or why none could be started (atproto.why_not_served)';
COMMENT ON COLUMN atproto.stat_fetcher.last_error_at IS 'when this error happened; NULL: no error, or a reason that lasts';
GRANT SELECT ON atproto.stat_fetcher TO pg_monitor;

-- The view for people.  Programs read the views that this view reads, with numbers instead of texts.
CREATE VIEW atproto.status WITH (security_barrier) AS
    SELECT s.name AS subscription,
        s.state,
        pg_catalog.date_trunc('second', now() - s.event_time) AS lag,
        s.rate,
        s.events,
        CASE WHEN p.backfill <> 'none' OR p.done + j.left_over + p.throttled + p.suspended > 0 THEN
            pg_catalog.concat_ws(', ', p.done || ' repositories fetched', NULLIF(p.queued + p.running, 0) || ' to fetch',
                NULLIF(p.failed, 0) || ' failed', NULLIF(p.throttled + p.suspended, 0) || ' not now',
                CASE WHEN p.lists_ended < p.lists THEN pg_catalog.format('%s of %s lists read', p.lists_ended, p.lists) END,
                'done at ' || pg_catalog.to_char(p.ends_at, 'YYYY-MM-DD HH24:MI'))
        END AS backfill,
        NULLIF(pg_catalog.concat_ws(', ', NULLIF(g.n, 0) || ' open gaps', NULLIF(d.n, 0) || ' dead letters',
            CASE WHEN s.held_since < now() - interval '5 minutes' THEN s.held_events || ' events wait since ' || pg_catalog.to_char(s.held_since, 'YYYY-MM-DD HH24:MI') END,
            CASE WHEN f.state = 'waiting' AND (j.left_over > 0 OR p.lists_ended < p.lists) THEN 'the fetcher does not run' END), '') AS problems,
        CASE WHEN s.last_error_is_past IS NOT TRUE THEN s.last_error END AS error
    FROM atproto.stat_subscription s
        LEFT JOIN atproto.repo_progress p ON p.subscription = s.name
        CROSS JOIN LATERAL (SELECT p.queued + p.running + p.failed AS left_over) j
        LEFT JOIN (SELECT subscription, count(*) AS n FROM atproto.gap WHERE closed_at IS NULL GROUP BY subscription) g ON g.subscription = s.name
        LEFT JOIN (SELECT subscription, count(*) AS n FROM atproto.dead_letter GROUP BY subscription) d ON d.subscription = s.name
        CROSS JOIN atproto_internal.fetcher_status() f;
COMMENT ON VIEW atproto.status IS 'a row for each subscription, in words, for people';
COMMENT ON COLUMN atproto.status.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.status.state IS 'as in atproto.stat_subscription';
COMMENT ON COLUMN atproto.status.lag IS 'now minus the time of the last event committed; grows also while no events happen';
COMMENT ON COLUMN atproto.status.rate IS 'recent number of events a second; NULL: no connection, or not known yet';
COMMENT ON COLUMN atproto.status.events IS 'events committed since the subscription was made';
COMMENT ON COLUMN atproto.status.backfill IS 'repositories fetched, to fetch, failed (the fetcher will try again), not now (fetched too often lately, or the account is not active), lists read, and when the backfill will be done; NULL: nothing to fetch (atproto.repo_progress)';
COMMENT ON COLUMN atproto.status.problems IS 'gaps of the stream that are not closed (atproto.gap), dead letters (atproto.dead_letter), events that wait for more than five minutes (atproto.held_event), and whether the fetcher does not run although it has work (atproto.stat_fetcher); NULL: nothing';
COMMENT ON COLUMN atproto.status.error IS 'why the subscription does not stream; NULL: no error, or the error is past';
GRANT SELECT ON atproto.status TO pg_monitor;

-- Tells the background processes of a change at its commit.
CREATE FUNCTION atproto_internal.subscription_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_subscription_changed';
COMMENT ON FUNCTION atproto_internal.subscription_changed() IS 'trigger: wakes the consumer''s processes at commit';
CREATE TRIGGER subscription_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON atproto.subscription
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.subscription_changed();
REVOKE ALL ON FUNCTION atproto_internal.subscription_changed() FROM PUBLIC;

-- Rows name a target by its schema's name, so ALTER SCHEMA … RENAME has to change these rows.
CREATE FUNCTION atproto_internal.target_renamed() RETURNS event_trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_target_renamed';
COMMENT ON FUNCTION atproto_internal.target_renamed() IS 'event trigger: gives subscriptions of a renamed schema, and all rows that belong to them, the new name as their target';
REVOKE ALL ON FUNCTION atproto_internal.target_renamed() FROM PUBLIC;
CREATE EVENT TRIGGER atproto_target_renamed ON ddl_command_end WHEN TAG IN ('ALTER SCHEMA')
    EXECUTE FUNCTION atproto_internal.target_renamed();
COMMENT ON EVENT TRIGGER atproto_target_renamed IS 'ALTER SCHEMA … RENAME takes subscriptions, held events, jobs, requests and audits of the schema along';

-- At CREATE EXTENSION: wake a manager that waits for the extension.
CREATE FUNCTION atproto_internal.wake() RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_wake';
COMMENT ON FUNCTION atproto_internal.wake() IS 'at commit, make this database''s consumer processes look at the subscriptions';
REVOKE ALL ON FUNCTION atproto_internal.wake() FROM PUBLIC;
SELECT atproto_internal.wake();

-- restore the search_path of CREATE EXTENSION
SET LOCAL search_path = @extschema@, pg_temp;

-- A row for each subscription that reads an archive, of roles of which the reader is a member.
CREATE VIEW atproto.history_progress WITH (security_barrier) AS
    SELECT h.subscription,
        h.phase,
        c.seq AS position,
        h.tip,
        h.blocks,
        h.planned_blocks,
        h.bytes,
        h.planned_bytes,
        h.rows,
        h.rows / NULLIF(EXTRACT(epoch FROM COALESCE(h.finished_at, now()) - h.started_at), 0) AS rows_per_second,
        CASE WHEN h.phase IN ('plan', 'rows', 'markers') AND h.planned_bytes > h.bytes AND h.bytes > 0
                -- a century: an interval or a time out of range would be an error
                AND EXTRACT(epoch FROM now() - h.started_at)::double precision * (h.planned_bytes - h.bytes) / h.bytes < 3.2e9
            THEN now() + (now() - h.started_at) * ((h.planned_bytes - h.bytes)::double precision / h.bytes)
        END AS ends_at,
        CASE
            WHEN s.stopped IS NOT NULL THEN left(s.stopped, 2000)
            WHEN NOT s.enabled THEN 'the subscription is paused'
            WHEN h.error IS NOT NULL THEN h.error
            WHEN h.phase = 'seam' THEN 'the archive does not have the rows around the beginning of the stream yet'
        END AS waits_for,
        h.next_try,
        h.filtered_here,
        h.cycles,
        h.seam_missing,
        h.started_at,
        h.finished_at
    FROM atproto.history h
        JOIN atproto.subscription s ON s.name = h.subscription AND s.history = 'archive'
        LEFT JOIN (SELECT subscription, endpoint, min(seq) AS seq FROM atproto.cursor GROUP BY subscription, endpoint) c
            ON c.subscription = h.subscription AND c.endpoint = h.endpoint
    WHERE pg_catalog.pg_has_role(s.owner, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW atproto.history_progress IS 'how far the archives of subscriptions are read; members of pg_monitor see those of all roles. Experimental.';
COMMENT ON COLUMN atproto.history_progress.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.history_progress.phase IS 'plan, rows, markers: the archive is read; seam: the stream has begun, and its beginning is still to be compared with the archive; live: all is done';
COMMENT ON COLUMN atproto.history_progress.position IS 'rows up to this sequence number are in the tables';
COMMENT ON COLUMN atproto.history_progress.tip IS 'rows up to this sequence number are read in this cycle; NULL: not known, or no cycle';
COMMENT ON COLUMN atproto.history_progress.blocks IS 'blocks that were read in this cycle';
COMMENT ON COLUMN atproto.history_progress.planned_blocks IS 'blocks to be read in this cycle, as planned so far';
COMMENT ON COLUMN atproto.history_progress.bytes IS 'bytes that were received in this cycle';
COMMENT ON COLUMN atproto.history_progress.planned_bytes IS 'bytes to be received in this cycle, as estimated from the blocks that were read';
COMMENT ON COLUMN atproto.history_progress.rows IS 'rows of the archive that passed the filters';
COMMENT ON COLUMN atproto.history_progress.rows_per_second IS 'rows a second since the reading began';
COMMENT ON COLUMN atproto.history_progress.ends_at IS 'when the planned blocks will be read at this pace; NULL: nothing is read, or no estimate, or more than a century';
COMMENT ON COLUMN atproto.history_progress.waits_for IS 'what hinders the reading, or the end of phase seam; NULL: nothing';
COMMENT ON COLUMN atproto.history_progress.next_try IS 'when the next try is due';
COMMENT ON COLUMN atproto.history_progress.filtered_here IS 'filters that the server was not asked to apply: more than the wanted rows are transferred';
COMMENT ON COLUMN atproto.history_progress.cycles IS 'how often the archive was read up to its end';
COMMENT ON COLUMN atproto.history_progress.seam_missing IS 'rows that the stream had left out, and the archive has brought';
COMMENT ON COLUMN atproto.history_progress.started_at IS 'when the reading began';
COMMENT ON COLUMN atproto.history_progress.finished_at IS 'when the phase became live last';
GRANT SELECT ON atproto.history_progress TO pg_monitor;
