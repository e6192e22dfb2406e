-- What bench/scale.sh measures while record grows.  Its steps call these.

-- Three layouts of the table of the extension, each in a schema of its own.
CREATE PROCEDURE make_layout(layout text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE SCHEMA %I', layout);
	PERFORM set_config('search_path', layout || ', public', false);
	CREATE TABLE model (LIKE atproto.record INCLUDING ALL);
	CASE layout
		WHEN 'plain' THEN
			CREATE TABLE record (LIKE model INCLUDING ALL);
		WHEN 'hash' THEN
			CREATE TABLE record (LIKE model INCLUDING ALL) PARTITION BY HASH (did);
			FOR i IN 0..7 LOOP
				EXECUTE format('CREATE TABLE record_%s PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i);
			END LOOP;
		WHEN 'list' THEN
			CREATE TABLE record (LIKE model INCLUDING ALL) PARTITION BY LIST (collection);
			CREATE TABLE record_post PARTITION OF record FOR VALUES IN ('app.bsky.feed.post');
			CREATE TABLE record_rest PARTITION OF record DEFAULT;
			-- likes by the time in their keys: of the simulated day, a quarter each
			CREATE TABLE record_like PARTITION OF record FOR VALUES IN ('app.bsky.feed.like') PARTITION BY RANGE (rkey);
			FOR i IN 0..3 LOOP
				EXECUTE format('CREATE TABLE record_like_%s PARTITION OF record_like FOR VALUES FROM (%L) TO (%L)', i,
					tid_floor('2026-01-01Z'::timestamptz + i * interval '6 hours'),
					tid_floor('2026-01-01Z'::timestamptz + (i + 1) * interval '6 hours'));
			END LOOP;
			CREATE TABLE record_like_rest PARTITION OF record_like DEFAULT;
	END CASE;
	ALTER TABLE record DROP CONSTRAINT record_pkey;
END $$;

-- The leaves of the key's index are as full as they are when its rows came one by one.
CREATE PROCEDURE make_indexes() LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE record ADD CONSTRAINT record_pkey PRIMARY KEY (did, collection, rkey) WITH (fillfactor = 70);
	CREATE INDEX record_collection ON record (collection);
	CREATE INDEX record_post_time ON record (rkey, did) WHERE collection = 'app.bsky.feed.post';
END $$;
CREATE PROCEDURE drop_indexes() LANGUAGE plpgsql AS $$
BEGIN
	ALTER TABLE record DROP CONSTRAINT record_pkey;
	DROP INDEX record_collection, record_post_time;
END $$;

CREATE FUNCTION busy() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e6 $$;

CREATE TABLE result (layout text, millions int, n int, what text, value float8, PRIMARY KEY (layout, millions, n));

-- What to do with a table of so many rows: the next rows of the stream, and the
-- keys of 1,000 rows, all over the table.
CREATE PROCEDURE choose_rows(there bigint, following int) LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE fresh AS SELECT * FROM stage WHERE n > there AND n <= there + following;
	CREATE INDEX ON fresh (n);
	CREATE TABLE probe AS SELECT did, collection, rkey FROM stage WHERE n % (there / 1000) = 7 AND n <= there;
	ANALYZE fresh, probe;
END $$;

-- Inserts the fresh rows as the consumer does: a statement and a transaction for each 4,096.
CREATE PROCEDURE insert_rows(millions int, there bigint, following int) LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy();
	lsn pg_lsn := pg_current_wal_lsn();
BEGIN
	FOR i IN there + 1..there + following BY 4096 LOOP
		INSERT INTO record AS r (did, collection, rkey, cid, rev, value)
		SELECT did, collection, rkey, cid, rev, value FROM fresh WHERE n BETWEEN i AND i + 4095
		ON CONFLICT (did, collection, rkey) DO UPDATE SET rev = excluded.rev, cid = excluded.cid, value = excluded.value;
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES
		(current_schema, millions, 1, 'insertion, µs a row', (busy() - started) * 1000 / following),
		(current_schema, millions, 2, 'log, bytes a row', (pg_current_wal_lsn() - lsn) / following);
END $$;

-- Microseconds of a processor that one of the statement's parts takes, when it
-- has run before; often enough, because the kernel counts in ticks.
CREATE PROCEDURE measure(millions int, n int, what text, statement text, parts int DEFAULT 1) LANGUAGE plpgsql AS $$
DECLARE
	started float8;
	passed float8 := 0;
	times int := 0;
BEGIN
	EXECUTE statement;
	started := busy();
	WHILE passed < 200 LOOP
		EXECUTE statement;
		times := times + 1;
		passed := busy() - started;
	END LOOP;
	INSERT INTO result VALUES (current_schema, millions, n, what, passed * 1000 / times / parts);
END $$;

-- What readers ask of record with so many million rows.
CREATE PROCEDURE read_rows(millions int) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off;
	CALL measure(millions, 3, 'one record by its key, µs',
		'SELECT count(r.value) FROM probe p JOIN record r USING (did, collection, rkey)', 1000);
	CALL measure(millions, 4, 'posts of a repository, µs',
		$q$SELECT count(r.value) FROM probe p, LATERAL (SELECT rkey, value FROM record r
			WHERE r.did = p.did AND collection = 'app.bsky.feed.post' ORDER BY rkey DESC LIMIT 50) r$q$, 1000);
	CALL measure(millions, 5, 'the 50 newest posts, µs',
		$q$SELECT did, rkey, value FROM record WHERE collection = 'app.bsky.feed.post' ORDER BY rkey DESC LIMIT 50$q$);
	CALL measure(millions, 6, 'records by collection, ms for a million',
		'SELECT collection, count(*) FROM record GROUP BY collection', 1000 * millions);
	DROP TABLE probe, fresh;
END $$;

-- The table as Markdown: each figure, and its ratio to the plain table's at the smallest size.
CREATE VIEW growth AS
WITH figure AS (
	SELECT n, what, value, layout, millions, array_position('{plain,hash,list}', layout) AS place,
		   first_value(value) OVER (PARTITION BY n ORDER BY array_position('{plain,hash,list}', layout), millions) AS base
	FROM result)
SELECT '| |' || string_agg(format(' %s, %s million |', layout, millions), '' ORDER BY place, millions) AS line FROM figure WHERE n = 1
UNION ALL
SELECT '|---|' || repeat('---|', count(*)::int) FROM figure WHERE n = 1
UNION ALL
SELECT line FROM (
	SELECT n, format('| %s |', what) || string_agg(format(' %s (%s) |', round(value::numeric, 1), round((value / base)::numeric, 2)), '' ORDER BY place, millions) AS line
	FROM figure GROUP BY n, what ORDER BY n) l;

CREATE TABLE removal (line text);
CREATE FUNCTION size_of_record() RETURNS numeric LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	RETURN (SELECT sum(pg_total_relation_size(oid)) / 1e6 FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema::regnamespace);
END $$;
