-- What bench/scale.sh measures of record.

-- Collections and values of simulated records, as the consumer left them; without those that
-- say by which repost somebody came there: most of the network is older than that.
CREATE TABLE pool AS
SELECT row_number() OVER () - 1 AS n, collection, value FROM pool.record WHERE NOT value ? 'via';
ANALYZE pool;
SELECT count(*) AS pool FROM pool \gset
-- Rows of a network, numbered, in the order of their times.  Of 50 one is of fifteen more collections.
CREATE FUNCTION network(first bigint, last bigint, step bigint DEFAULT 1)
RETURNS TABLE (n bigint, did did, collection nsid, rkey recordkey, cid cidlink, rev atproto.tid, value jsonb) LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT s.n, author_of(s.n), CASE WHEN s.n % 50 = 49 THEN ('com.example.kind' || s.n / 50 % 15)::nsid ELSE p.collection END,
		   key::recordkey, content(s.n), key, p.value
	FROM generate_series(first, last, step) s (n) JOIN pool p ON p.n = s.n * 7919 % :pool, LATERAL (SELECT key_of(s.n) AS key) k;
END;

CREATE SCHEMA grown;
SET search_path = grown, public;
SELECT layout() = 'hash' AS hash, layout() = 'citus' AS citus, layout() IN ('collection', 'month') AS partition \gset
\if :hash
CREATE TABLE record (LIKE atproto.record INCLUDING ALL) PARTITION BY HASH (did);
SELECT format('CREATE TABLE record_%s PARTITION OF record FOR VALUES WITH (MODULUS 8, REMAINDER %1$s)', i) FROM generate_series(0, 7) i \gexec
\endif
SELECT atproto.create_tables('grown', CASE layout() WHEN 'dagcbor' THEN 'dagcbor' END);
\if :partition
-- partition() makes the months that rows have
INSERT INTO record (did, collection, rkey, cid, rev, value)
SELECT did, collection, rkey, cid, rev, value FROM network(1, :events, :events / 300);
SELECT atproto.partition('grown', layout(),
	CASE layout() WHEN 'collection' THEN '{app.bsky.feed.like,app.bsky.feed.post,app.bsky.feed.repost,app.bsky.graph.follow}'::nsid[] END);
-- and those until now, which have none here
SELECT format('DROP TABLE %s', inhrelid::regclass) FROM pg_inherits WHERE inhparent = 'record'::regclass AND inhrelid::regclass::text > 'record_2024_01' AND inhrelid::regclass::text < 'record_9' \gexec
\endif
CREATE INDEX record_collection ON record (collection);
CREATE INDEX record_post_time ON record (rkey, did) WHERE collection = 'app.bsky.feed.post';
\if :citus
SELECT atproto.distribute('grown', 4);
\endif

-- The key's index is made at the end, and its leaves are as full as they are when rows came one
-- by one.  On Citus it is there all the time.  All is one transaction, of a table that it has
-- emptied, so that nothing goes to the log.
CREATE PROCEDURE fill_records(millions int) LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy() + busy_workers();
BEGIN
	TRUNCATE record;
	IF layout() <> 'citus' THEN
		ALTER TABLE record DROP CONSTRAINT record_pkey;
	END IF;
	FOR m IN 0..millions - 1 LOOP
		EXECUTE format('INSERT INTO record (did, collection, rkey, cid, rev, value)
			SELECT did, collection, rkey, cid, rev, value FROM network(%s, %s)', m * 1000000::bigint + 1, (m + 1) * 1000000::bigint);
	END LOOP;
	INSERT INTO result VALUES (millions, 3, 'filling: rows made and written, µs a row', (busy() + busy_workers() - started) / 1000 / millions);
	started := busy();
	IF layout() <> 'citus' THEN
		ALTER TABLE record ADD CONSTRAINT record_pkey PRIMARY KEY (did, collection, rkey) WITH (fillfactor = 70);
		INSERT INTO result VALUES (millions, 4, 'filling: index of the key, µs a row', (busy() - started) / 1000 / millions);
	END IF;
END $$;

-- Sizes; the next rows of the stream; and the keys of 1,000 rows, all over the table.
CREATE FUNCTION bytes_of(kind "char", name text) RETURNS numeric LANGUAGE sql STABLE AS $$
	SELECT sum(pg_table_size(oid)) FROM pg_class WHERE relkind = kind AND relnamespace = current_schema::regnamespace AND relname ~ name $$;
CREATE PROCEDURE choose_rows(millions int, following int) LANGUAGE plpgsql AS $$
DECLARE
	rows bigint := millions * 1000000::bigint;
BEGIN
	IF layout() <> 'citus' THEN
		INSERT INTO result VALUES
			(millions, 1, 'table, bytes a row', bytes_of('r', '^record(?!_event)') / rows),
			(millions, 2, 'index of the key, bytes a row', bytes_of('i', '^record(?!_event).*_pkey') / rows);
	ELSE
		INSERT INTO result VALUES
			(millions, 1, 'table, bytes a row', citus_table_size('record') / rows),
			(millions, 2, 'indexes, bytes a row', (citus_total_relation_size('record') - citus_table_size('record')) / rows);
	END IF;
	EXECUTE format('CREATE TABLE public.fresh AS SELECT * FROM network(%s, %s)', rows + 1, rows + following);
	CREATE INDEX ON fresh (n);
	EXECUTE format('CREATE TABLE public.probe AS SELECT did, collection, rkey FROM network(7, %s, %s)', rows, rows / 1000);
	ANALYZE fresh, probe;
END $$;

-- Inserts the fresh rows as the consumer's statements do: a statement and a transaction for each 4,096.
CREATE PROCEDURE insert_rows(millions int, following int) LANGUAGE plpgsql AS $$
DECLARE
	there bigint := millions * 1000000::bigint;
	started float8 := busy() + busy_workers();
	lsn pg_lsn := pg_current_wal_lsn();
BEGIN
	FOR i IN there + 1..there + following BY 4096 LOOP
		INSERT INTO record AS r (did, collection, rkey, cid, rev, value)
		SELECT did, collection, rkey, cid, rev, value FROM fresh WHERE n BETWEEN i AND i + 4095 ORDER BY 1, 2, 3
		ON CONFLICT (did, collection, rkey) DO UPDATE SET rev = excluded.rev, cid = excluded.cid, value = excluded.value;
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES (millions, 6, 'next rows, by INSERT, µs a row', (busy() + busy_workers() - started) * 1000 / following);
	IF layout() <> 'citus' THEN
		INSERT INTO result VALUES (millions, 7, '– log, bytes a row', (pg_current_wal_lsn() - lsn) / following);
	END IF;
END $$;
CREATE PROCEDURE consumed(millions int, cpu float8, workers float8, log float8) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO result VALUES (millions, 8, 'next events, by the consumer, µs an event', cpu);
	IF layout() = 'citus' THEN
		INSERT INTO result VALUES (millions, 9, '– the workers', workers);
	ELSE
		INSERT INTO result VALUES (millions, 9, '– log, bytes an event', log);
	END IF;
END $$;

-- What readers ask of record with so many million rows.
CREATE PROCEDURE read_records(millions int) LANGUAGE plpgsql AS $$
BEGIN
	IF layout() = 'citus' THEN
		-- a statement for each: no join of what is here with what is there looks up a row at a time
		CREATE FUNCTION pg_temp.look_up(what text) RETURNS void LANGUAGE plpgsql AS $f$
		DECLARE
			p probe;
		BEGIN
			FOR p IN SELECT * FROM probe LIMIT 200 LOOP
				CASE what
					WHEN 'one' THEN PERFORM value FROM record r WHERE r.did = p.did AND r.collection = p.collection AND r.rkey = p.rkey;
					WHEN 'posts' THEN PERFORM rkey, value FROM record r WHERE r.did = p.did AND r.collection = 'app.bsky.feed.post' ORDER BY rkey DESC LIMIT 50;
					ELSE PERFORM count(*) FROM record r WHERE r.did = p.did;
				END CASE;
			END LOOP;
		END $f$;
		CALL measure(millions, 10, 'one record by its key, µs', $q$SELECT pg_temp.look_up('one')$q$, 200);
		CALL measure(millions, 11, 'the 50 newest posts of a repository, µs', $q$SELECT pg_temp.look_up('posts')$q$, 200);
		CALL measure(millions, 12, 'how many records a repository has, µs', $q$SELECT pg_temp.look_up('count')$q$, 200);
		DROP FUNCTION pg_temp.look_up(text);
	ELSE
		SET LOCAL enable_hashjoin = off;
		SET LOCAL enable_mergejoin = off;
		CALL measure(millions, 10, 'one record by its key, µs',
			'SELECT count(r.value) FROM probe p JOIN record r USING (did, collection, rkey)', 1000);
		CALL measure(millions, 11, 'the 50 newest posts of a repository, µs',
			$q$SELECT count(r.value) FROM probe p, LATERAL (SELECT rkey, value FROM record r
				WHERE r.did = p.did AND collection = 'app.bsky.feed.post' ORDER BY rkey DESC LIMIT 50) r$q$, 1000);
		CALL measure(millions, 12, 'how many records a repository has, µs',
			'SELECT sum(n) FROM probe p, LATERAL (SELECT count(*) AS n FROM record r WHERE r.did = p.did) r', 1000);
	END IF;
	CALL measure(millions, 13, 'the 50 newest posts of all, µs',
		$q$SELECT did, rkey, value FROM record WHERE collection = 'app.bsky.feed.post' ORDER BY rkey DESC LIMIT 50$q$);
	CALL measure(millions, 14, 'records by collection, ms for a million',
		'SELECT collection, count(*) FROM record GROUP BY collection', 1000 * millions, false);
	DROP TABLE probe, fresh;
END $$;

-- The first of the ten months.
CREATE FUNCTION oldest_month() RETURNS recordkey LANGUAGE sql IMMUTABLE RETURN tid_floor('2023-04-01Z')::recordkey;
CREATE PROCEDURE remove_begins() LANGUAGE sql AS
	$$ TRUNCATE begun; INSERT INTO begun VALUES (busy(), pg_current_wal_lsn(), bytes_of('r', '^record(?!_event)') + bytes_of('i', '^record(?!_event)')) $$;
CREATE PROCEDURE remove_ends(how text) LANGUAGE sql AS $$
	INSERT INTO removal
	SELECT format(E'\nRemoving March from the largest size, by %s: %s s of processor time and %s MB of log; table and indexes have %s GB before and %s after it.', how,
			   round(((busy() - at) / 1000)::numeric, 2), round((pg_current_wal_lsn() - lsn) / 1e6, 1), round(bytes / 1e9, 1),
			   round((bytes_of('r', '^record(?!_event)') + bytes_of('i', '^record(?!_event)')) / 1e9, 1)) FROM begun $$;
