/*
 * src/process/status: the limits of a whole database, and how much of each is used.
 */

CREATE FUNCTION atproto_internal.limits(
    OUT name text, OUT object text, OUT use bigint, OUT bound bigint, OUT estimated boolean
) RETURNS SETOF record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_limits';
COMMENT ON FUNCTION atproto_internal.limits() IS 'limits whose use is not in tables: volumes, processes, buffers, requests; only for members of pg_monitor';
CREATE FUNCTION atproto_internal.limit_settings(
    OUT queue_limit bigint, OUT fetch_queue bigint, OUT role_processes bigint, OUT role_bytes bigint
) RETURNS record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_limit_settings';
COMMENT ON FUNCTION atproto_internal.limit_settings() IS 'settings that are bounds of the view atproto.limits';

-- Cheap: of each table at most 20,000 rows of a subscription are counted; beyond, the use is an estimate by the counters of the
-- statistics.  octet_length() does not read a value that is stored out of line.
CREATE VIEW atproto.limits WITH (security_barrier) AS
    WITH seen AS (
        SELECT s.name, s.owner::oid AS owner, s.workers, s.max_held_bytes, s.max_dead_letters, s.max_dead_letter_bytes
        FROM atproto.subscription s
        WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(s.owner, 'USAGE')
    ), used AS (
        SELECT l.name, l.object, l.use, l.bound, l.estimated FROM atproto_internal.limits() l
        UNION ALL
        SELECT 'role_processes', s.owner::regrole::text, sum(CASE WHEN s.workers > 1 THEN s.workers + 1 ELSE 1 END), max(b.role_processes), false
        FROM seen s CROSS JOIN atproto_internal.limit_settings() b GROUP BY s.owner
        UNION ALL
        SELECT 'role_bytes', s.owner::regrole::text, LEAST(sum(s.max_held_bytes::numeric + s.max_dead_letter_bytes), 9223372036854775807)::bigint, max(b.role_bytes), false
        FROM seen s CROSS JOIN atproto_internal.limit_settings() b GROUP BY s.owner
        UNION ALL
        SELECT 'held_bytes', s.name,
            CASE WHEN h.n < 20000 THEN h.bytes ELSE (h.bytes / h.n * GREATEST(pg_catalog.pg_stat_get_live_tuples('atproto.held_event'::regclass), h.n))::bigint END,
            s.max_held_bytes, h.n = 20000
        FROM seen s CROSS JOIN LATERAL (SELECT count(*) AS n, COALESCE(sum(x.bytes), 0)::bigint AS bytes FROM
            (SELECT pg_catalog.octet_length(e.bytes) AS bytes FROM atproto.held_event e WHERE e.subscription = s.name LIMIT 20000) x) h
        UNION ALL
        SELECT 'dead_letters', s.name,
            CASE WHEN d.n < 20000 THEN d.n ELSE GREATEST(pg_catalog.pg_stat_get_live_tuples('atproto.dead_letter'::regclass), d.n) END,
            s.max_dead_letters, d.n = 20000
        FROM seen s CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM atproto.dead_letter l WHERE l.subscription = s.name LIMIT 20000) x) d
        UNION ALL
        SELECT 'dead_letter_bytes', s.name,
            CASE WHEN d.n < 20000 THEN d.bytes ELSE (d.bytes / d.n * GREATEST(pg_catalog.pg_stat_get_live_tuples('atproto.dead_frame'::regclass), d.n))::bigint END,
            s.max_dead_letter_bytes, d.n = 20000
        FROM seen s CROSS JOIN LATERAL (SELECT count(*) AS n, COALESCE(sum(x.bytes), 0)::bigint AS bytes FROM
            (SELECT pg_catalog.octet_length(f.bytes) AS bytes FROM atproto.dead_frame f WHERE f.subscription = s.name LIMIT 20000) x) d
        UNION ALL
        SELECT 'gaps', s.name, g.n, 10000, g.n = 20000
        FROM seen s CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM atproto.gap g WHERE g.subscription = s.name AND g.closed_at IS NULL LIMIT 20000) x) g
        UNION ALL
        SELECT 'plc_log_requests', s.name, r.n, b.queue_limit, r.n = 20000
        FROM seen s CROSS JOIN atproto_internal.limit_settings() b
            CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM atproto.plc_log_request r WHERE r.subscription = s.name AND r.why = 'prev' LIMIT 20000) x) r
        UNION ALL
        SELECT 'repo_jobs', j.owner::regrole::text,
            CASE WHEN j.cut THEN GREATEST(pg_catalog.pg_stat_get_live_tuples('atproto.repo_job'::regclass), j.n) ELSE j.n END, 10 * b.fetch_queue, j.cut
        FROM (SELECT s.owner, sum(q.n)::bigint AS n, bool_or(q.n = 20000) AS cut
                FROM seen s CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM atproto.repo_job r WHERE r.subscription = s.name LIMIT 20000) x) q
                GROUP BY s.owner) j
            CROSS JOIN atproto_internal.limit_settings() b
        UNION ALL
        SELECT r.name, r.role::regrole::text, r.n, b.queue_limit, false
        FROM (SELECT 'identity_requests' AS name, w.role, count(*) AS n FROM atproto.identity_request w WHERE w.role <> 0 GROUP BY w.role
                UNION ALL
                SELECT 'handle_requests', h.role, count(*) FROM atproto.handle_request h GROUP BY h.role
                UNION ALL
                SELECT 'handle_lookups', l.role, count(*) FROM atproto.handle_lookup l WHERE l.answered_at IS NULL GROUP BY l.role) r
            CROSS JOIN atproto_internal.limit_settings() b
        WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE') OR pg_catalog.pg_has_role(r.role, 'USAGE')
        UNION ALL
        SELECT 'server_questions', NULL, count(*), 100, false FROM atproto.server_info_request q
        WHERE q.answered_at IS NULL AND pg_catalog.pg_has_role('pg_monitor', 'USAGE') HAVING pg_catalog.pg_has_role('pg_monitor', 'USAGE')
        UNION ALL
        SELECT 'hosts', NULL, pg_catalog.pg_stat_get_live_tuples('atproto.host'::regclass), 10000, true
        WHERE pg_catalog.pg_has_role('pg_monitor', 'USAGE')
    )
    SELECT u.name, k.scope, u.object, u.use, u.bound, k.unit,
        CASE WHEN u.bound > 0 THEN pg_catalog.round(100.0 * u.use / u.bound, 1) WHEN u.bound = 0 AND u.use > 0 THEN 100.0 WHEN u.bound = 0 AND u.use = 0 THEN 0.0 END AS percent,
        u.estimated, k.setting, k.at_bound
    FROM used u JOIN (VALUES
        ('disk', 'volume', 'bytes', 'atproto.min_free_disk', 'consumers and the fetcher wait for free space'),
        ('worker_processes', 'server', 'processes', 'max_worker_processes', 'a process of the extension does not start; last_error says so'),
        ('databases', 'server', 'databases', NULL, 'further names in atproto.databases are not served; the log says so'),
        ('live_status', 'server', 'subscriptions', 'atproto.max_subscriptions', 'further subscriptions run without a live status'),
        ('buffers', 'database', 'bytes', 'workers', 'nothing is read from the stream before a batch is applied'),
        ('export_memory', 'database', 'bytes', 'atproto.fetch_memory', 'further exports wait, or their blocks go into temporary files'),
        ('requests', 'database', 'requests', 'atproto.fetch_concurrency', 'further requests wait'),
        ('requests_hour', 'database', 'requests', 'atproto.max_requests_hour', 'the fetcher waits, and consumers that read an archive'),
        ('download_hour', 'database', 'bytes', 'atproto.max_download_hour', 'the fetcher waits, and consumers that read an archive'),
        ('hosts', 'database', 'rows', NULL, 'the hosts that were asked longest ago are forgotten'),
        ('server_questions', 'database', 'rows', NULL, 'describe_server() and host_status() are errors'),
        ('role_processes', 'role', 'processes', 'atproto.max_role_processes', 'a further subscription or worker of the role is an error'),
        ('role_bytes', 'role', 'bytes', 'atproto.max_role_bytes', 'a further subscription of the role, or a larger limit, is an error'),
        ('identity_requests', 'role', 'rows', 'atproto.queue_limit', 'resolve(), await(), identity_refresh() and check_handle() are errors'),
        ('handle_requests', 'role', 'rows', 'atproto.queue_limit', 'check_handle() is an error'),
        ('handle_lookups', 'role', 'rows', 'atproto.queue_limit', 'resolve_handle() is an error'),
        ('repo_jobs', 'role', 'rows', 'atproto.fetch_queue', 'no list of repositories is read on'),
        ('held_bytes', 'subscription', 'bytes', 'max_held_bytes', 'events that wait are dropped, and their repositories become desynchronized'),
        ('dead_letters', 'subscription', 'rows', 'max_dead_letters', 'the subscription stops'),
        ('dead_letter_bytes', 'subscription', 'bytes', 'max_dead_letter_bytes', 'the subscription stops'),
        ('gaps', 'subscription', 'rows', NULL, 'the newest gap grows'),
        ('plc_log_requests', 'subscription', 'rows', 'atproto.queue_limit', 'further operations behind an unknown operation stay in plc_refused')
    ) k (name, scope, unit, setting, at_bound) USING (name);
COMMENT ON VIEW atproto.limits IS 'one row for each limit, and for each volume, role or subscription of a limit: how much is used, and what happens at the bound; owners see the rows of their roles and subscriptions, members of pg_monitor all. Experimental.';
COMMENT ON COLUMN atproto.limits.name IS 'the limit; doc/operate/limits.md describes each name';
COMMENT ON COLUMN atproto.limits.scope IS 'for what the limit holds: server, database, volume, role or subscription';
COMMENT ON COLUMN atproto.limits.object IS 'which volume, role or subscription; NULL: the server or the database';
COMMENT ON COLUMN atproto.limits.use IS 'how much is used now; NULL: not measured';
COMMENT ON COLUMN atproto.limits.bound IS 'how much may be used; NULL: no limit is set';
COMMENT ON COLUMN atproto.limits.unit IS 'of use and bound';
COMMENT ON COLUMN atproto.limits.percent IS 'use in percent of the bound, 100 for any use of a bound of zero; NULL: one of the two is not known';
COMMENT ON COLUMN atproto.limits.estimated IS 'whether use is an estimate: by the counters of PostgreSQL''s statistics, or by what processes reserve';
COMMENT ON COLUMN atproto.limits.setting IS 'what moves the bound: a setting, or a column of atproto.subscription; NULL: nothing';
COMMENT ON COLUMN atproto.limits.at_bound IS 'what happens at the bound';
GRANT SELECT ON atproto.limits TO pg_monitor;
