-- How far the tables grow that are updated all the time: cursor, one row at each
-- commit, and repo, rows here and there.  Once with the settings that they are
-- made with, once with PostgreSQL's defaults.
CREATE SCHEMA shipped;
CREATE SCHEMA defaults;
SELECT format('CREATE TABLE shipped.%1$I (LIKE atproto.%1$I INCLUDING ALL) WITH (%2$s);
	CREATE TABLE defaults.%1$I (LIKE atproto.%1$I INCLUDING ALL)', relname, array_to_string(reloptions, ', '))
FROM pg_class WHERE oid IN ('atproto.cursor'::regclass, 'atproto.repo'::regclass) \gexec

CREATE TABLE public.size_before (tab regclass, mb numeric);
CREATE PROCEDURE fill(repos int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO cursor (subscription, endpoint, seq)
	SELECT 'network ' || i, 'wss://relay.example.com:443/xrpc/com.atproto.sync.subscribeRepos', 1 FROM generate_series(1, 64) i;
	INSERT INTO repo (did, rev, commit, data) SELECT account(i), key(i), content(i), content(i) FROM generate_series(1, repos) i;
	INSERT INTO size_before SELECT t, pg_total_relation_size(t) / 1e6 FROM (VALUES ('cursor'::regclass), ('repo')) v (t);
END $$;

-- batches of 4,000 events; some repositories have more of them than others
CREATE PROCEDURE run_batches(repos int, batches int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..batches LOOP
		UPDATE repo r SET rev = key(i), commit = content(i), data = content(-i), updated_at = clock_timestamp()
		FROM (SELECT DISTINCT account((repos * power(fraction(i * 4000::bigint + j, 30), 1.5))::bigint) AS did FROM generate_series(1, 4000) j) u
		WHERE r.did = u.did;
		UPDATE cursor SET seq = i, event_time = clock_timestamp(), events = events + 4000, record_ops = record_ops + 4000, updated_at = clock_timestamp()
		WHERE subscription = 'network 1';
		COMMIT;
	END LOOP;
END $$;
-- 64 quiet streams: a batch for each event
CREATE PROCEDURE run_events(n int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..n LOOP
		UPDATE cursor SET seq = i, event_time = clock_timestamp(), events = events + 1, record_ops = record_ops + 1, updated_at = clock_timestamp()
		WHERE subscription = 'network ' || 1 + i % 64;
		COMMIT;
	END LOOP;
END $$;

SET search_path = shipped, public;
CALL fill(500000);
CALL run_batches(500000, 500);
CALL run_events(100000);
SET search_path = defaults, public;
CALL fill(500000);
CALL run_batches(500000, 500);
CALL run_events(100000);
SELECT pg_stat_force_next_flush();

CREATE VIEW public.hot AS
SELECT format('| `%s`, %s | %s, %s | %s | %s %% | %s | %s |', relname, CASE schemaname WHEN 'shipped' THEN 'its settings' ELSE 'defaults' END,
	round(mb, 2), round(pg_total_relation_size(relid) / 1e6, 2), n_tup_upd, round(100.0 * n_tup_hot_upd / n_tup_upd, 1), n_dead_tup, autovacuum_count) AS line
FROM pg_stat_user_tables JOIN size_before ON tab = relid ORDER BY relname, schemaname DESC;
