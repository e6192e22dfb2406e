-- What bench/scale.sh measures while tables grow: what all layouts have in common.

\ir took.sql
-- The bytes that this process has read from the disk.
CREATE FUNCTION read_bytes() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$ SELECT substring(pg_read_file('/proc/self/io') FROM 'read_bytes: (\d+)')::float8 $$;
-- Milliseconds on a processor that the sessions on the workers of Citus have had.
CREATE FUNCTION busy_workers() RETURNS float8 LANGUAGE sql VOLATILE AS $$ SELECT 0::float8 $$;
SELECT :'layout' = 'citus' AS citus \gset
\if :citus
CREATE OR REPLACE FUNCTION busy_workers() RETURNS float8 LANGUAGE sql VOLATILE AS $f$
	SELECT sum(result::float8) FROM run_command_on_workers($$
		SELECT coalesce(sum(split_part(pg_read_file('/proc/' || pid || '/schedstat', 0, 100, true), ' ', 1)::float8), 0) / 1e6
		FROM pg_stat_activity WHERE backend_type = 'client backend'$$) $f$;
ALTER SYSTEM SET citus.max_cached_conns_per_worker = 8;		-- what a session did that has ended is not counted
SELECT pg_reload_conf();
\endif

CREATE FUNCTION layout() RETURNS text LANGUAGE sql IMMUTABLE RETURN :'layout';
CREATE TABLE result (millions int, n numeric, what text, value float8, PRIMARY KEY (millions, n));

-- The 300 days before 2024, in which the rows of the largest size came, one after the other.  (The
-- simulator's time begins then.)
CREATE FUNCTION key_of(n bigint) RETURNS atproto.tid LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ((1678147200000000 + n * (300 * 86400000000 / :events)) * 1024 + n % 1024)::atproto.tid;
-- Who made row n: there is a new account for each 430 rows, and older ones do more.
CREATE FUNCTION author_of(n bigint) RETURNS did LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN account((n / 430 * power(fraction(n, 3), 1.5))::bigint);

-- Microseconds of a processor that one of the statement's parts takes, when it
-- has run before; often enough, because the kernel counts in ticks.  And by the clock, and
-- from the disk, when it is run for the first time.
CREATE PROCEDURE measure(millions int, n int, what text, statement text, parts int DEFAULT 1, first boolean DEFAULT true) LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz := clock_timestamp();
	disk float8 := read_bytes();
	started float8;
	passed float8 := 0;
	times int := 0;
BEGIN
	EXECUTE statement;
	IF first THEN
		INSERT INTO result VALUES (millions, n + 0.1, '– the first time, by the clock, µs', extract(epoch FROM clock_timestamp() - began) * 1e6 / parts);
		IF layout() <> 'citus' THEN
			INSERT INTO result VALUES (millions, n + 0.2, '– kB from the disk', (read_bytes() - disk) / 1000 / parts);
		END IF;
	END IF;
	started := busy() + busy_workers();
	WHILE passed < 200 LOOP
		EXECUTE statement;
		times := times + 1;
		passed := busy() + busy_workers() - started;
	END LOOP;
	INSERT INTO result VALUES (millions, n, what, passed * 1000 / times / parts);
END $$;

CREATE TABLE begun (at float8, lsn pg_lsn, bytes numeric);
CREATE PROCEDURE vacuum_begins() LANGUAGE sql AS $$ TRUNCATE begun; INSERT INTO begun VALUES (busy() + busy_workers()) $$;
CREATE PROCEDURE vacuum_ends(millions int) LANGUAGE sql AS
	$$ INSERT INTO result SELECT millions, 5, 'filling: VACUUM (ANALYZE), µs a row', (busy() + busy_workers() - at) / 1000 / millions FROM begun $$;

-- The tables as Markdown: each figure, and its ratio to that of the smallest size.
CREATE VIEW growth AS
WITH figure AS (
	SELECT n, what, value, millions, first_value(value) OVER (PARTITION BY n ORDER BY millions) AS base
	FROM result)
SELECT '| |' || string_agg(format(' %s million |', millions), '' ORDER BY millions) AS line FROM figure WHERE n = 1
UNION ALL
SELECT '|---|' || repeat('---|', count(*)::int) FROM figure WHERE n = 1
UNION ALL
SELECT line FROM (
	SELECT n, format('| %s |', what) || string_agg(format(' %s%s |', round(value::numeric, CASE WHEN value < 100 THEN 1 ELSE 0 END),
			   CASE WHEN base > 0.05 THEN format(' (%s)', round((value / base)::numeric, 2)) END), '' ORDER BY millions) AS line
	FROM figure GROUP BY n, what ORDER BY n) l;
CREATE TABLE removal (line text);

-- What of the key's index has to be in memory for a look-up to read no more of it than a leaf.
CREATE EXTENSION pgstattuple;
CREATE PROCEDURE inner_pages() LANGUAGE plpgsql AS $$
BEGIN
	IF layout() <> 'citus' THEN
		INSERT INTO removal
		SELECT format(E'\nOf the key at the largest size %s MB are inner pages, and %s MB are leaves.', round(sum(internal_pages) * 8192 / 1e6), round(sum(leaf_pages) * 8192 / 1e6))
		FROM pg_class, pgstatindex(oid) WHERE relkind = 'i' AND relname ~ '^(record|link)(_(?!event).*)?_pkey$' AND relnamespace = 'grown'::regnamespace;
	END IF;
END $$;
