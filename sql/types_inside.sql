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
EXPLAIN (COSTS OFF) SELECT count(*) FROM inside WHERE u <@ NULL::aturi;
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
