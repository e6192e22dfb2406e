-- To be included by bench/*.sh: how long until another session sees an event?
--
-- CALL seen.look(UNTIL) looks every 2 ms which events are in the tables, until the query UNTIL gives
-- true; seen.latency(per_second, first, last) is what came of these events: the stream
-- server sends event i at (the connection's start) + i / per_second.
CREATE SCHEMA seen;
CREATE UNLOGGED TABLE seen.event (seq bigint PRIMARY KEY, at timestamptz);

-- Each look is a transaction, so that nothing of what is measured is kept because of it.
CREATE PROCEDURE seen.look(until text) LANGUAGE plpgsql AS $$
DECLARE
	before bigint := 0;
	now_at bigint;
	done boolean;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', false);
	LOOP
		SELECT min(seq) INTO now_at FROM atproto.cursor;
		IF now_at > before THEN
			INSERT INTO seen.event VALUES (now_at, clock_timestamp());
			before := now_at;
		END IF;
		EXECUTE until INTO done;
		COMMIT;
		EXIT WHEN done;
		PERFORM pg_sleep(0.002);
	END LOOP;
END
$$;

-- In milliseconds.
CREATE FUNCTION seen.latency(per_second float8, first bigint, last bigint, OUT median float8, OUT p99 float8, OUT p999 float8, OUT most float8) LANGUAGE sql AS $$
	SELECT p[1], p[2], p[3], m
	FROM (
		SELECT percentile_cont(ARRAY[0.5, 0.99, 0.999]) WITHIN GROUP (ORDER BY ms) AS p, max(ms) AS m
		FROM (
			SELECT 1000 * extract(epoch FROM s.at - b.connected_at) - (e - 1) * 1000.0 / per_second AS ms
			FROM generate_series(first, last) e
				CROSS JOIN atproto.stat_subscription b
				CROSS JOIN LATERAL (SELECT at FROM seen.event WHERE seq >= e ORDER BY seq LIMIT 1) s
			WHERE b.connected_at IS NOT NULL) t) q
$$;
