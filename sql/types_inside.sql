-- a <@ b and b @> a: what lies inside what, and that the planner makes an index
-- range of it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

SELECT a, b, a <@ b AS inside, b @> a AS contains
FROM (VALUES
	('at://a.b/c.d.e/f'::aturi, 'at://a.b'::aturi),
	('at://a.b/c.d.e/f', 'at://a.b/c.d.e'),
	('at://a.b/c.d.e/f', 'at://a.b/c.d.e/f'),
	('at://a.b/c.d.e/f?x#/y', 'at://a.b/c.d.e/f'),
	('at://a.b/c.d.e/f?x#/y', 'at://a.b/c.d.e/f?x'),
	('at://a.b/c.d.e/f', 'at://a.b/c.d'),
	('at://a.b/c.d.e/f', 'at://a'),
	('at://a.b', 'at://a.b/c'),
	('at://A.b/c', 'at://a.b')) v (a, b);
SELECT 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26'::aturi <@ 'did:plc:44ybard66vv44zksje25o7dz'::did AS inside,
	   'did:plc:44ybard66vv44zksje25o7dz'::did @> 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26'::aturi AS contains,
	   'at://foo.com/a.b.c'::aturi <@ 'did:plc:44ybard66vv44zksje25o7dz'::did AS other,
	   'at://did:web:a.b/c'::aturi <@ 'did:web:a.b'::did AS web, 'nosh://1/a.b.c'::noshuri <@ 'nosh://1'::noshuri AS nosh;

-- Half of the table is one repository, the rest are small ones.
CREATE TABLE inside (u aturi, o noshuri);
INSERT INTO inside
SELECT u::aturi, replace(u, 'at:', 'nosh:')::noshuri
FROM (SELECT 'at://' || CASE WHEN n <= 10000 THEN 'did:plc:44ybard66vv44zksje25o7dz' ELSE 'did:web:w' || n / 10 || '.x' END ||
			 CASE n % 4 WHEN 0 THEN '/app.bsky.feed.like/' WHEN 1 THEN '/app.bsky.feed.post/' WHEN 2 THEN '/app.bsky.graph.follow/' ELSE '/a.b.c/' END ||
			 n::bigint::atproto.tid || CASE n % 5 WHEN 0 THEN '#/x' ELSE '' END AS u
	  FROM generate_series(1, 20000) n) s;
CREATE INDEX inside_u ON inside (u);
CREATE INDEX inside_o ON inside (o);
VACUUM ANALYZE inside;
SET enable_bitmapscan = off;

-- Constants become exact ranges.
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x';
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x/app.bsky.feed.post';
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE 'at://did:web:w1500.x/app.bsky.feed.post' @> u;
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'did:web:w1500.x'::did;
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE 'did:web:w1500.x'::did @> u;
-- The modifier of a DID is none of the URI's in the range.
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'did:web:w1500.x'::did(blessed);
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE aturi_inside(u, 'at://did:web:w1500.x'::aturi);
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE o <@ 'nosh://did:web:w1500.x';
-- With a query what is inside is part of a range only, so that rows are checked.
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x?y';
-- No range: the column is what contains, or nothing is known.
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u @> 'at://did:web:w1500.x';
-- Nothing is inside of NULL, and the planner knows it.
DO $$
DECLARE
	line text;
BEGIN
	FOR line IN EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ NULL::aturi LOOP
		IF line LIKE '%One-Time Filter: false' THEN
			RAISE NOTICE 'no scan';
		END IF;
	END LOOP;
END $$;
-- Parameters and joins
PREPARE p (aturi) AS SELECT count(*) FROM inside WHERE u <@ $1;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE p ('at://did:web:w1500.x');
EXECUTE p ('at://did:web:w1500.x');
EXECUTE p ('at://did:web:w1500.x?y');
RESET plan_cache_mode;
SET enable_seqscan = off; SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (VALUES ('did:web:w1500.x'::did), ('did:web:w1501.x')) v (d) JOIN inside ON u <@ d;
SELECT d, count(u) FROM (VALUES ('did:web:w1500.x'::did), ('did:web:w1501.x'), ('did:web:w1')) v (d) LEFT JOIN inside ON u <@ d GROUP BY d ORDER BY d;

RESET enable_seqscan;

-- The estimate is sensible: within a factor of two for the large repository,
-- and for a small one no more than a bin of the histogram (200 rows).
CREATE FUNCTION pg_temp.estimate(condition text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	plan json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT * FROM inside WHERE ' || condition INTO plan;
	RETURN plan -> 0 -> 'Plan' ->> 'Plan Rows';
END $$;
SELECT pg_temp.estimate($$u <@ 'at://did:plc:44ybard66vv44zksje25o7dz'$$) BETWEEN 5000 AND 20000 AS half,
	   pg_temp.estimate($$'did:plc:44ybard66vv44zksje25o7dz'::did @> u$$) BETWEEN 5000 AND 20000 AS half,
	   pg_temp.estimate($$u <@ 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.like'$$) BETWEEN 1250 AND 5000 AS eighth,
	   pg_temp.estimate($$aturi_inside(u, 'at://did:plc:44ybard66vv44zksje25o7dz'::aturi)$$) BETWEEN 5000 AND 20000 AS as_function,
	   pg_temp.estimate($$u <@ 'at://did:web:w1500.x'$$) <= 210 AS small, pg_temp.estimate($$o <@ 'nosh://did:plc:44ybard66vv44zksje25o7dz'$$) BETWEEN 5000 AND 20000 AS nosh;

-- So it is where a bin of the histogram has many repositories: as many rows as the
-- average has, in all and in a collection; one for a record.
CREATE TABLE many (u aturi) WITH (autovacuum_enabled = off);
INSERT INTO many SELECT aturi(('did:plc:' || translate(substr(md5(r::text), 1, 24), '0189', 'wxyz'))::did,
	CASE WHEN n % 10 < 8 THEN 'app.bsky.feed.post' ELSE 'a.b.c' END::nsid, (1700000000000000000 + n)::atproto.tid::recordkey)
FROM generate_series(1, 300) r, generate_series(1, 50) n;
ALTER TABLE many ALTER u SET STATISTICS 20;
ANALYZE many;
CREATE FUNCTION pg_temp.within_bounds(bases text, low float8, high float8) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	base text;
	plan json;
BEGIN
	FOR base IN EXECUTE 'SELECT DISTINCT quote_literal(' || bases || ') || $t$::$t$ || pg_typeof(' || bases || ') FROM many' LOOP
		EXECUTE 'EXPLAIN (FORMAT json) SELECT * FROM many WHERE u <@ ' || base INTO plan;
		IF (plan -> 0 -> 'Plan' ->> 'Plan Rows')::float8 NOT BETWEEN low AND high THEN
			RAISE NOTICE '%: %', base, plan -> 0 -> 'Plan' ->> 'Plan Rows';
			RETURN false;
		END IF;
	END LOOP;
	RETURN true;
END $$;
SELECT pg_temp.within_bounds('aturi_repo(u)', 25, 100) AS of_repository, pg_temp.within_bounds('aturi_did(u)', 25, 100) AS of_did,
	   pg_temp.within_bounds('aturi(aturi_did(u), aturi_collection(u))', 10, 75) AS of_collection;
SELECT count(*) FROM (SELECT pg_temp.within_bounds(quote_literal(u), 1, 1) AS one FROM many LIMIT 20) s WHERE one;
TRUNCATE many;
INSERT INTO many SELECT aturi(('did:web:w' || r || '.x')::did, 'a.b.c'::nsid, n::text::recordkey) FROM generate_series(1, 7500) r, generate_series(1, 2) n;
ANALYZE many;
SELECT count(*) FROM generate_series(1, 20) n WHERE pg_temp.within_bounds(format($$%L::aturi$$, 'at://did:web:w' || n || '.x'), 1, 10);
DROP TABLE many;

-- <@ is leakproof: with row security it uses the index.
CREATE ROLE regress_reader;
ALTER TABLE inside ENABLE ROW LEVEL SECURITY;
CREATE POLICY hide ON inside USING (aturi_tid(u) IS NOT NULL);
GRANT SELECT ON inside TO regress_reader;
SET ROLE regress_reader;
EXPLAIN (COSTS OFF) SELECT * FROM inside WHERE u <@ 'at://did:web:w1500.x';
EXPLAIN (COSTS OFF) SELECT * FROM inside WHERE 'did:web:w1500.x'::did @> u;
RESET ROLE;
ALTER TABLE inside DISABLE ROW LEVEL SECURITY;
DROP POLICY hide ON inside;
REVOKE SELECT ON inside FROM regress_reader;
DROP ROLE regress_reader;

-- BRIN takes the range as well.
DROP INDEX inside_u;
CREATE INDEX inside_u ON inside USING brin (u) WITH (pages_per_range = 4);
SET enable_seqscan = off;
RESET enable_bitmapscan;
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x';
SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x';
-- A hash index does not.
DROP INDEX inside_u;
CREATE INDEX inside_u ON inside USING hash (u);
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ 'at://did:web:w1500.x';
DROP TABLE inside;

-- The greatest authority there can be has still an upper bound.
SELECT length(aturi_upper_bound(('at://' || repeat('~', 8187))::aturi)::text), aturi_upper_bound('at://a.b'), aturi_upper_bound('at://a.b?x'),
	   aturi_upper_bound(('at://a.b/' || repeat('c', 8183))::aturi);
